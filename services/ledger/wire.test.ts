import { create } from '@bufbuild/protobuf';
import { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { newId } from '../platform/ids.ts';
import { Refusal } from './accounting.ts';
import { orderOf } from './wire.ts';

const tenantId = newId('tenant');
const order = (metadata: string) =>
  orderOf(create(PostingSchema, { tenantId, metadata, entries: [{ accountCode: 'A', amount: '1.00', side: 'debit', currency: 'USD' }] }));
const tagOf = (metadata: string) => {
  try {
    order(metadata);
    return 'ok';
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect([error.reason, error.blame?.field]).toEqual(['validation_failed', 'metadata']);
    return error.blame?.tag;
  }
};
const nested = (levels: number) => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`;

describe('metadata of a posting', () => {
  test.each([
    ['ok', nested(10)],
    ['max', nested(11)],
    ['max', `{"a":${'['.repeat(400_000)}${']'.repeat(400_000)}}`],
    ['max', `{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`],
    ['ok', `{"a":"${'x'.repeat(16_376)}"}`],
    ['max', `{"a":"${'x'.repeat(16_377)}"}`],
    ['ok', `{"a":1${' '.repeat(60_000)}}`],
    ['max', `{"a":1${' '.repeat(70_000)}}`],
    ['type', '['],
    ['type', '[]'],
    ['type', 'null'],
    ['type', '"a"'],
    ['type', '{"a":[{"__proto__":{"admin":true}}]}'],
    ['type', '{"constructor":{"prototype":{}}}'],
    ['unicode', '{"a":["\\u0000"]}'],
    ['unicode', '{"\\u0000":1}'],
    ['unicode', '{"a":"\\udc00"}'],
    ['number', '{"a":12345678901234567890}'],
    ['number', '{"a":[-1e999]}'],
    ['ok', '{"a":[1.50,1e3,9007199254740992]}'],
  ])('%s: %.60s', (tag, metadata) => {
    expect(tagOf(metadata)).toBe(tag);
  });

  test('spaces, escapes and the order of keys make no other request, and the text is compact', () => {
    const one = order('{"b": [1, {"d": 1, "c": "x"}], "a": "\\u0041"}');
    const other = order('{"a":"A","b":[1.0,{"c":"x","d":1}]}');
    expect(one.fingerprint).toEqual(other.fingerprint);
    expect(one.metadata).toBe('{"b":[1,{"d":1,"c":"x"}],"a":"A"}');
    expect(order('{"a":"B"}').fingerprint).not.toEqual(other.fingerprint);
  });
});
