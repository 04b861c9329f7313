// Verification: walks every log and compares chain, rules and tables with it. Reads only, one snapshot per tenant, in bounded memory.
import type pg from 'pg';
import { toId } from '../../platform/ids.ts';
import { Findings, decimalOf } from './findings.ts';
import { HeadComparison, type StoredHeads } from './stored-heads.ts';
import { auditTenants, checkPublishedOffset, endOfDeleted, snapshot, type Audited, type Progress } from './operator.ts';
import { checkRowSecurity } from './policies.ts';
import { indexState, projections } from './projections.ts';
import { Walk, type WalkOf } from './walk.ts';

/** What was verified. */
export interface Verified extends Omit<Audited, 'repaired'> {
  events: number;
  transactions: number;
  /** Kept heads that the logs were compared with. */
  heads: number;
}

/**
 * Verifies all tenants, or one (UUID): row-level security; the hash chain, gapless and with times that never go back; each event by the
 * rules; every row of every projection; the published offset; and stored heads, if there are any. `report` gets one line per finding.
 */
export async function verify(
  client: pg.ClientBase,
  { only, heads = new Map(), progress }: { only?: string | undefined; heads?: StoredHeads | undefined; progress?: Progress | undefined },
  report: (line: string) => void,
): Promise<Verified> {
  const tables = await projections(client);
  const ofSchema = new Findings(report);
  await checkRowSecurity(client, ofSchema);
  const counts = { events: 0, transactions: 0, heads: 0 };
  const left = new Set(only === undefined ? heads.keys() : []);
  const { tenants, findings } = await auditTenants(client, { only, begin: snapshot }, report, async (tenant, findings) => {
    left.delete(tenant);
    counts.heads += heads.get(tenant)?.size ?? 0;
    const kept = new HeadComparison(heads.get(tenant), findings);
    const { events, transactions } = await verifyTenant(client, { tenant, tables, findings, kept }, progress);
    counts.events += events;
    counts.transactions += transactions;
    return [];
  });
  const ofLeft = new Findings(report);
  for (const tenant of left) {
    const ofTenant = new Findings((line) => ofLeft.add(`${toId('tenant', tenant)}: ${line}`));
    const end = await endOfDeleted(client, tenant);
    if (!end) {
      ofTenant.add('heads were kept of this tenant, and nothing is left of it');
      continue;
    }
    const comparison = new HeadComparison(heads.get(tenant), ofTenant);
    comparison.applyEnd(end);
    comparison.end();
  }
  return { ...counts, tenants, findings: ofSchema.count + findings + ofLeft.count };
}

/** Verifies one tenant in the caller's snapshot; answers what was walked. */
export async function verifyTenant(client: pg.ClientBase, about: WalkOf, progress?: Progress): Promise<Walk> {
  const walk = new Walk({ ...about, indexes: await indexState(client, about.tenant) });
  for (let before = 0; await walk.next(client); before = walk.events) progress?.(walk.events - before);
  await walk.end(client);
  await checkSums(client, about.tenant, about.findings);
  await checkPublishedOffset(client, about.tenant, about.findings);
  return walk;
}

// From the tables alone, independently of the log.
async function checkSums(client: pg.ClientBase, tenant: string, findings: Findings): Promise<void> {
  const sums = await client.query<{ currency: string; sum: string }>(
    `select currency, sum(debits - credits)::text as sum from balances where tenant_id = $1 group by currency
      having sum(debits - credits) <> 0`,
    [tenant],
  );
  for (const { currency, sum } of sums.rows) findings.add(`all balances in ${currency} together are ${decimalOf(sum)}, not zero`);
  const entries = await client.query<{ code: string; currency: string }>(
    `select coalesce(a.code, sums.account_id::text) as code, sums.currency
      from (
        select account_id, currency, added.figures is distinct from stored.figures as differs
        from (
          select account_id, currency, row(sum(debits), sum(credits), sum(pending_debits), sum(pending_credits), count(distinct sequence)) as figures
          from (
            select account_id, currency, sequence, case side when 'debit' then amount else 0 end as debits,
              case side when 'credit' then amount else 0 end as credits, 0 as pending_debits, 0 as pending_credits
            from entries where tenant_id = $1
            union all
            select account_id, currency, hold_sequence, 0, 0, case side when 'debit' then remaining else 0 end,
              case side when 'credit' then remaining else 0 end
            from hold_entries where tenant_id = $1
            union all
            -- The last event of a hold has released what was not captured.
            select account_id, currency, ends.sequence, 0, 0, 0, 0
            from hold_entries e join holds h on h.tenant_id = $1 and h.sequence = e.hold_sequence
              join (select of, max(sequence) as sequence from parts where tenant_id = $1 group by of) as ends on ends.of = h.id
            where e.tenant_id = $1 and h.status <> 'pending' and captured < amount) as events
          group by account_id, currency) as added
        full join (
          select account_id, currency, row(debits::numeric, credits::numeric, pending_debits::numeric, pending_credits::numeric, version::bigint) as figures
          from balances where tenant_id = $1) as stored using (account_id, currency)) as sums
      left join accounts a on a.tenant_id = $1 and a.id = sums.account_id
      where differs`,
    [tenant],
  );
  for (const { code, currency } of entries.rows) findings.add(`the entries of ${code} in ${currency} do not add up to its balance`);
}
