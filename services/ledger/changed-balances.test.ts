// Balances changed by hand: nothing is posted on top of them, because a log can't be corrected.
import { create } from '@bufbuild/protobuf';
import { ReverseTransactionRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { by, openWriters, posted, reasonOf, transfer, type Writers } from '../../test/writers.ts';
import { toUuid } from '../platform/ids.ts';
import { updateAccount, type AccountUpdate } from './accounts.ts';
import { openOperator } from './audit/operator.ts';
import { rebuild } from './audit/rebuild.ts';
import { verify } from './audit/verify.ts';
import { validateReversal } from './commands.ts';

let writers: Writers;
beforeAll(async () => {
  writers = await openWriters();
});
afterAll(() => writers.end());

/** Findings of `verify`, after a `rebuild` if asked for. */
async function found(tenantId: string, rebuilt = false): Promise<string[]> {
  const operator = await openOperator(writers.ownerUrl);
  const lines: string[] = [];
  const tenant = toUuid('tenant', tenantId)!;
  if (rebuilt) await rebuild(operator, { tenant, check: false }, () => undefined);
  await verify(operator, { only: tenant }, (line) => lines.push(line));
  await operator.end();
  return lines;
}

const ofAccount = (code: string) => `tenant_id = $1 and account_id = (select id from accounts where tenant_id = $1 and code = '${code}')`;

test.each([
  ['has another amount', `update balances set debits = debits + 5 where ${ofAccount('b')} and currency = 'NGN'`, '1.05 of '],
  ['is gone', `delete from balances where ${ofAccount('b')}`, 'there is no balance in NGN, EUR, where there are entries'],
  ['is gone in one currency', `delete from balances where ${ofAccount('b')} and currency = 'EUR'`, 'there is no balance in EUR, where'],
  ['is of no time', `update balances set updated_at = 'infinity' where ${ofAccount('b')}`, 'is 1.00 of no time, '],
  [
    'has something pending',
    `update balances set pending_debits = 5 where ${ofAccount('b')}`,
    'pending in NGN are debits of 0.05 and credits of 0.00, where',
  ],
  [
    'has no entry',
    `insert into balances select tenant_id, account_id, 'USD', 5, 0, 0, 0, 1, now() from balances where ${ofAccount('b')} and currency = 'NGN'`,
    'where the newest entry left none',
  ],
])('nothing is posted to an account whose balance %s until it is rebuilt, but to others', async (_, change, what) => {
  const tenantId = await writers.tenantWith('a', 'b', 'c');
  const other = await writers.tenantWith('a', 'b');
  const once = transfer(tenantId, 'a', 'b', '1.00', { idempotencyKey: 'once' });
  const inEuro = transfer(tenantId, 'a', 'b', '1.00');
  inEuro.entries = inEuro.entries.map((entry) => ({ ...entry, currency: 'EUR' }));
  for (const posting of [once, inEuro]) expect(reasonOf(await writers.open().post(posting))).toBe('posted');
  await writers.owner.query(change, [toUuid('tenant', tenantId)]);
  const logged: object[] = [];
  const log = { error: (of: object) => logged.push(of), warn: () => undefined, debug: () => undefined };
  const writer = writers.open({ pipelines: 1, log: log as never });
  // The first batch of a tenant takes the locking path, the next one the pipeline.
  for (let turn = 0; turn < 2; turn++) {
    const outcomes = await Promise.all([
      writer.post(transfer(tenantId, 'a', 'c', '1.00')),
      writer.post(transfer(tenantId, 'b', 'a', '0.01')),
      writer.post(once),
      writer.post(transfer(other, 'a', 'b', '1.00')),
    ]);
    expect(outcomes.map(reasonOf)).toEqual(['posted', 'internal', 'replayed', 'posted']);
    // The amounts are logged, but not answered.
    expect(outcomes[1]).toMatchObject({ refusal: { message: 'internal error' } });
  }
  expect(logged).toHaveLength(2);
  expect(logged).toEqual([0, 1].map(() => expect.objectContaining({ tenant: tenantId })));
  const { err } = logged[0] as { err: Error };
  expect(err.message).toMatch(/^account b: .*; rebuild repairs it$/);
  expect(err.message).toContain(what);
  expect(await found(tenantId)).not.toEqual([]);
  expect(await found(tenantId, true)).toEqual([]);
  const { transaction } = posted(await writer.post(transfer(tenantId, 'b', 'a', '0.01')));
  expect(transaction.entries.map(({ balanceAfter }) => balanceAfter)).toEqual(['-2.99', '0.99']);
  expect(await found(tenantId)).toEqual([]);
});

test('a reversal of such an account is refused too; an account used twice in a posting is consistent', async () => {
  const tenantId = await writers.tenantWith('a', 'b');
  const twice = transfer(tenantId, 'a', 'b', '1.00');
  twice.entries = [...twice.entries, ...twice.entries];
  const { transaction } = posted(await writers.open().post(twice));
  const again = writers.open();
  expect(reasonOf(await again.post(transfer(tenantId, 'a', 'b', '1.00')))).toBe('posted');
  await writers.owner.query(`update balances set debits = debits + 5 where ${ofAccount('b')}`, [toUuid('tenant', tenantId)]);
  const reversing = { tenantId, transactionId: transaction.transactionId, actor: 'test', requestId: 'r' };
  const reversal = () => writers.open().post(validateReversal(create(ReverseTransactionRequestSchema, reversing)));
  expect(reasonOf(await reversal())).toBe('internal');
  expect(await found(tenantId, true)).toEqual([]);
  expect(reasonOf(await reversal())).toBe('posted');
});

test.each([
  ['closed', 'update balances set debits = 0', { status: 'closed' }],
  ['forbidden to be below zero', 'update balances set credits = 0', { allowNegative: false }],
])('an account whose balance was changed by hand is not %s because of it', async (_, change, wanted) => {
  const tenantId = await writers.tenantWith('a', 'b');
  const tenant = toUuid('tenant', tenantId)!;
  await writers.open().post(transfer(tenantId, 'a', 'b', '1.00'));
  const code = 'status' in wanted ? 'b' : 'a';
  await writers.owner.query(`${change} where ${ofAccount(code)}`, [tenant]);
  const changed = () => updateAccount(writers.pool, tenant, code, wanted as AccountUpdate, by);
  await expect(changed()).rejects.toThrow(/rebuild repairs it$/);
  expect(await found(tenantId, true)).toEqual([]);
  await expect(changed()).rejects.toThrow(code === 'b' ? /has a balance in NGN/ : /below zero/);
});

test('nothing is posted on a balance restored from an older copy, even with the same amount', async () => {
  const tenantId = await writers.tenantWith('a', 'b');
  const values = [toUuid('tenant', tenantId)];
  const writer = writers.open({ maxCachedAccounts: 0 });
  const through = async () => {
    for (const [from, to] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const)
      expect(reasonOf(await writer.post(transfer(tenantId, from, to, '1.00')))).toBe('posted');
  };
  await through();
  await writers.owner.query('create schema kept; create table kept.balances as table balances');
  await through();
  await writers.owner.query(`delete from balances where tenant_id = $1`, values);
  await writers.owner.query('insert into balances select * from kept.balances where tenant_id = $1', values);
  expect(reasonOf(await writer.post(transfer(tenantId, 'a', 'b', '1.00')))).toBe('internal');
  expect(await found(tenantId, true)).toEqual([]);
  await through();
  expect(await found(tenantId)).toEqual([]);
});
