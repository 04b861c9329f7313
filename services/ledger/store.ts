// The writer's SQL: what a batch reads, and how it writes what was decided, set-based.
//
// Rows are always found from the wanted side, each by its whole key: `lateral (… offset 0)` keeps the planner from turning the join round,
// which it does while a table is small or not analysed, and keeps doing when it has grown (7 ms for 190 balances; so, 1 ms).
import type { QueryConfig } from 'pg';
import { toId } from '../platform/ids.ts';
import { bigintArray, bytesArray, doubleArray, plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import { seeing, type Client } from '../platform/postgres.ts';
import type { Balance, Posted, Side } from './accounting.ts';
import type { BookedAccount, OpenAccount } from './books.ts';
import type { Head, LogRow } from './log.ts';
import type { Order } from './wire.ts';

/** A key that was used. */
export interface KnownKey {
  tenant_id: string;
  idempotency_key: string;
  /** UUID of the transaction. */
  id: string;
  fingerprint: Buffer;
  sequence: bigint;
}

/** A transaction that is to be reversed. */
export interface Original {
  tenant_id: string;
  id: string;
  payload: Buffer;
  reversed_by: string | null;
}

/** A balance after a batch. */
export interface ChangedBalance {
  tenant: string;
  account: BookedAccount;
  currency: string;
  /** The version that was read. */
  from: bigint;
  after: Balance;
  atMs: number;
}

/** A posting in its place. */
export interface PostedOrder {
  order: Order;
  /** Where its event stands in the change's log, from 0. */
  row: number;
  result: Posted;
}

/** Begins a transaction that sees the tenants' rows. */
export function begin(client: Client, tenants: string[]): Promise<unknown>[] {
  return [client.query('begin'), client.query(seeing(tenants))];
}

/**
 * Commits; rejects where the transaction had failed and was rolled back, which PostgreSQL answers without an error, with the code of any
 * other statement behind the one that failed.
 */
export async function commit(client: Client): Promise<void> {
  const { command } = await client.query('commit');
  if (command !== 'COMMIT') throw Object.assign(new Error(`the batch ended with ${command}`), { code: '25P02' });
}

/** Which of the orders' keys were used. */
export async function knownKeys(client: Client, orders: Order[]): Promise<KnownKey[]> {
  const { rows } = await client.query<KnownKey>({
    name: 'known_keys',
    text: `select t.tenant_id, t.idempotency_key, t.id, t.fingerprint, t.sequence
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, key), lateral (
        select * from transactions where tenant_id = wanted.tenant and idempotency_key = wanted.key offset 0) t`,
    values: [uuidArray(orders.map((order) => order.tenant)), textArray(orders.map((order) => order.idempotencyKey))],
  });
  return rows;
}

/** The transactions that orders reverse. */
export async function originalsOf(client: Client, reversals: Order[]): Promise<Original[]> {
  if (reversals.length === 0) return [];
  const { rows } = await client.query<Original>({
    name: 'originals',
    text: `select t.tenant_id, t.id, l.payload, r.id as reversed_by
      from unnest($1::uuid[], $2::uuid[]) as wanted (tenant, id),
        lateral (select * from transactions where tenant_id = wanted.tenant and id = wanted.id offset 0) t,
        lateral (select * from log where tenant_id = t.tenant_id and sequence = t.sequence offset 0) l
        left join lateral (select * from transactions where tenant_id = t.tenant_id and reverses = t.id offset 0) r on true`,
    values: [uuidArray(reversals.map((order) => order.tenant)), uuidArray(reversals.map((order) => order.reverses?.uuid ?? null))],
  });
  return rows;
}

interface AccountBalanceRow {
  tenant_id: string;
  code: string;
  id: string;
  normal_balance: Side;
  currency: string | null;
  is_group: boolean;
  allow_negative: boolean;
  closed: boolean;
  system: boolean;
  held: string | null;
  debits: string;
  credits: string;
  pending_debits: string;
  pending_credits: string;
  version: bigint;
}

/** Those accounts that there are of the wanted ones (by the tenant's UUID and code), with all their balances. */
export async function openAccounts(
  client: Client,
  wanted: [tenant: string, code: string][],
): Promise<[tenant: string, code: string, open: OpenAccount][]> {
  const { rows } = await client.query<AccountBalanceRow>({
    name: 'open_accounts',
    text: `select a.tenant_id, a.code, a.id, a.normal_balance, a.currency, a.is_group, a.allow_negative, a.status = 'closed' as closed,
        a.system, b.currency as held, b.debits, b.credits, b.pending_debits, b.pending_credits, b.version
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, code),
        lateral (select * from accounts where tenant_id = wanted.tenant and code = wanted.code offset 0) a
        left join lateral (select * from balances where tenant_id = a.tenant_id and account_id = a.id offset 0) b on true`,
    values: [uuidArray(wanted.map(([tenant]) => tenant)), textArray(wanted.map(([, code]) => code))],
  });
  const found = new Map<string, [string, string, OpenAccount]>();
  for (const row of rows) {
    const place = `${row.tenant_id} ${row.code}`;
    const one = found.get(place) ?? [row.tenant_id, row.code, { account: accountOf(row), balances: new Map() }];
    found.set(place, one);
    if (row.held !== null) one[2].balances.set(row.held, balanceOf(row));
  }
  return [...found.values()];
}

function accountOf(row: AccountBalanceRow): BookedAccount {
  return {
    id: toId('acc', row.id),
    uuid: row.id,
    code: row.code,
    normalBalance: row.normal_balance,
    currency: row.currency,
    isGroup: row.is_group,
    allowNegative: row.allow_negative,
    closed: row.closed,
    system: row.system,
  };
}

function balanceOf(row: AccountBalanceRow): Balance {
  return {
    debits: BigInt(row.debits),
    credits: BigInt(row.credits),
    pendingDebits: BigInt(row.pending_debits),
    pendingCredits: BigInt(row.pending_credits),
    version: row.version,
  };
}

/** A head that has moved. */
export interface MovedHead {
  head: Head;
  /** Where it stood. */
  from: Head;
}

/** What a change writes. */
export interface Change {
  /** UUIDs. */
  tenants: string[];
  /** When it is too late for it by the database's clock, milliseconds since the Unix epoch: nothing is changed from then on. */
  untilMs: number;
  /** Heads on which it depends and which it does not move: they must stand as they are remembered. */
  standing: Head[];
  /** Heads that it moves, ascending by tenant, and where each must stand. */
  moved: MovedHead[];
  /** Marks of the relay to open, ascending, and until when. */
  opened: { tenants: string[]; untilMs: number };
  log: LogRow[];
  /** In the order of their events in the log. */
  posted: PostedOrder[];
  balances: ChangedBalance[];
}

/**
 * Writes a change in one call, which is a transaction of its own unless the caller has begun one, and answers the database's clock,
 * milliseconds since the Unix epoch. A row that is not as it is remembered rolls everything back (SQLSTATE 40001), and so does a key that
 * was used (23505), and a call that reaches the database too late (40001). What the parameters are stands with the function `write_batch`.
 */
export async function write(client: Client, change: Change): Promise<number> {
  const { rows } = await client.query<{ now_ms: number }>(isOfOne(change) ? writingOne(change) : writing(change));
  return (rows[0] as { now_ms: number }).now_ms;
}

const manyTypes = [
  ...['text', 'text', 'uuid[]', 'bigint[]', 'bytea[]', 'bigint[]'],
  ...['uuid[]', 'bigint[]', 'bytea[]', 'bigint[]', 'bigint[]', 'bytea[]', 'float8[]', 'text[]', 'uuid[]', 'float8'],
  ...['uuid[]', 'bigint[]', 'uuid[]', 'text[]', 'float8[]', 'text[]', 'text[]', 'text[]', 'bytea[]', 'bytea[]'],
  ...['uuid[]', 'text[]', 'bytea[]', 'text[]', 'uuid[]'],
  ...['int[]', 'uuid[]', 'text[]', 'smallint[]', 'text[]', 'bigint[]', 'numeric[]'],
  ...['uuid[]', 'uuid[]', 'text[]', 'numeric[]', 'numeric[]', 'numeric[]', 'numeric[]', 'bigint[]', 'bigint[]', 'float8[]'],
];
const oneTypes = [
  ...['uuid', 'bigint', 'bytea', 'bigint', 'bigint', 'bytea', 'float8'],
  ...['uuid', 'text', 'text', 'text', 'bytea', 'uuid', 'text', 'bytea', 'text', 'uuid'],
  ...['uuid[]', 'text[]', 'text[]', 'bigint[]', 'numeric[]', 'uuid[]', 'text[]', 'numeric[]', 'numeric[]', 'bigint[]'],
];

// The last parameter is when it is too late.
function call(name: string, types: string[]): string {
  return `select ${name}(${types.map((type, place) => `$${place + 1}::${type}`).join(', ')}) as now_ms
    from must_change(1, (clock_timestamp() < to_timestamp($${types.length + 1}::float8 / 1000.0))::int, 'deadlines')`;
}
const [manyText, oneText] = [call('write_batch', manyTypes), call('write_batch_of_one', oneTypes)];

function writing(change: Change): QueryConfig {
  return { name: 'write_batch', text: manyText, values: valuesOf(change) };
}

/** Whether a change is one posting and nothing else, on balances that there are. */
function isOfOne({ tenants, standing, moved, opened, log, posted, balances }: Change): boolean {
  const single = [tenants, moved, log, posted].every(({ length }) => length === 1);
  return single && standing.length === 0 && opened.tenants.length === 0 && balances.every(({ from }) => from > 0n);
}

function writingOne({ moved, log, posted, balances, untilMs }: Change): QueryConfig {
  const [{ head, from }, row, { order, result }] = [moved[0] as MovedHead, log[0] as LogRow, posted[0] as PostedOrder];
  const values = [
    ...[head.tenant, from.sequence, from.hash, from.rebuilt, head.sequence, head.hash, row.createdMs],
    ...[row.eventId, row.actor, row.requestId, row.traceparent ?? null, row.payload],
    ...[order.transaction, order.idempotencyKey, order.fingerprint, order.reference, order.reverses?.uuid ?? null],
    uuidArray(result.lines.map(({ account }) => (account as BookedAccount).uuid)),
    plainArray(result.lines.map(({ currency }) => currency)),
    plainArray(result.lines.map(({ side }) => side)),
    plainArray(result.lines.map(({ amount }) => amount)),
    plainArray(result.lines.map(({ balanceAfter }) => balanceAfter)),
    uuidArray(balances.map(({ account }) => account.uuid)),
    plainArray(balances.map(({ currency }) => currency)),
    plainArray(balances.map(({ after }) => after.debits)),
    plainArray(balances.map(({ after }) => after.credits)),
    plainArray(balances.map(({ from }) => from)),
    untilMs,
  ];
  return { name: 'write_batch_of_one', text: oneText, values };
}

function valuesOf({ tenants, untilMs, standing, moved, opened, log, posted, balances }: Change): unknown[] {
  const orders: (Order | null)[] = log.map(() => null);
  for (const { row, order } of posted) orders[row] = order;
  const heads = moved.map(({ head }) => head);
  return [
    ...seeing(tenants).values,
    ...placesOf(standing),
    ...placesOf(moved.map(({ from }) => from)),
    bigintArray(heads.map((head) => head.sequence)),
    bytesArray(heads.map((head) => head.hash)),
    doubleArray(heads.map((head) => head.lastMs)),
    plainArray(heads.map((head) => head.chart)),
    uuidArray(opened.tenants),
    opened.untilMs,
    uuidArray(log.map((row) => row.tenant)),
    bigintArray(log.map((row) => row.sequence)),
    uuidArray(log.map((row) => row.eventId)),
    textArray(log.map((row) => row.type)),
    doubleArray(log.map((row) => row.createdMs)),
    textArray(log.map((row) => row.actor)),
    textArray(log.map((row) => row.requestId)),
    textArray(log.map((row) => row.traceparent ?? null)),
    bytesArray(log.map((row) => row.payload)),
    bytesArray(log.map((row) => row.hash)),
    uuidArray(orders.map((order) => order?.transaction ?? null)),
    textArray(orders.map((order) => order?.idempotencyKey ?? null)),
    bytesArray(orders.map((order) => order?.fingerprint ?? null)),
    textArray(orders.map((order) => order?.reference ?? null)),
    uuidArray(orders.map((order) => order?.reverses?.uuid ?? null)),
    ...entriesOf(posted),
    uuidArray(balances.map(({ tenant }) => tenant)),
    uuidArray(balances.map(({ account }) => account.uuid)),
    textArray(balances.map(({ currency }) => currency)),
    plainArray(balances.map(({ after }) => after.debits)),
    plainArray(balances.map(({ after }) => after.credits)),
    plainArray(balances.map(({ after }) => after.pendingDebits)),
    plainArray(balances.map(({ after }) => after.pendingCredits)),
    bigintArray(balances.map(({ from }) => from)),
    bigintArray(balances.map(({ after }) => after.version)),
    doubleArray(balances.map(({ atMs }) => atMs)),
    untilMs,
  ];
}

/** Where heads stand, which tells their books apart from all others. */
function placesOf(heads: Head[]): unknown[] {
  return [
    uuidArray(heads.map((head) => head.tenant)),
    bigintArray(heads.map((head) => head.sequence)),
    bytesArray(heads.map((head) => head.hash)),
    bigintArray(heads.map((head) => head.rebuilt)),
  ];
}

/** All entries in one statement, which the trigger that sums them needs. */
function entriesOf(posted: PostedOrder[]): unknown[] {
  const rows: number[] = [];
  const accounts: string[] = [];
  const currencies: string[] = [];
  const positions: number[] = [];
  const sides: string[] = [];
  const amounts: bigint[] = [];
  const balances: bigint[] = [];
  for (const { row, result } of posted) {
    result.lines.forEach((line, position) => {
      rows.push(row + 1);
      accounts.push((line.account as BookedAccount).uuid);
      currencies.push(line.currency);
      positions.push(position);
      sides.push(line.side);
      amounts.push(line.amount);
      balances.push(line.balanceAfter);
    });
  }
  return [
    plainArray(rows),
    uuidArray(accounts),
    textArray(currencies),
    plainArray(positions),
    textArray(sides),
    bigintArray(amounts),
    plainArray(balances),
  ];
}
