// A tenant's ledger with events of every kind, for tests of the audit.
import { newId } from '../services/platform/ids.ts';
import { capture, holdCalls, release } from './hold-commands.ts';
import { entries, refusal, type LedgerClient } from './ledger.ts';

/** A row in each table of the auditor, for the tenant `$1`. */
export const auditorInserts = [
  `insert into jobs (tenant_id, id, kind, scope, parameters, actor, request_id, status, done, total, created_at, runs)
    values ($1, $1, 'x', 'x', '{}', 'k', '', 'queued', 0, 0, now(), 0)`,
  `insert into job_chunks values ($1, $1, 0, '')`,
  `insert into search_indexes values ($1, 'order', 1, 1)`,
  `insert into transaction_texts values ($1, 1, 'x')`,
  `insert into volumes values ($1, 'NGN', now(), 1, 1)`,
  `insert into trees values ($1, 1, decode(repeat('00', 32), 'hex'), 1)`,
  `insert into tiles values ($1, 1, 0, decode(repeat('00', 32), 'hex'))`,
  `insert into checkpoints values ($1, 1, 1, decode(repeat('00', 32), 'hex'), 'x', 'x', now())`,
  `insert into verifications values ($1, 1, decode(repeat('00', 32), 'hex'), now(), now(), now(), 1, 1, 0, '')`,
  `insert into uploads values ($1, $1, 0, '')`,
  `insert into freezes values ($1, 1, now(), 'x')`,
];

/** Fills a tenant's ledger: accounts, postings of each kind, limits and holds. */
export async function fillLedger(client: LedgerClient, tenantId: string): Promise<void> {
  const post = async (lines: string[], more: { reference?: string } = {}) => {
    const { transaction } = await client.postTransaction({ posting: { tenantId, entries: entries(...lines), actor: 'k', ...more } });
    return transaction!.transactionId;
  };
  await client.createAccount({ tenantId, accountCode: 'till', name: 'Till', type: 'asset', description: 'by hand', metadata: '{"a":1}' });
  const single = await post(['till debit 9.99 EUR']);
  await client.setUpChart({ tenantId, businessType: 'wallet' });
  await post(['SETTLEMENT-NGN debit 100.00 NGN', 'CUSTOMER-WALLETS-NGN credit 100.00 NGN'], { reference: 'R1' });
  const slip = await post(['till debit 1.00 NGN', 'FEES-FX credit 1.00 NGN'], { reference: 'Ada' });
  const double = await post(['CUSTOMER-WALLETS-NGN debit 10.00 NGN', 'FEES-FX credit 4.00 NGN', 'FEES-FX credit 6.00 NGN']);
  await post(['FX-POSITION-USD debit 1.00 USD', 'till credit 1.00 USD', 'FX-POSITION-NGN credit 1500.00 NGN', 'till debit 1500.00 NGN']);
  for (const transactionId of [single, double]) await client.reverseTransaction({ tenantId, transactionId });
  await client.updateAccount({ tenantId, accountCode: 'till', name: 'Till 1', description: '', metadata: '{}' });
  await client.updateAccount({ tenantId, accountCode: 'REGULATORY-RESERVES', status: 'active', allowNegative: false });
  await pay(client, tenantId);
  await limit(client, tenantId);
  await hold(client, tenantId);
  await client.redactTransaction({ tenantId, transactionId: slip, fields: ['reference'], reason: 'a name', actor: 'k' });
  await date(client, tenantId);
  await erase(client, tenantId);
}

/** Postings with sealed data of two subjects, of whom one is erased. */
async function erase(client: LedgerClient, tenantId: string): Promise<void> {
  const subjects = [newId('subj'), newId('subj')];
  const [first = '', second = ''] = subjects;
  for (const ids of [subjects, [first], [second]]) {
    const personal = ids.map((subjectId) => ({ subjectId, nonce: Buffer.alloc(12), ciphertext: Buffer.alloc(40, 'x') }));
    const posting = { tenantId, entries: entries('till debit 1.00 NGN', 'SETTLEMENT-NGN credit 1.00 NGN'), personal };
    const { transaction } = await client.postTransaction({ posting });
    expect(transaction!.personal.map(({ subjectId }) => subjectId)).toEqual(ids);
  }
  const [once, again] = [
    await client.eraseSubject({ tenantId, subjectId: first }),
    await client.eraseSubject({ tenantId, subjectId: first }),
  ];
  expect(again).toEqual(once);
  const { transactions } = await client.listTransactions({ tenantId, subjectId: second, accountCode: 'till' });
  expect(transactions.map(({ personal }) => personal.length)).toEqual([1, 2]);
}

/** Postings of each kind that count at another time than they are recorded, of which two are in one month. */
async function date(client: LedgerClient, tenantId: string): Promise<void> {
  const change = { tenantId, actor: 'k' };
  await client.updateBooks({ ...change, timezone: 'Africa/Lagos', lateEntries: 'next_open', indexedMetadata: { items: ['order'] } });
  const at = (text: string) => BigInt(Date.parse(text));
  const post = async (effectiveMs: bigint, ...lines: string[]) => {
    const { transaction } = await client.postTransaction({
      posting: { tenantId, effectiveMs, entries: entries(...lines), metadata: '{"order":"42"}' },
    });
    return transaction!.transactionId;
  };
  const lines = ['till debit 3.00 NGN', 'SETTLEMENT-NGN credit 1.00 NGN', 'SETTLEMENT-NGN credit 2.00 NGN'];
  await client.closePeriod({ ...change, through: '2023-12-31', reason: 'audited' });
  const transactionId = await post(at('2024-01-31T23:59:59.999Z'), ...lines);
  await post(at('2023-12-01T00:00:00Z'), ...lines);
  await post(at('2024-01-01T00:00:00Z'), ...lines);
  await post(BigInt(Date.now()) + 86_400_000n, 'till debit 0.50 EUR');
  const { made, done } = holdCalls(() => client);
  const { holdId } = await made(tenantId, {
    command: { case: 'hold', value: { entries: entries('SETTLEMENT-NGN debit 5.00 NGN', 'till credit 5.00 NGN') } },
  });
  await done(tenantId, capture(holdId, { effectiveMs: at('2024-02-29T12:00:00Z') }));
  await client.reverseTransaction({ tenantId, transactionId, effectiveAsOriginal: true });
}

/** Limits that count, and a transaction that is reversed in parts. */
async function limit(client: LedgerClient, tenantId: string): Promise<void> {
  const record = { account_code: 'till', currency: 'NGN', side: 'debit', max_amount: '100' };
  const windows = [{ rolling_seconds: 3600 }, { calendar: 'day', time_zone: 'Africa/Lagos' }];
  for (const window of windows) await client.putDefinition({ tenantId, kind: 'limit', record: JSON.stringify({ ...record, window }) });
  const { transaction } = await client.postTransaction({
    posting: { tenantId, entries: entries('till debit 9.00 NGN', 'SETTLEMENT-NGN credit 9.00 NGN') },
  });
  for (const amount of ['2.00', '3.00', '']) {
    const value = { transactionId: transaction!.transactionId, ...(amount !== '' && { amount }) };
    const { results } = await client.submit({ tenantId, commands: [{ command: { case: 'reversal', value } }] });
    expect(results[0]!.refusal).toBeUndefined();
  }
}

/** An exchange, and an account with limits that an override has left below them. */
async function pay(client: LedgerClient, tenantId: string): Promise<void> {
  const exchange = {
    debit: { accountCode: 'till', currency: 'EUR', amount: '10.01' },
    credit: { accountCode: 'CUSTOMER-WALLETS-GBP', currency: 'GBP' },
    rate: { base: 'GBP', quote: 'EUR', value: '1.17' },
    fees: [{ accountCode: 'FEES-FX', currency: 'EUR', amount: '0.03' }],
    spread: { accountCode: 'FX-GAINS', referenceRate: '1.15' },
  };
  const { transaction } = await client.postTransaction({ posting: { tenantId, exchange, actor: 'k' } });
  await client.reverseTransaction({ tenantId, transactionId: transaction!.transactionId });
  const limits = [{ currency: 'NGN', minAvailable: '-5.00', maxBalance: '7' }];
  await client.createAccount({ tenantId, accountCode: 'line', name: 'Line', type: 'liability', allowNegative: false, limits });
  const change = { tenantId, accountCode: 'line' };
  await client.updateAccount({
    ...change,
    limits: { limits: [...limits, { currency: 'USD', maxBalance: '0' }] },
    blocked: { sides: ['debit'] },
  });
  const lines = entries('line debit 9.00 NGN', 'SETTLEMENT-NGN credit 9.00 NGN');
  expect((await refusal(client.postTransaction({ posting: { tenantId, entries: lines } }))).reason).toBe('account_blocked');
  await client.postTransaction({ posting: { tenantId, entries: lines, overrideReason: 'charged back' } });
  await client.updateAccount({ ...change, name: 'Overdrawn line', blocked: { sides: [] } });
}

/** Holds that are captured in parts, voided, and left pending. */
async function hold(client: LedgerClient, tenantId: string): Promise<void> {
  const { made, done } = holdCalls(() => client);
  const lines = (amount: string) => entries(`SETTLEMENT-NGN debit ${amount} NGN`, `till credit ${amount} NGN`);
  const holdOf = (more: object = {}) => made(tenantId, { command: { case: 'hold', value: { entries: lines('5.00'), ...more } } });
  const captured = await holdOf({ reference: 'order-1' });
  for (const more of [{ amount: '1.00', final: false }, { amount: '2.00' }]) await done(tenantId, capture(captured.holdId, more));
  await done(tenantId, release((await holdOf()).holdId, 'cancelled'));
  const { holdId } = await holdOf({ expiresIn: 34_560_000n });
  await done(tenantId, capture(holdId, { entries: lines('0.50'), final: false }));
}
