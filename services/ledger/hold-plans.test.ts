// Queries of holds find rows by their indexes, however many holds a tenant has had.
import pg, { type PoolClient } from 'pg';
import { openLog } from '../platform/telemetry.ts';
import { inTransaction, openPool, type Pool } from '../platform/postgres.ts';
import { hold, holdCalls, type Command } from '../../test/hold-commands.ts';
import { startLedger, type RunningLedger } from '../../test/ledger.ts';
import { dueHolds, dueOfAllTenants, nextDue, targetHolds, usedHoldKeys } from './hold-queries.ts';
import { getHold, listHolds } from './hold-reads.ts';
import type { ValidatedPosting } from './mapping.ts';
import { ledgerPlans } from './query-plans.ts';
import { readAccounts } from './writer-queries.ts';
import { toUuid } from '../platform/ids.ts';

let ledger: RunningLedger;
let owner: pg.Client;
/** One connection, which keeps its prepared statements, and one of the expiry loop. */
let one: Pool;
let loop: Pool;
let tenant: string;
let holdId: string;
const { submit, tenantWith } = holdCalls(() => ledger.client);
const many = 3_000;
const page = { limit: 50, cursor: '' };

beforeAll(async () => {
  ledger = await startLedger();
  owner = new pg.Client({ connectionString: ledger.database.adminUrl });
  await owner.connect();
  const options = { name: 'one', max: 1, logger: openLog('test', 'silent') };
  one = openPool(ledger.database.serviceUrl, { ...options, settings: ledgerPlans });
  loop = openPool(ledger.database.serviceUrl, { ...options, settings: ledgerPlans, flag: 'app.due' });
  const own = await tenantWith('100000.00');
  ({ tenant } = own);
  const holds = async (...commands: Command[]) => (await submit(own.tenantId, commands)).map((each) => each.hold!);
  const [first] = await holds(hold('1.00', { expiresIn: 1_000n, idempotencyKey: 'k' }));
  holdId = first!.holdId;
  // Statements are prepared while the tables are small.
  await readAll();
  for (let left = many; left > 0; left -= 1_000) {
    await holds(...Array.from({ length: 1_000 }, () => hold('1.00', { expiresIn: 1_000n })));
  }
  // Nearly all of them have ended, as nearly all ever made have.
  await owner.query(`update holds set status = 'captured' where idempotency_key <> 'k'`);
  await owner.query('update hold_entries set remaining = 0 where hold_sequence > (select min(sequence) from holds)');
  await owner.query('vacuum (index_cleanup on) holds, hold_entries');
});

afterAll(async () => {
  await Promise.all([one.end(), loop.end(), owner.end()]);
  await ledger.end();
});

/** All reads of holds, each with how many rows of indexes it may touch. */
const reads: [name: string, most: number, read: () => Promise<unknown>][] = [
  ['the hold of a command', 20, () => seeing((client) => targetHolds(client, [command()]))],
  ['the hold of a key', 20, () => seeing((client) => usedHoldKeys(client, [command()]))],
  ['due holds of a tenant', 50, () => seeing((client) => dueHolds(client, [tenant], Date.now() + 10_000_000))],
  ['the next due hold of a tenant', 50, () => seeing((client) => nextDue(client, [tenant], Date.now()))],
  ['an account with its open holds', 50, () => seeing((client) => readAccounts(client, [[tenant, 'purse']]))],
  ['due holds of all tenants', 50, () => dueOfAllTenants(loop, 50, [])],
  ['one hold', 20, () => getHold(one, tenant, command().transaction)],
  ['the list', 400, () => listHolds(one, tenant, {}, page)],
  ['the list of a status', 400, () => listHolds(one, tenant, { status: 'pending' }, page)],
  ['the list of a key', 50, () => listHolds(one, tenant, { idempotencyKey: 'k' }, page)],
  ['the list of an account', 600, () => listHolds(one, tenant, { accountCode: 'purse' }, page)],
];

function command(): ValidatedPosting {
  const uuid = toUuid('hold', holdId)!;
  return { tenant, idempotencyKey: 'k', transaction: uuid, target: { id: holdId, uuid } } as ValidatedPosting;
}

function seeing<Result>(read: (client: PoolClient) => Promise<Result>): Promise<Result> {
  return inTransaction(one, [tenant], read);
}

async function readAll(): Promise<void> {
  for (const [, , read] of reads) await read();
}

/** Rows of indexes of holds that were read so far. */
async function touched(): Promise<number> {
  for (const pool of [one, loop]) await pool.query('select pg_stat_force_next_flush()');
  const text = `select sum(idx_tup_read)::int as read from pg_stat_user_indexes where relname in ('holds', 'hold_entries', 'parts', 'log')`;
  return (await owner.query<{ read: number }>(text)).rows[0]!.read;
}

describe.each(['before the tables are analysed', 'after that'])('%s', (when) => {
  beforeAll(async () => {
    if (when === 'after that') await owner.query('analyze');
  });

  test.each(reads)('a read of %s touches at most %i rows', async (_, most, read) => {
    const before = await touched();
    await read();
    expect((await touched()) - before).toBeLessThanOrEqual(most);
  });
});
