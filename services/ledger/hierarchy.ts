// The chart of accounts as a tree, with totals of each account and all below it, read in parts.
import { create } from '@bufbuild/protobuf';
import { AccountNodeSchema, BalanceTotalSchema, type AccountNode } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { currencies, toDecimal } from '../platform/money.ts';
import { inSnapshot, readTenant, type Client, type Connections, type Statement } from '../platform/postgres.ts';
import { Refusal, net, type Side } from './accounting.ts';
import { unknownAccount } from './account-reads.ts';
import { boundOf, type AsOf } from './as-of.ts';
import { maxLevels } from './parents.ts';
import { totalsAt, type Bound } from './totals.ts';
import { accountColumns, recordOf, type AccountRow } from './chart.ts';

/** The most accounts of one answer. */
export const maxNodes = 20_000;
// With the longest texts a part is still one gRPC message of 8 MiB.
const nodesOfPart = 250;
// With totals of all currencies an answer may be twice this estimate: still one gRPC message.
const maxMessageBytes = 4 << 20;
// An account without texts.
const accountBytes = 300;

/** Which part of a chart is read. */
export interface Wanted {
  /** Code of the account at the top; undefined: the whole chart. */
  root: string | undefined;
  /** Levels to show, 1 to 32; undefined: all. */
  depth: number | undefined;
  includeBalances: boolean;
  /** Up to where balances count; null: all. */
  asOf: AsOf | null;
}

/** Runs one statement's work in the tenant's turn. */
export type InTurn = <Result>(work: () => Promise<Result>) => Promise<Result>;

/**
 * The tree flat, in parts: each account before those below it, siblings in order of creation. Balances are of every currency posted to an
 * account or below it, signed by its own normal side. Tree and balances are of one moment, texts are read part by part, so no connection is
 * held while a client reads slowly. Throws {@link Refusal}: `account_not_found` (the root), `too_large`.
 */
export async function* readHierarchy(pool: Connections, tenant: string, wanted: Wanted, inTurn: InTurn): AsyncGenerator<AccountNode[]> {
  const places = await inTurn(() => placesOf(pool, tenant, wanted));
  if (places.length === 0 && wanted.root !== undefined) throw unknownAccount(wanted.root);
  if (places.length > maxNodes) throw tooLarge(`the answer would have more than ${maxNodes} accounts`, wanted);
  for (let from = 0; from < places.length; from += nodesOfPart) {
    yield await inTurn(() => nodesOf(pool, tenant, places.slice(from, from + nodesOfPart)));
  }
}

/** The same as trees. Throws {@link Refusal}: `too_large` also for more than 4 MiB. */
export async function nested(parts: AsyncIterable<AccountNode[]>, wanted: Wanted): Promise<AccountNode[]> {
  const roots: AccountNode[] = [];
  const open: AccountNode[] = [];
  let bytes = 0;
  for await (const nodes of parts) {
    for (const node of nodes) {
      const { metadata = '', description = '' } = node.account ?? {};
      bytes += accountBytes + Buffer.byteLength(metadata + description);
      if (bytes > maxMessageBytes) throw tooLarge('the answer would have more than 4 MiB', wanted);
      (open[node.level - 2]?.children ?? roots).push(node);
      open[node.level - 1] = node;
    }
  }
  return roots;
}

function tooLarge(what: string, { depth }: Wanted): Refusal {
  return new Refusal('too_large', `${what}: read it in parts with root and depth, or list the accounts page by page`, {
    field: 'depth',
    tag: 'too_large',
    value: String(depth ?? ''),
  });
}

interface Place {
  id: string;
  level: number;
  children_count: bigint;
  totals: [currency: string, debits: string, credits: string][] | null;
}

async function placesOf(pool: Connections, tenant: string, wanted: Wanted): Promise<Place[]> {
  const { asOf } = wanted;
  if (asOf === null) return (await readTenant<[Place[]]>(pool, tenant, placesStatement(tenant, wanted)))[0];
  return inSnapshot(pool, [tenant], async (client) => {
    const given = await totalsBelow(client, tenant, wanted, await boundOf(client, tenant, asOf));
    return (await client.query<Place>(placesStatement(tenant, wanted, given))).rows;
  });
}

// The most accounts whose balances of the past are read, and how many at once: each needs an event.
const maxTotals = 100_000;
const totalsAtOnce = 1_000;

/** Columns of totals: accounts, currencies, debits, credits. */
type GivenTotals = [string[], string[], string[], string[]];

/** Totals of the root and all accounts below it. Throws {@link Refusal}: `too_large`. */
async function totalsBelow(client: Client, tenant: string, wanted: Wanted, bound: Bound): Promise<GivenTotals> {
  const { rows } = await client.query<{ id: string }>({
    text:
      wanted.root === undefined
        ? `select distinct account_id as id from balances where tenant_id = $1 limit $2`
        : `with recursive below (id, code, is_group) as (
            select id, code, is_group from accounts where tenant_id = $1 and code = $3
            union all
            select a.id, a.code, a.is_group from below ${childrenOf('below')} where below.is_group)
          select id from below where not is_group limit $2`,
    values: [tenant, maxTotals + 1, ...(wanted.root === undefined ? [] : [wanted.root])],
  });
  if (rows.length > maxTotals) throw tooLarge(`balances of more than ${maxTotals} accounts would be read`, wanted);
  const given: GivenTotals = [[], [], [], []];
  for (let from = 0; from < rows.length; from += totalsAtOnce) {
    const ids = rows.slice(from, from + totalsAtOnce).map(({ id }) => id);
    for (const [key, { debits, credits }] of (await totalsAt(client, tenant, [bound], ids))[0] ?? []) {
      [...key.split(' '), String(debits), String(credits)].forEach((value, index) => given[index]?.push(value));
    }
  }
  return given;
}

const childrenOf = (of: string) => `cross join lateral (
  select id, code, is_group from accounts where tenant_id = $1 and parent_code = ${of}.code offset 0) a`;

// The accounts to show, at most one more than allowed, each before those below it.
//
// `below` adds what is below the last level, with the path of its last shown account, so that balances are first summed up by path.
function placesStatement(tenant: string, { root, depth, includeBalances }: Wanted, given?: GivenTotals): Statement {
  const values = [tenant, depth ?? maxLevels, includeBalances, ...(root === undefined ? [] : [root]), ...(given ?? [])];
  const first = values.length - 3;
  // A full join is hashed; the planner, which expects few accounts, would compare each with each.
  const totals = given
    ? `(select path, currency, debits, credits from below
        full join unnest($${first}::uuid[], $${first + 1}::text[], $${first + 2}::numeric[], $${first + 3}::numeric[])
          as b (account_id, currency, debits, credits) on b.account_id = below.id offset 0) as b where currency is not null`
    : `below cross join lateral (
        select currency, debits, credits from balances where tenant_id = $1 and account_id = below.id offset 0) b`;
  return {
    ...(!given && { name: root === undefined ? 'hierarchy' : 'hierarchy_below' }),
    text: `with recursive shown (id, code, is_group, level, path) as (
        select id, code, is_group, 1, array[id] from accounts where tenant_id = $1 and ${root === undefined ? 'parent_code is null' : 'code = $4'}
        union all
        select a.id, a.code, a.is_group, shown.level + 1, shown.path || a.id from shown ${childrenOf('shown')}
          where shown.is_group and shown.level < $2),
      few as materialized (select * from shown limit ${maxNodes + 1}),
      below (code, id, is_group, level, path) as (
        select code, id, is_group, level, path from few where $3 and (select count(*) from few) <= ${maxNodes}
        union all
        select a.code, a.id, a.is_group, below.level, below.path from below ${childrenOf('below')}
          where below.is_group and below.level = $2),
      own as (
        select path, currency, sum(debits) as debits, sum(credits) as credits from ${totals} group by path, currency),
      totals as (
        select node, currency, sum(debits) as debits, sum(credits) as credits from own, unnest(path) as node group by node, currency)
      select id, max(level) as level, max(children_count) as children_count,
        json_agg(json_build_array(currency, debits::text, credits::text)) filter (where currency is not null) as totals
      from (
        select id, path, level, case when is_group
            then (select count(*) from accounts where tenant_id = $1 and parent_code = few.code) else 0 end as children_count,
          null::text as currency, null::numeric as debits, null::numeric as credits from few
        union all
        select node, null, null, null, currency, debits, credits from totals) as each
      group by id order by max(path)`,
    values,
  };
}

async function nodesOf(pool: Connections, tenant: string, places: Place[]): Promise<AccountNode[]> {
  const [rows] = await readTenant<[AccountRow[]]>(pool, tenant, {
    // Planned each time: of a young table any index of the tenant looks as good, and a prepared statement would keep it.
    text: `select ${accountColumns} from unnest($2::uuid[]) with ordinality as wanted (id, place),
      lateral (select * from accounts where tenant_id = $1 and id = wanted.id offset 0) a order by place`,
    values: [tenant, places.map(({ id }) => id)],
  });
  return rows.map((row, index) => {
    const { level, children_count: childrenCount, totals } = places[index] as Place;
    const balances = currencies.flatMap((currency) => {
      const total = totals?.find(([each]) => each === currency);
      if (!total) return [];
      const [debits, credits] = [BigInt(total[1]), BigInt(total[2])];
      const balance = toDecimal(net({ normalBalance: row.normal_balance as Side }, { debits, credits }));
      return [create(BalanceTotalSchema, { currency, debits: toDecimal(debits), credits: toDecimal(credits), balance })];
    });
    return create(AccountNodeSchema, { account: recordOf(row), level, childrenCount, balances });
  });
}
