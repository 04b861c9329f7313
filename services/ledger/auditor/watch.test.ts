// The watch: a change of any row by the database's owner freezes its tenant alone, and nothing else does.
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { openAudit, type Audit } from '../../../test/audit.ts';
import { fillLedger } from '../../../test/full-ledger.ts';
import { entries, newTenant, refusal } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { toId, uuidAt } from '../../platform/ids.ts';
import { recordWalk } from './watch-rows.ts';

let audit: Audit;
let auditor: RunningAuditor;
const client = () => audit.ledger.client;
const booksOf = async (tenantId: string) => (await client().getBooks({ tenantId })).books!;
const lines = entries('till debit 1.00 NGN', 'wallet credit 1.00 NGN');
const posting = (tenantId: string) => ({ tenantId, entries: lines });

beforeAll(async () => {
  audit = await openAudit();
  // All the time, as far as rests allow.
  auditor = await startAuditor(audit.ledger.database, { verifyMs: 1 });
});
afterAll(async () => {
  await auditor.end();
  await audit.end();
});

async function tenantWithPostings(count: number) {
  const { tenantId, tenant } = newTenant();
  for (const accountCode of ['till', 'wallet']) await client().createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const post = async (more: number) => {
    const postings = Array.from({ length: more }, () => posting(tenantId));
    await client().postTransactions({ postings });
  };
  await post(count);
  return { tenantId, tenant, post };
}
const age = async () => Number(/^ledger_verification_age_seconds (\S+)$/m.exec(await auditor.metrics.metrics())?.[1]);
const verifiedThrough = (tenantId: string, sequence: bigint) =>
  until(
    () => booksOf(tenantId),
    ({ verified, frozen }) => frozen !== undefined || (verified?.sequence ?? 0n) >= sequence,
  );

test('a log that grows while it is walked in steps is verified, and so is one with events of every kind', async () => {
  const { tenantId, post } = await tenantWithPostings(990);
  const full = newTenant();
  await fillLedger(client(), full.tenantId);
  // More than the last step takes come meanwhile.
  for (let more = 0; more < 10; more++) await post(140);
  const books = await verifiedThrough(tenantId, 2_392n);
  expect(books).toMatchObject({ status: 'active', verified: { sequence: 2_392n } });
  expect(books.verified!.atMs).toBeLessThanOrEqual(BigInt(Date.now()));
  const { head } = (await audit.owner.query<{ head: bigint }>('select max(sequence) as head from log where tenant_id = $1', [full.tenant]))
    .rows[0]!;
  expect(await verifiedThrough(full.tenantId, head)).toMatchObject({ status: 'active' });
}, 60_000);

// Each in a table of another kind: the log, rows that stay as they are, rows that change, and rows too many.
const damage = [
  `update log set actor = 'nobody' where tenant_id = $1 and sequence = 3`,
  `update entries set amount = amount + 1 where tenant_id = $1 and sequence = 3`,
  `update balances set debits = debits + 1, credits = credits + 1 where tenant_id = $1`,
  `insert into transaction_metadata values ($1, '', '', 1)`,
  `delete from heads where tenant_id = $1`,
];
const found = [
  /event 3 does not have the hash of its content/,
  /entries \(account_id .*, sequence 3, position 0\): amount is "1.01", by the log "1.00"/,
  /balances \(.*\): .*credits is "0.01", by the log "0.00"/,
  /transaction_metadata has 1 row without an event/,
  /heads is missing/,
];

test('a row that its owner changes freezes the tenant alone, with what differs as the reason', async () => {
  const other = await tenantWithPostings(1);
  const tenants = await Promise.all(damage.map(() => tenantWithPostings(1)));
  for (const { tenantId } of tenants) await verifiedThrough(tenantId, 3n);
  for (const [index, statement] of damage.entries()) await audit.change(tenants[index]!.tenant, statement);
  for (const [index, { tenantId }] of tenants.entries()) {
    const { frozen, verified } = await until(
      () => booksOf(tenantId),
      ({ status }) => status === 'frozen',
    );
    expect(frozen!.reason).toMatch(found[index]!);
    expect(frozen!.reason).toMatch(/^verification found [1-9][0-9]* differences?: /);
    expect(verified).toMatchObject({ sequence: 3n });
    expect(await refusal(client().postTransaction({ posting: posting(tenantId) }))).toMatchObject({ reason: 'books_frozen' });
    expect((await client().listTransactions({ tenantId })).transactions.length).toBe(1);
  }
  await client().postTransaction({ posting: posting(other.tenantId) });
  expect(await verifiedThrough(other.tenantId, 4n)).toMatchObject({ status: 'active' });
  const shown = await auditor.metrics.metrics();
  expect(shown).toContain(`ledger_frozen_tenants ${damage.length}\n`);
  expect(Number(/^ledger_verification_differences (\d+)$/m.exec(shown)?.[1])).toBeGreaterThanOrEqual(damage.length);
  expect(shown).toMatch(/ledger_verified_events_total [1-9]/);
  const { rows } = await audit.operator.query<{ report: string; findings: number }>(
    'select findings, report from verifications where tenant_id = $1',
    [tenants[0]!.tenant],
  );
  expect(rows[0]).toMatchObject({ findings: 1, report: expect.stringMatching(found[0]!) as string });
}, 60_000);

test('two auditors do not walk one tenant at once', async () => {
  const tenant = uuidAt(Date.now() - 5_000_000);
  const tenantId = toId('tenant', tenant);
  const lock = (name: string) => audit.operator.query(`select ${name}(hashtextextended('walk ' || $1, 0))`, [tenant]);
  await lock('pg_advisory_lock');
  await client().createAccount({ tenantId, accountCode: 'till', name: 'till', type: 'asset' });
  const other = await tenantWithPostings(1);
  await verifiedThrough(other.tenantId, 3n);
  expect((await booksOf(tenantId)).verified).toBeUndefined();
  // A log that was never walked waits since its tenant was created.
  await until(age, (seconds) => seconds > 4_990);
  await lock('pg_advisory_unlock');
  await verifiedThrough(tenantId, 1n);
  await until(age, (seconds) => seconds < 4_990);
});

test('a tenant that is deleted while it is walked does not keep the others waiting, nor does a clock that was set back', async () => {
  const [gone, other] = [await tenantWithPostings(1), await tenantWithPostings(1)];
  await verifiedThrough(gone.tenantId, 3n);
  await verifiedThrough(other.tenantId, 3n);
  await client().deleteTenant({ tenantId: gone.tenantId });
  const walked = { startedMs: 0, workedMs: 1, events: 3, last: { sequence: 3n, hash: Buffer.alloc(32) }, findings: 0, report: [] };
  await recordWalk(auditor.pool, gone.tenant, walked);
  const left = await audit.operator.query('select from verifications where tenant_id = $1', [gone.tenant]);
  expect(left.rowCount).toBe(0);
  // Always the one that has waited longest.
  await audit.change(
    gone.tenant,
    `insert into verifications (tenant_id, started_at, finished_at, worked_ms, events, findings, report) values ($1, to_timestamp(0), to_timestamp(0), 0, 0, 0, '')`,
  );
  await other.post(1);
  await verifiedThrough(other.tenantId, 4n);
  await audit.change(other.tenant, `update verifications set finished_at = finished_at + interval '1 day' where tenant_id = $1`);
  await other.post(1);
  expect(await verifiedThrough(other.tenantId, 5n)).toMatchObject({ status: 'active' });
}, 60_000);
