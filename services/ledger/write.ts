// How what was decided is written: one call, which moves the heads first and fails as a whole unless everything is as it is remembered.
import type { QueryConfig } from 'pg';
import { bigintArray, bytesArray, doubleArray, plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import { setTenants, type Client } from '../platform/postgres.ts';
import type { Balance, Posted } from './accounting.ts';
import type { CachedAccount } from './account-cache.ts';
import type { Head, LogRow } from './log.ts';
import type { ValidatedPosting } from './mapping.ts';

/** A balance after a batch. */
export interface ChangedBalance {
  tenant: string;
  account: CachedAccount;
  currency: string;
  /** The version that was read. */
  from: bigint;
  after: Balance;
  atMs: number;
}

/** A posting in its place. */
export interface DecidedPosting {
  posting: ValidatedPosting;
  /** Where its event stands in the change's log, from 0. */
  row: number;
  result: Posted;
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
  unmovedHeads: Head[];
  /** Heads that it moves, ascending by tenant, and where each must stand. */
  movedHeads: MovedHead[];
  /** Marks of the relay to open, ascending, and until when. */
  opened: { tenants: string[]; untilMs: number };
  log: LogRow[];
  /** In the order of their events in the log. */
  posted: DecidedPosting[];
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

/**
 * Moves heads (to where they now say) that the caller has locked, so that they stand where he read them. Nobody is kept by his waiting who does not
 * want these heads anyway: so what else it needs, a page more, say, is waited for as ever, not for the end of a commit only, as in `write_batch`.
 */
export async function moveHeads(client: Client, moved: Head[]): Promise<void> {
  if (moved.length === 0) return;
  await client.query({
    name: 'move_heads',
    text: `update heads set sequence = ($2::bigint[])[i], hash = ($3::bytea[])[i], last_at = to_timestamp(($4::float8[])[i] / 1000.0),
        chart = ($5::text[])[i]
      from generate_series(1, cardinality($1::uuid[])) as i,
        lateral (select ctid as place from heads where tenant_id = ($1::uuid[])[i] offset 0) head
      where heads.ctid = place`,
    values: [uuidArray(moved.map(({ tenant }) => tenant)), ...placesTo(moved)],
  });
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
function isOfOne({ tenants, unmovedHeads, movedHeads, opened, log, posted, balances }: Change): boolean {
  const single = [tenants, movedHeads, log, posted].every(({ length }) => length === 1);
  return single && unmovedHeads.length === 0 && opened.tenants.length === 0 && balances.every(({ from }) => from > 0n);
}

function writingOne({ movedHeads, log, posted, balances, untilMs }: Change): QueryConfig {
  const [{ head, from }, row, { posting, result }] = [movedHeads[0] as MovedHead, log[0] as LogRow, posted[0] as DecidedPosting];
  const values = [
    ...[head.tenant, from.sequence, from.hash, from.rebuilt, head.sequence, head.hash, row.createdMs],
    ...[row.eventId, row.actor, row.requestId, row.traceparent ?? null, row.payload],
    ...[posting.transaction, posting.idempotencyKey, posting.fingerprint, posting.reference, posting.reverses?.uuid ?? null],
    uuidArray(result.lines.map(({ account }) => (account as CachedAccount).uuid)),
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

function valuesOf({ tenants, untilMs, unmovedHeads, movedHeads, opened, log, posted, balances }: Change): unknown[] {
  const orders: (ValidatedPosting | null)[] = log.map(() => null);
  for (const { row, posting } of posted) orders[row] = posting;
  const heads = movedHeads.map(({ head }) => head);
  return [
    ...setTenants(tenants).values,
    ...placesOf(unmovedHeads),
    ...placesOf(movedHeads.map(({ from }) => from)),
    ...placesTo(heads),
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

/** What the rows of heads become. */
function placesTo(heads: Head[]): unknown[] {
  return [
    bigintArray(heads.map((head) => head.sequence)),
    bytesArray(heads.map((head) => head.hash)),
    doubleArray(heads.map((head) => head.lastMs)),
    plainArray(heads.map((head) => head.chart)),
  ];
}

/** All entries in one statement, which the trigger that sums them needs. */
function entriesOf(posted: DecidedPosting[]): unknown[] {
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
      accounts.push((line.account as CachedAccount).uuid);
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
