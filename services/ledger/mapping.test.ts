import type { MessageInitShape } from '@bufbuild/protobuf';
import { createContextValues } from '@connectrpc/connect';
import type { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { credit, debit, double, posted, reversed, tenantId } from '../../test/posting-requests.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { Refusal } from './accounting.ts';
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

const noTerms = { validUntilMs: null, effectiveAt: null, dryRun: false, overrideReason: null, origin: null, terms: null, options: null };

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
      target: null,
      traceparent,
      bytes: 600 + 10 + 1 + 2 * 120,
      ...noTerms,
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

  test('of one entry is a single entry, of up to two hundred a double one', () => {
    expect(posted({ tenantId, entries: [debit] }).kind).toBe('single');
    expect(posted({ tenantId, entries: Array(200).fill(debit) })).toMatchObject({ kind: 'double', entries: { length: 200 } });
  });

  const long = 'x'.repeat(256);
  const code = 'must be 1 to 64 letters, digits and ._:- and begin with a letter or digit';
  const decimal = 'must be a decimal string with at most 13 digits before and 2 after the point';
  test.each<[MessageInitShape<typeof PostingSchema>, field: string, tag: string, rule: string]>([
    [{ tenantId: '' }, 'tenant_id', 'required', 'must be an identifier with the prefix tenant_'],
    [{ tenantId: 'x' }, 'tenant_id', 'id', 'must be an identifier with the prefix tenant_, not "x"'],
    [{ transactionId: 'key_x' }, 'transaction_id', 'id', 'must be an identifier with the prefix txn_, not "key_x"'],
    [{ timeoutMs: -1 }, 'timeout_ms', 'min', 'must not be below zero, not -1'],
    [{ idempotencyKey: long }, 'idempotency_key', 'max', 'must have at most 255 characters'],
    [{ idempotencyKey: '\0' }, 'idempotency_key', 'unicode', 'must not contain NUL'],
    [{ idempotencyKey: 'k\n' }, 'idempotency_key', 'printable', 'must consist of printable characters without a blank at either end'],
    [{ description: 'x'.repeat(1001) }, 'description', 'max', 'must have at most 1000 characters'],
    [{ description: '\0' }, 'description', 'unicode', 'must not contain NUL'],
    [{ reference: long }, 'reference', 'max', 'must have at most 255 characters'],
    [{ reference: '👩'.repeat(256) }, 'reference', 'max', 'must have at most 255 characters'],
    [{ reference: '\0' }, 'reference', 'unicode', 'must not contain NUL'],
    [{ actor: long }, 'actor', 'max', 'must have at most 255 characters'],
    [{ requestId: long }, 'request_id', 'max', 'must have at most 255 characters'],
    [{ entries: [] }, 'entries', 'required', 'is required'],
    [{ entries: Array(201).fill(debit) }, 'entries', 'max', 'must have at most 200 items, not 201'],
    [{ entries: [{ ...debit, amount: '' }] }, 'amount', 'required', 'is required'],
    [{ entries: [credit, { ...debit, amount: '' }] }, 'entries[1].amount', 'required', 'is required'],
    [{ entries: [{ ...debit, amount: '1,00' }] }, 'amount', 'decimal', `${decimal}, not "1,00"`],
    [{ entries: [{ ...debit, amount: '-1' }] }, 'amount', 'decimal', `${decimal}, not -1`],
    [{ entries: [{ ...debit, amount: '0.00' }] }, 'amount', 'gt', 'must be greater than zero, not 0.00'],
    [{ entries: [{ ...debit, side: '' }] }, 'side', 'required', 'is required'],
    [{ entries: [{ ...debit, side: 'Debit' }] }, 'side', 'oneof', 'must be one of debit, credit, not "Debit"'],
    [{ entries: [{ ...debit, currency: '' }] }, 'currency', 'required', 'is required'],
    [{ entries: [{ ...debit, currency: 'ngn' }] }, 'currency', 'oneof', 'must be one of NGN, USD, EUR, GBP, not "ngn"'],
    [{ entries: [{ ...debit, accountCode: '' }] }, 'account_code', 'required', 'is required'],
    ...['.a', '_a', 'a b', 'a/b', 'aä', 'a\n'].map((accountCode): [MessageInitShape<typeof PostingSchema>, string, string, string] => [
      { entries: [{ ...debit, accountCode }] },
      'account_code',
      'code',
      `${code}, not ${JSON.stringify(accountCode)}`,
    ]),
  ])('%j is refused: %s, %s', (change, field, tag, rule) => {
    expect(() => posted({ ...double, ...change })).toThrow(
      expect.objectContaining({
        reason: 'validation_failed',
        message: `${field} ${rule}`,
        blame: expect.objectContaining({ field, tag }) as unknown,
      }),
    );
  });

  test('repeats the wrong value in the refusal, cut to 1,000 characters', () => {
    const blame = expect.objectContaining({ value: 'x'.repeat(1000) }) as unknown;
    expect(() => posted({ ...double, reference: 'x'.repeat(2000) })).toThrow(expect.objectContaining({ blame }));
  });

  test('may have texts and codes of full length, in code points', () => {
    const texts = { idempotencyKey: '👩'.repeat(255), description: '👩'.repeat(1000), reference: long.slice(1), actor: long.slice(1) };
    for (const accountCode of ['0', 'a.B_c:d-9', 'x'.repeat(64)])
      expect(posted({ ...double, ...texts, entries: [{ ...debit, accountCode }] })).toMatchObject(texts);
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
    expect(() => posted({ ...double, actor })).toThrow('actor must be a name without characters that are invisible or not assigned');
  });

  test('has an actor of any language', () => {
    for (const actor of ['Zoë’s nightly job (2)', 'Ops ❤️', '葛\u{e0100}城']) expect(posted({ ...double, actor }).actor).toBe(actor);
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
      target: { id: transactionId, uuid: toUuid('txn', transactionId) },
      idempotencyKey: 'k',
      description: 'd',
      actor: 'a',
      requestId: 'q',
      traceparent: null,
      timeoutMs: 10_000,
      retry: false,
      bytes: 25_000,
      ...noTerms,
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
    expect(() => reversed(init)).toThrow(`${field} must be an identifier with the prefix`);
  });
});

test('a message without a trace context gets that of its call', () => {
  const [requestHeader, values] = [new Headers({ traceparent: 'of the call' }), createContextValues()];
  expect(withTraceparent({ traceparent: '' }, { requestHeader, values })).toEqual({ traceparent: 'of the call' });
  expect(withTraceparent({ traceparent: 'own' }, { requestHeader, values })).toEqual({ traceparent: 'own' });
  expect(withTraceparent({ traceparent: '' }, { requestHeader: new Headers(), values })).toEqual({ traceparent: '' });
});
