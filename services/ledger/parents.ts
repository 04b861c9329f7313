// Where an account may stand in a chart: below an active group of its own type, not below itself, at most 32 deep.
import type { AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Client, Statement } from '../platform/postgres.ts';
import { Refusal, type Reason } from './accounting.ts';

/** The most levels of a chart. */
export const maxLevels = 32;

/** An account that is to stand below a parent. */
export interface Child {
  type: string;
  parentCode: string;
  /** Levels of the account and what is below it. */
  levels: number;
}

/**
 * Checks a parent, which stands on a level of the chart (1: the top). `field` is named. Throws {@link Refusal}: `account_not_found`,
 * `parent_invalid`.
 */
export function checkParent(parent: AccountRecord | undefined, level: number, { type, parentCode, levels }: Child, field: string): void {
  const refuse = (reason: Reason, message: string) => new Refusal(reason, message, { field, tag: reason, value: parentCode });
  if (!parent) throw refuse('account_not_found', `account ${parentCode} not found`);
  if (!parent.isGroup) throw refuse('parent_invalid', `account ${parentCode} is not a group`);
  if (parent.type !== type) throw refuse('parent_invalid', `group ${parentCode} holds accounts of the type ${parent.type}, not ${type}`);
  if (parent.status === 'closed') throw refuse('parent_invalid', `group ${parentCode} is closed`);
  if (level + levels > maxLevels) {
    throw refuse(
      'parent_invalid',
      `below group ${parentCode} the chart would be ${level + levels} levels deep, and ${maxLevels} are the most`,
    );
  }
}

/** The codes of accounts and of all groups above each, by code; an unknown code has only itself. */
export async function ancestorsOf(client: Client, tenant: string, codes: string[]): Promise<Map<string, string[]>> {
  if (codes.length === 0) return new Map();
  const { rows } = await client.query<{ code: string; above: string[] }>(selectAncestors(tenant, codes));
  return new Map(rows.map(({ code, above }) => [code, above]));
}

/** The statement of {@link ancestorsOf}: a row `code`, `above` for each code. */
export function selectAncestors(tenant: string, codes: string[]): Statement {
  return {
    name: 'ancestors',
    // `offset 0`: each group by its whole key, also in a table that was not analysed.
    text: `with recursive above (start, code) as (
        select code, code collate "C" from unnest($2::text[]) as wanted (code)
        union all
        select above.start, a.parent_code from above, lateral (
            select parent_code from accounts where tenant_id = $1 and code = above.code offset 0) a
          where a.parent_code is not null)
      select start as code, array_agg(code) as above from above group by start`,
    values: [tenant, codes],
  };
}

/** Levels of an account and what is below it: 1 for one without accounts below. */
export async function levelsBelow(client: Client, tenant: string, { accountCode, isGroup }: AccountRecord): Promise<number> {
  if (!isGroup) return 1;
  const { rows } = await client.query<{ levels: number }>({
    name: 'levels_below',
    text: `with recursive below (code, level) as (
        select $2::text collate "C", 1
        union all
        select a.code, below.level + 1 from below, lateral (
          select code from accounts where tenant_id = $1 and parent_code = below.code offset 0) a)
      select max(level)::int as levels from below`,
    values: [tenant, accountCode],
  });
  return (rows[0] as { levels: number }).levels;
}

/** The places of new accounts in an order in which a parent among them stands before its children, unless they are above each other. */
export function parentsFirst(accounts: { code: string; parentCode: string | null }[]): number[] {
  const places = new Map(accounts.map(({ code }, place) => [code, place]));
  const ordered = new Set<number>();
  for (const start of accounts.keys()) {
    const chain = new Set<number>();
    let place: number | undefined = start;
    while (place !== undefined && !ordered.has(place) && !chain.has(place)) {
      chain.add(place);
      place = places.get(accounts[place]?.parentCode ?? '');
    }
    for (const each of [...chain].reverse()) ordered.add(each);
  }
  return [...ordered];
}
