// Writes a decided batch in one call, which fails whole unless heads, keys and balances are as cached.
import type { QueryConfig } from 'pg';
import { bigintArray, bytesArray, doubleArray, plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import { setTenants, type Client } from '../platform/postgres.ts';
import type { Balance, Posted } from './accounting.ts';
import type { CachedAccount } from './account-cache.ts';
import { insertAccounts, type NewAccount } from './chart.ts';
import { datedTypes, datedValues } from './dated-writes.ts';
import type { Head, LogRow } from './log.ts';
import { extraTypes, extraValues, isEmpty, subjectTypes, subjectValues, type Extras } from './write-extras.ts';
import type { ValidatedPosting } from './mapping.ts';

/** A balance after a batch. */
export interface BalanceWrite {
  tenant: string;
  account: CachedAccount;
  currency: string;
  /** The version that was read. */
  from: bigint;
  after: Balance;
  atMs: number;
}

/** A posting that the rules allow, at its position in the batch's log. */
export interface PostedWrite {
  posting: ValidatedPosting;
  /** Index of its event in the batch's log. */
  row: number;
  result: Posted;
  /** UUID of the transaction of which it reverses all that was left, or null. */
  reverses: string | null;
}

/** A head that moves. */
export interface MovedHead {
  head: Head;
  /** The head before. */
  from: Head;
}

/** What a batch writes, heads aside. */
export interface BatchRows {
  /** UUIDs. */
  tenants: string[];
  /** Relay cursors to activate: their tenants, ascending, and until when they are active. */
  relayCursors: { tenants: string[]; activeUntilMs: number };
  log: LogRow[];
  /** In the order of their events in the log. */
  posted: PostedWrite[];
  balances: BalanceWrite[];
  extras: Extras;
}

/** A batch that is written on condition that heads are as cached. */
export interface BatchWrite extends BatchRows {
  /** By the database's clock, milliseconds since the Unix epoch: a call that arrives later fails. */
  deadlineMs: number;
  /** Heads on which it depends and which it does not move. */
  unmovedHeads: Head[];
  /** Heads that it moves, ascending by tenant. */
  movedHeads: MovedHead[];
}

/**
 * Writes a batch in one call, a transaction of its own unless the caller has begun one, and returns the database's clock in milliseconds
 * since the Unix epoch. Fails whole: 40001 if a row is not as cached or the call is too late, 23505 if a key was used. The parameters are
 * described with the function `write_batch`.
 */
export async function write(client: Client, batch: BatchWrite): Promise<number> {
  const { rows } = await client.query<{ now_ms: number }>(isSinglePosting(batch) ? singleCall(batch) : batchCall(batch));
  return (rows[0] as { now_ms: number }).now_ms;
}

/** Sends a batch in the caller's transaction, which has locked the heads, with the accounts it creates. Await all answers. */
export function writeLocked(client: Client, heads: Head[], rows: BatchRows, newAccounts: NewAccount[] = []): Promise<unknown>[] {
  return [
    ...(heads.length > 0 ? [moveHeads(client, heads)] : []),
    // Before the balances, which refer to them by foreign key.
    ...(newAccounts.length > 0 ? [insertAccounts(client, newAccounts)] : []),
    write(client, { ...rows, deadlineMs: Infinity, unmovedHeads: [], movedHeads: [] }),
  ];
}

// Not by `write_batch`, whose lock time-out of 1 ms would also hit other waits, such as for a page.
async function moveHeads(client: Client, heads: Head[]): Promise<void> {
  await client.query({
    name: 'move_heads',
    text: `update heads set sequence = ($2::bigint[])[i], hash = ($3::bytea[])[i], last_at = to_timestamp(($4::float8[])[i] / 1000.0),
        chart = ($5::text[])[i]
      from generate_series(1, cardinality($1::uuid[])) as i,
        lateral (select ctid as row_id from heads where tenant_id = ($1::uuid[])[i] offset 0) head
      where heads.ctid = row_id`,
    values: [uuidArray(heads.map(({ tenant }) => tenant)), ...newValuesOf(heads)],
  });
}

const batchTypes = [
  ...['text', 'text', 'uuid[]', 'bigint[]', 'bytea[]', 'bigint[]'],
  ...['uuid[]', 'bigint[]', 'bytea[]', 'bigint[]', 'bigint[]', 'bytea[]', 'float8[]', 'text[]', 'uuid[]', 'float8'],
  ...['uuid[]', 'bigint[]', 'uuid[]', 'text[]', 'float8[]', 'text[]', 'text[]', 'text[]', 'bytea[]', 'bytea[]'],
  ...['uuid[]', 'text[]', 'bytea[]', 'text[]', 'uuid[]'],
  ...['int[]', 'uuid[]', 'text[]', 'smallint[]', 'text[]', 'bigint[]', 'numeric[]'],
  ...['uuid[]', 'uuid[]', 'text[]', 'numeric[]', 'numeric[]', 'numeric[]', 'numeric[]', 'bigint[]', 'bigint[]', 'float8[]'],
];
const singleTypes = [
  ...['uuid', 'bigint', 'bytea', 'bigint', 'bigint', 'bytea', 'float8'],
  ...['uuid', 'text', 'text', 'text', 'bytea', 'uuid', 'text', 'bytea', 'text', 'uuid'],
  ...['uuid[]', 'text[]', 'text[]', 'bigint[]', 'numeric[]', 'uuid[]', 'text[]', 'numeric[]', 'numeric[]', 'bigint[]'],
];

// The parameter after the function's own is the deadline; those of `write_extras` and `write_dated` come last.
function call(name: string, types: string[], outer: [name: string, types: string[]][] = []): string {
  const parameters = (all: string[], first: number) => all.map((type, index) => `$${first + index}::${type}`).join(', ');
  let written = `${name}(${parameters(types, 1)})`;
  let next = types.length + 2;
  for (const [around, more] of outer) {
    written = `${around}(${written}, ${parameters(more, next)})`;
    next += more.length;
  }
  return `select ${written} as now_ms
    from must_change(1, (clock_timestamp() < to_timestamp($${types.length + 1}::float8 / 1000.0))::int, 'deadlines')`;
}
const batchText = call('write_batch', batchTypes);
// What is called around `write_batch`, by whether there is something for it.
const extrasCall: [string, string[]] = ['write_extras', extraTypes];
const datedCall: [string, string[]] = ['write_dated', datedTypes];
const extrasText = call('write_batch', batchTypes, [extrasCall]);
const datedText = call('write_batch', batchTypes, [datedCall]);
const extrasAndDatedText = call('write_batch', batchTypes, [extrasCall, datedCall]);
// The few batches with personal data call all three, whatever else they have.
const personalText = call('write_batch', batchTypes, [extrasCall, datedCall, ['write_personal', subjectTypes]]);
const singleText = call('write_batch_of_one', singleTypes);

function batchCall(batch: BatchWrite): QueryConfig {
  const { parts, holds, velocity, shifted, metadata, subjects } = batch.extras;
  const values = valuesOf(batch);
  if (subjects.length > 0) {
    const around = [...extraValues(batch.extras), ...datedValues(shifted, metadata), ...subjectValues(subjects)];
    return { name: 'write_batch_and_personal', text: personalText, values: [...values, ...around] };
  }
  const hasExtras = parts.length + holds.length + velocity.length > 0;
  if (shifted.length + metadata.length === 0) {
    if (!hasExtras) return { name: 'write_batch', text: batchText, values };
    return { name: 'write_batch_and_extras', text: extrasText, values: [...values, ...extraValues(batch.extras)] };
  }
  const dated = datedValues(shifted, metadata);
  if (!hasExtras) return { name: 'write_batch_and_dated', text: datedText, values: [...values, ...dated] };
  return { name: 'write_batch_extras_and_dated', text: extrasAndDatedText, values: [...values, ...extraValues(batch.extras), ...dated] };
}

/** Whether a batch is one posting on existing balances and nothing else. */
function isSinglePosting({ tenants, unmovedHeads, movedHeads, relayCursors, log, posted, balances, extras }: BatchWrite): boolean {
  const single = [tenants, movedHeads, log, posted].every(({ length }) => length === 1);
  return (
    single && unmovedHeads.length === 0 && relayCursors.tenants.length === 0 && isEmpty(extras) && balances.every(({ from }) => from > 0n)
  );
}

function singleCall({ movedHeads, log, posted, balances, deadlineMs }: BatchWrite): QueryConfig {
  const [{ head, from }, row, { posting, result, reverses }] = [movedHeads[0] as MovedHead, log[0] as LogRow, posted[0] as PostedWrite];
  const values = [
    ...[head.tenant, from.sequence, from.hash, from.rebuilt, head.sequence, head.hash, row.createdMs],
    ...[row.eventId, row.actor, row.requestId, row.traceparent ?? null, row.payload],
    ...[posting.transaction, posting.idempotencyKey, posting.fingerprint, posting.reference, reverses],
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
    deadlineMs,
  ];
  return { name: 'write_batch_of_one', text: singleText, values };
}

function valuesOf({ tenants, deadlineMs, unmovedHeads, movedHeads, relayCursors, log, posted, balances }: BatchWrite): unknown[] {
  const writes: (PostedWrite | null)[] = log.map(() => null);
  for (const each of posted) writes[each.row] = each;
  const heads = movedHeads.map(({ head }) => head);
  return [
    ...setTenants(tenants).values,
    ...oldValuesOf(unmovedHeads),
    ...oldValuesOf(movedHeads.map(({ from }) => from)),
    ...newValuesOf(heads),
    uuidArray(relayCursors.tenants),
    relayCursors.activeUntilMs,
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
    uuidArray(writes.map((write) => write?.posting.transaction ?? null)),
    textArray(writes.map((write) => write?.posting.idempotencyKey ?? null)),
    bytesArray(writes.map((write) => write?.posting.fingerprint ?? null)),
    textArray(writes.map((write) => write?.posting.reference ?? null)),
    uuidArray(writes.map((write) => write?.reverses ?? null)),
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
    deadlineMs,
  ];
}

/** What heads must be for the cached state to be valid. */
function oldValuesOf(heads: Head[]): unknown[] {
  return [
    uuidArray(heads.map((head) => head.tenant)),
    bigintArray(heads.map((head) => head.sequence)),
    bytesArray(heads.map((head) => head.hash)),
    bigintArray(heads.map((head) => head.rebuilt)),
  ];
}

function newValuesOf(heads: Head[]): unknown[] {
  return [
    bigintArray(heads.map((head) => head.sequence)),
    bytesArray(heads.map((head) => head.hash)),
    doubleArray(heads.map((head) => head.lastMs)),
    plainArray(heads.map((head) => head.chart)),
  ];
}

/** All entries together: the trigger that sums them runs once per statement. */
function entriesOf(posted: PostedWrite[]): unknown[] {
  const entries = posted.flatMap(({ row, result }) => result.lines.map((line, position) => ({ ...line, row: row + 1, position })));
  return [
    plainArray(entries.map(({ row }) => row)),
    uuidArray(entries.map(({ account }) => (account as CachedAccount).uuid)),
    textArray(entries.map(({ currency }) => currency)),
    plainArray(entries.map(({ position }) => position)),
    textArray(entries.map(({ side }) => side)),
    bigintArray(entries.map(({ amount }) => amount)),
    plainArray(entries.map(({ balanceAfter }) => balanceAfter)),
  ];
}
