// What the writer reads of velocity limits before it decides: the limits, the groups above accounts, and what was counted.
import { textArray, uuidArray } from '../platform/arrays.ts';
import type { Client } from '../platform/postgres.ts';
import type { TenantState } from './account-cache.ts';
import { limitOf, limitRecordOf } from './limit-record.ts';
import { limitsOf, stepsOf, subjectKey, type LimitRules } from './velocity.ts';

/** Reads the limits of tenants whose state has none yet. */
export async function readLimits(client: Client, states: TenantState[]): Promise<void> {
  const unread = states.filter(({ rules }) => rules === undefined);
  if (unread.length === 0) return;
  const { rows } = await client.query<{ tenant_id: string; record: string }>({
    name: 'limits_of_tenants',
    text: `select d.tenant_id, d.record from unnest($1::uuid[]) as wanted (tenant), lateral (
        select * from definitions where tenant_id = wanted.tenant and kind = 'limit' offset 0) d`,
    values: [uuidArray(unread.map(({ head }) => head.tenant))],
  });
  const byTenant = Map.groupBy(rows, (row) => row.tenant_id);
  for (const state of unread) {
    const limits = byTenant.get(state.head.tenant)?.map(({ record }) => limitOf(limitRecordOf(record)));
    state.rules = limits ? { limits: Map.groupBy(limits, ({ accountCode }) => accountCode), above: new Map(), steps: new Map() } : null;
  }
}

/** A tenant's limits with what is to be read for them. */
interface WantedCounts {
  tenant: string;
  rules: LimitRules;
  /** Codes of accounts. */
  codes: string[];
  /** Limits and subjects besides those of the accounts. */
  subjects: [limitId: string, subject: string][];
}

/**
 * Reads what limits have counted of accounts, with the groups above them. By tenant (UUID): `accounts`: codes of those whose state was read;
 * `released`: limits and subjects to which something may be given back.
 */
export async function readCounts(
  client: Client,
  states: TenantState[],
  accounts: ReadonlyMap<string, string[]>,
  released: ReadonlyMap<string, WantedCounts['subjects']> = new Map(),
): Promise<void> {
  const wanted = states.flatMap(({ head: { tenant }, rules }): WantedCounts[] => {
    if (!rules) return [];
    const codes = accounts.get(tenant) ?? [];
    const subjects = (released.get(tenant) ?? []).filter(([id, subject]) => !rules.steps.has(subjectKey(id, subject)));
    return codes.length + subjects.length === 0 ? [] : [{ tenant, rules, codes, subjects }];
  });
  if (wanted.length === 0) return;
  await readGroupsAbove(client, wanted);
  await readSteps(client, wanted);
}

async function readGroupsAbove(client: Client, wanted: WantedCounts[]): Promise<void> {
  const pairs = wanted.flatMap(({ tenant, codes }) => codes.map((code) => [tenant, code] as const));
  if (pairs.length === 0) return;
  const { rows } = await client.query<{ tenant_id: string; code: string; above: string[] }>({
    name: 'groups_above',
    // `offset 0`: each group by its whole key, also in a table that was not analysed.
    text: `with recursive above (tenant, start, code) as (
        select tenant, code, code collate "C" from unnest($1::uuid[], $2::text[]) as wanted (tenant, code)
        union all
        select above.tenant, above.start, a.parent_code from above, lateral (
            select parent_code from accounts where tenant_id = above.tenant and code = above.code offset 0) a
          where a.parent_code is not null)
      select tenant as tenant_id, start as code, array_agg(code) as above from above group by tenant, start`,
    values: [uuidArray(pairs.map(([tenant]) => tenant)), textArray(pairs.map(([, code]) => code))],
  });
  const rulesOf = new Map(wanted.map(({ tenant, rules }) => [tenant, rules]));
  for (const row of rows) rulesOf.get(row.tenant_id)?.above.set(row.code, row.above);
}

async function readSteps(client: Client, wanted: WantedCounts[]): Promise<void> {
  const missing = new Map<string, { tenant: string; steps: LimitRules['steps']; id: string; subject: string }>();
  for (const { tenant, rules, codes, subjects } of wanted) {
    const { limits, above, steps } = rules;
    const ofAccounts = codes.flatMap((code) => limitsOf(code, above.get(code) ?? [code], limits));
    for (const [id, subject] of [...ofAccounts.map(({ limit, subject: each }) => [limit.id, each] as const), ...subjects]) {
      const key = subjectKey(id, subject);
      if (!steps.has(key)) missing.set(`${tenant} ${key}`, { tenant, steps, id, subject });
    }
  }
  if (missing.size === 0) return;
  const all = [...missing.values()];
  const { rows } = await client.query<{ tenant_id: string; limit_id: string; subject: string; steps: string }>({
    name: 'counted_steps',
    text: `select v.* from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (tenant, id, subject), lateral (
        select * from velocity where tenant_id = wanted.tenant and limit_id = wanted.id and subject = wanted.subject offset 0) v`,
    values: [uuidArray(all.map(({ tenant }) => tenant)), textArray(all.map(({ id }) => id)), textArray(all.map(({ subject }) => subject))],
  });
  const found = new Map(rows.map((row) => [`${row.tenant_id} ${subjectKey(row.limit_id, row.subject)}`, stepsOf(row.steps)]));
  for (const [key, { steps, id, subject }] of missing) steps.set(subjectKey(id, subject), found.get(key) ?? []);
}
