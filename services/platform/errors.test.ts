import { Code, type ConnectError } from '@connectrpc/connect';
import { refusalOf } from './caller.ts';
import { Refusal, toConnectError } from './errors.ts';
import { Overloaded } from './fair-semaphore.ts';

const codes = { wrong: Code.InvalidArgument, overloaded: Code.ResourceExhausted, unavailable: Code.Unavailable };

test.each([
  [
    'a refusal',
    new Refusal('wrong', 'f is wrong', { field: 'f' }),
    Code.InvalidArgument,
    { reason: 'wrong', message: 'f is wrong', field: 'f' },
  ],
  ['an overload', new Overloaded('too much'), Code.ResourceExhausted, { reason: 'overloaded', message: 'too much', retryAfter: 1 }],
  [
    'a lost connection',
    Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }),
    Code.Unavailable,
    { reason: 'unavailable', retryAfter: 1 },
  ],
  ['a lock timeout', Object.assign(new Error('locked'), { code: '55P03' }), Code.Aborted, { reason: 'unavailable', retryAfter: 1 }],
])('%s is answered with its code', (_, thrown, code, details) => {
  const answered = toConnectError(thrown, codes, {}) as ConnectError;
  expect(answered.code).toBe(code);
  expect(refusalOf(answered)).toMatchObject(details);
});

test('the log line of a call gets the reason of a refusal, or the database error', () => {
  const [fields, gone] = [{}, Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })];
  toConnectError(new Refusal('wrong', 'f is wrong'), codes, fields);
  toConnectError(gone, codes, fields);
  expect(fields).toEqual({ reason: 'wrong', err: gone });
});

test('a bug stays the error that it is', () => {
  const bug = new TypeError('a bug');
  expect(toConnectError(bug, codes, {})).toBe(bug);
});
