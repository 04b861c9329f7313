import type { MessageInitShape } from '@bufbuild/protobuf';
import type { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { credit, debit, double, posted, reversed, tenantId } from '../../test/posting-requests.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { Refusal } from './accounting.ts';
import { checkedCode, checkedCurrency, checkedId, checkedText } from './fields.ts';
import { withTraceparent } from './mapping.ts';

const postingWith = (metadata: string) =>
  posted({ tenantId, metadata, entries: [{ accountCode: 'A', amount: '1.00', side: 'debit', currency: 'USD' }] });
const tagOf = (metadata: string) => {
  try {
    postingWith(metadata);
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

  test('white space, escapes and the order of keys do not change a request, and the stored text is compact', () => {
    const one = postingWith('{"b": [1, {"d": 1, "c": "x"}], "a": "\\u0041"}');
    const other = postingWith('{"a":"A","b":[1.0,{"c":"x","d":1}]}');
    expect(one.fingerprint).toEqual(other.fingerprint);
    expect(one.metadata).toBe('{"b":[1,{"d":1,"c":"x"}],"a":"A"}');
    expect(postingWith('{"a":"B"}').fingerprint).not.toEqual(other.fingerprint);
  });
});

/** The refusal of a call, or its result. */
function refused(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    expect(error.reason).toBe('validation_failed');
    return { ...error.blame, message: error.message };
  }
}
const because = (field: string, tag: string, value: string, predicate: string) => ({ field, tag, value, message: `${field} ${predicate}` });

describe('a field', () => {
  test('that is text has a maximum length, counted in code points', () => {
    for (const text of ['', 'abc', '👩👩👩']) expect(checkedText('f', text, { max: 3 })).toBe(text);
    for (const text of ['abcd', '👩👩👩👩', '👩👩a\u0301', 'a'.repeat(7)]) {
      expect(refused(() => checkedText('f', text, { max: 3 }))).toEqual(because('f', 'max', text, 'must have at most 3 characters'));
    }
    expect(checkedText('f', 'a', { min: 1, max: 3 })).toBe('a');
    expect(refused(() => checkedText('f', '', { min: 1, max: 3 }))).toEqual(because('f', 'required', '', 'is required'));
    expect(refused(() => checkedText('f', 'a\0', { max: 3 }))).toEqual(because('f', 'unicode', 'a\0', 'holds a NUL'));
  });

  test('that is wrong is repeated in the refusal, cut to 1,000 characters', () => {
    expect(refused(() => checkedText('f', 'x'.repeat(2000), { max: 3 }))).toMatchObject({ value: 'x'.repeat(1000) });
  });

  test.each(['A', '0', 'a.B_c:d-9', 'x'.repeat(64)])('may be the account code %s', (code) => {
    expect(checkedCode('f', code)).toBe(code);
  });

  test.each(['.a', '-a', '_a', ':a', 'a b', 'a/b', 'ä', 'aä', 'x'.repeat(65), 'a\n', ' a'])('may not be the account code %j', (code) => {
    expect(refused(() => checkedCode('f', code))).toEqual(because('f', 'code', code, 'must match ^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$'));
  });

  test('that names an account, a tenant, a transaction or a currency is required', () => {
    for (const check of [() => checkedCode('f', ''), () => checkedCurrency('f', '')]) {
      expect(refused(check)).toEqual(because('f', 'required', '', 'is required'));
    }
    for (const prefix of ['tenant', 'txn'] as const) {
      expect(refused(() => checkedId('f', prefix, ''))).toEqual(
        because('f', 'required', '', `must be an identifier with the prefix ${prefix}_`),
      );
    }
  });

  test('that is an identifier must have its prefix', () => {
    for (const [prefix, other] of [
      ['tenant', 'txn'],
      ['txn', 'tenant'],
    ] as const) {
      const [id, wrong] = [newId(prefix), newId(other)];
      expect(checkedId('f', prefix, id)).toBe(toUuid(prefix, id));
      expect(refused(() => checkedId('f', prefix, wrong))).toEqual(
        because('f', 'id', wrong, `must be an identifier with the prefix ${prefix}_`),
      );
    }
  });

  test('that is a currency must be a supported one', () => {
    for (const currency of ['NGN', 'USD', 'EUR', 'GBP']) expect(checkedCurrency('f', currency)).toBe(currency);
    for (const other of ['JPY', 'ngn']) {
      expect(refused(() => checkedCurrency('f', other))).toEqual(because('f', 'oneof', other, 'must be one of NGN USD EUR GBP'));
    }
  });
});

describe('a posting', () => {
  test('is mapped with all its fields', () => {
    const transactionId = newId('txn');
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const fields = {
      transactionId,
      idempotencyKey: 'k',
      description: 'd',
      reference: 'r',
      actor: 'a',
      requestId: 'q',
      timeoutMs: 7,
      retry: true,
    };
    const { fingerprint, ...rest } = posted({ ...double, ...fields, traceparent, metadata: '{ "m": 1 }' });
    expect(fingerprint).toHaveLength(33);
    expect(rest).toEqual({
      ...fields,
      tenantId,
      tenant: toUuid('tenant', tenantId),
      transaction: toUuid('txn', transactionId),
      kind: 'double',
      entries: [
        { code: 'CASH', amount: 1050n, side: 'debit', currency: 'NGN', counter: false },
        { code: 'SALES', amount: 1050n, side: 'credit', currency: 'NGN', counter: false },
      ],
      metadata: '{"m":1}',
      reverses: null,
      traceparent,
      bytes: 600 + 10 + 1 + 2 * 120,
    });
  });

  test('without optional fields gets an id, which is also its key, and the actor `internal`', () => {
    const own = posted(double);
    expect(toUuid('txn', own.transactionId)).toBe(own.transaction);
    expect(own).toMatchObject({
      idempotencyKey: own.transactionId,
      description: '',
      reference: null,
      metadata: '{}',
      actor: 'internal',
      requestId: '',
      traceparent: null,
      timeoutMs: 10_000,
      retry: false,
    });
  });

  test('of one entry is a single entry, and its fields are named without an index', () => {
    expect(posted({ tenantId, entries: [debit] }).kind).toBe('single');
    expect(refused(() => posted({ tenantId, entries: [{ ...debit, accountCode: '' }] }))).toMatchObject({ field: 'account_code' });
    expect(refused(() => posted({ tenantId, entries: [debit, { ...credit, accountCode: '' }] }))).toMatchObject({
      field: 'entries[1].account_code',
    });
  });

  test('has one to two hundred entries', () => {
    expect(refused(() => posted({ tenantId }))).toEqual(because('entries', 'required', '', 'is required'));
    expect(posted({ tenantId, entries: Array(200).fill(debit) }).entries).toHaveLength(200);
    expect(refused(() => posted({ tenantId, entries: Array(201).fill(debit) }))).toEqual(
      because('entries', 'max', '201', 'must have at most 200 items'),
    );
  });

  test.each<[Partial<typeof debit>, string, string, string, string]>([
    [{ amount: '' }, 'amount', 'required', '', 'is required'],
    [{ amount: '1,00' }, 'amount', 'decimal', '1,00', 'must be a decimal with at most 13 and 2 digits'],
    [{ amount: '-1' }, 'amount', 'decimal', '-1', 'must be a decimal with at most 13 and 2 digits'],
    [{ amount: '0.00' }, 'amount', 'gt', '0.00', 'must be greater than zero'],
    [{ side: '' }, 'side', 'required', '', 'must be debit or credit'],
    [{ side: 'Debit' }, 'side', 'oneof', 'Debit', 'must be debit or credit'],
    [{ currency: '' }, 'currency', 'required', '', 'is required'],
    [{ currency: 'XXX' }, 'currency', 'oneof', 'XXX', 'must be one of NGN USD EUR GBP'],
    [{ accountCode: '?' }, 'account_code', 'code', '?', 'must match ^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$'],
  ])('with the entry %j is refused for its %s', (wrong, name, tag, value, predicate) => {
    const refusalOf = (field: string) => because(field, tag, value, predicate);
    expect(refused(() => posted({ tenantId, entries: [credit, { ...debit, ...wrong }] }))).toEqual(refusalOf(`entries[1].${name}`));
    expect(refused(() => posted({ tenantId, entries: [{ ...debit, ...wrong }] }))).toEqual(refusalOf(name));
  });

  test.each<[string, (text: string) => MessageInitShape<typeof PostingSchema>, number]>([
    ['idempotency_key', (idempotencyKey) => ({ idempotencyKey }), 255],
    ['description', (description) => ({ description }), 1000],
    ['reference', (reference) => ({ reference }), 255],
    ['actor', (actor) => ({ actor }), 255],
    ['request_id', (requestId) => ({ requestId }), 255],
  ])('has a %s of bounded length', (field, withText, max) => {
    expect(() => posted({ ...double, ...withText('x'.repeat(max)) })).not.toThrow();
    expect(refused(() => posted({ ...double, ...withText('x'.repeat(max + 1)) }))).toMatchObject({ field, tag: 'max' });
    expect(refused(() => posted({ ...double, ...withText('\0') }))).toMatchObject({ field, tag: 'unicode' });
  });

  test.each([
    ' ',
    '\n',
    'a\tb',
    'user\u202eresu',
    'key\u200b',
    'admin\u3164',
    'ad\u034fmin',
    'a\u2028b',
    'a\ufe0f',
    '\ue000',
    '\u2800',
    '\ud800',
  ])('has a visible actor, other than %j', (actor) => {
    expect(refused(() => posted({ ...double, actor }))).toMatchObject({ field: 'actor', tag: 'unicode' });
    for (const seen of ['Zoë’s nightly job (2)', 'Ops ❤️', '葛\u{e0100}城']) expect(() => posted({ ...double, actor: seen })).not.toThrow();
  });

  test('has valid ids of its tenant and of itself', () => {
    expect(refused(() => posted({ ...double, tenantId: 'x' }))).toMatchObject({ field: 'tenant_id', tag: 'id' });
    expect(refused(() => posted({ ...double, transactionId: 'x' }))).toMatchObject({ field: 'transaction_id', tag: 'id' });
    expect(refused(() => posted({ ...double, timeoutMs: -1 }))).toEqual(because('timeout_ms', 'min', '-1', 'must not be below zero'));
  });
});

describe('a reversal', () => {
  const transactionId = newId('txn');

  test('is mapped with the transaction that it reverses, its own id and key, and no entries yet', () => {
    const reversalId = newId('txn');
    const own = reversed({ tenantId, transactionId, reversalId, idempotencyKey: 'k', description: 'd', actor: 'a', requestId: 'q' });
    expect(own).toEqual({
      tenantId,
      tenant: toUuid('tenant', tenantId),
      transactionId: reversalId,
      transaction: toUuid('txn', reversalId),
      kind: 'reversal',
      reference: null,
      entries: [],
      metadata: '{}',
      reverses: { id: transactionId, uuid: toUuid('txn', transactionId) },
      idempotencyKey: 'k',
      description: 'd',
      actor: 'a',
      requestId: 'q',
      traceparent: null,
      timeoutMs: 10_000,
      retry: false,
      bytes: 25_000,
      fingerprint: own.fingerprint,
    });
    expect(reversed({ tenantId, transactionId }).idempotencyKey).toMatch(/^txn_/);
    expect(reversed({ tenantId, transactionId, retry: true }).retry).toBe(true);
  });

  test.each([
    ['tenant_id', { tenantId: 'x', transactionId }],
    ['transaction_id', { tenantId, transactionId: 'x' }],
    ['reversal_id', { tenantId, transactionId, reversalId: 'x' }],
  ])('is refused for its %s', (field, init) => {
    expect(refused(() => reversed(init))).toMatchObject({ field, tag: 'id' });
  });
});

test('a message without a trace context gets that of its call', () => {
  const requestHeader = new Headers({ traceparent: 'of the call' });
  expect(withTraceparent({ traceparent: '' }, { requestHeader })).toEqual({ traceparent: 'of the call' });
  expect(withTraceparent({ traceparent: 'own' }, { requestHeader })).toEqual({ traceparent: 'own' });
  expect(withTraceparent({ traceparent: '' }, { requestHeader: new Headers() })).toEqual({ traceparent: '' });
});
