import { Code, type ConnectError } from '@connectrpc/connect';
import { refusalOf } from './caller.ts';
import { Refusal } from './errors.ts';
import { toConnectError } from './translate.ts';
import { Overloaded } from './fair-semaphore.ts';

const codes = { wrong: Code.InvalidArgument, overloaded: Code.ResourceExhausted, unavailable: Code.Unavailable };

test.each([
  [
    'a refusal',
    new Refusal('wrong', 'f is wrong', { field: 'f' }),
    Code.InvalidArgument,
    { reason: 'wrong', message: 'f is wrong', field: 'f' },
  ],
  ['too much at once', new Overloaded('too much'), Code.ResourceExhausted, { reason: 'overloaded', message: 'too much', retryAfter: 1 }],
  [
    'a database that is away',
    Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }),
    Code.Unavailable,
    { reason: 'unavailable', retryAfter: 1 },
  ],
  ['a row that is held', Object.assign(new Error('locked'), { code: '55P03' }), Code.Aborted, { reason: 'unavailable', retryAfter: 1 }],
])('%s is answered with its code', (_, thrown, code, told) => {
  const answered = toConnectError(thrown, codes, {}) as ConnectError;
  expect(answered.code).toBe(code);
  expect(refusalOf(answered)).toMatchObject(told);
});

test('the line of a call tells why it was refused, or what the database said', () => {
  const [fields, gone] = [{}, Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })];
  toConnectError(new Refusal('wrong', 'f is wrong'), codes, fields);
  toConnectError(gone, codes, fields);
  expect(fields).toEqual({ reason: 'wrong', err: gone });
});

test('a fault stays what it is', () => {
  const fault = new TypeError('a fault');
  expect(toConnectError(fault, codes, {})).toBe(fault);
});
