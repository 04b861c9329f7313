// What a rebuild locks and replaces.
import type pg from 'pg';
import { openWriters, posted, transfer, type Writers } from '../../../test/writers.ts';
import { toUuid } from '../../platform/ids.ts';
import { openOperator } from './operator.ts';
import { rebuild } from './rebuild.ts';

let writers: Writers;
let operator: pg.Client;
beforeAll(async () => {
  writers = await openWriters();
  operator = await openOperator(writers.ownerUrl);
});
afterAll(async () => {
  await operator.end();
  await writers.end();
});

async function rebuilt(tenantId: string): Promise<string[]> {
  const lines: string[] = [];
  await rebuild(operator, { tenant: toUuid('tenant', tenantId)!, check: false }, (line) => lines.push(line));
  return lines;
}

test('the existing log is replayed before the head is locked', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open();
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  const { rows } = await operator.query<{ pid: number }>('select pg_backend_pid() as pid');
  const { owner } = writers;
  await owner.query('begin');
  await owner.query('select from heads where tenant_id = $1 for update', [toUuid('tenant', tenant)]);
  const rebuilding = rebuilt(tenant);
  try {
    const waits = `select array(select relation::regclass::text from pg_locks where pid = $1 and mode = 'RowExclusiveLock') as written
      from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`;
    const written = async () => (await owner.query<{ written: string[] }>(waits, [rows[0]!.pid])).rows[0]?.written;
    let seen = await written();
    for (; !seen; seen = await written()) await new Promise((done) => setImmediate(done));
    expect(seen.join()).toContain('replayed_entries');
  } finally {
    await owner.query('commit');
  }
  expect(await rebuilding).toEqual([]);
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  expect(await rebuilt(tenant)).toEqual([]);
  expect(await writers.balance(tenant, 'b')).toBe('200');
});

test('only tables that differ are replaced, and balances together with accounts', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  posted(await writers.open().post(transfer(tenant, 'a', 'b', '1.00')));
  const rowVersions = async () => {
    const rowVersions: Record<string, unknown[]> = {};
    for (const table of ['accounts', 'transactions', 'entries', 'balances']) {
      const { rows } = await writers.owner.query(`select ctid::text, xmin::text from ${table} where tenant_id = $1 order by ctid`, [
        toUuid('tenant', tenant),
      ]);
      rowVersions[table] = rows;
    }
    return rowVersions;
  };
  const before = await rowVersions();
  expect(await rebuilt(tenant)).toEqual([]);
  expect(await rowVersions()).toEqual(before);
  await writers.owner.query(`update accounts set name = 'mine' where tenant_id = $1 and code = 'a'`, [toUuid('tenant', tenant)]);
  expect(await rebuilt(tenant)).toEqual([expect.stringContaining('name is "mine", by the log "a"')]);
  expect(await rowVersions()).toMatchObject({ transactions: before['transactions'], entries: before['entries'] });
  expect(await writers.balance(tenant, 'b')).toBe('100');
  expect(await rebuilt(tenant)).toEqual([]);
});

test('a rebuild of a tenant that posts continuously locks its head soon', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open();
  let reads = 0;
  let isLocked = false;
  // Before each chunk is read, one more posting arrives.
  const query = async (...given: [string | { name?: string }, ...unknown[]]): Promise<unknown> => {
    const [statement] = given;
    isLocked ||= statement === 'select from heads where tenant_id = $1 for update';
    if (!isLocked && typeof statement !== 'string' && statement.name === 'log_chunk' && ++reads < 100)
      posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
    return (operator.query as (...given: unknown[]) => Promise<unknown>).apply(operator, given);
  };
  const client = new Proxy(operator, { get: (target, name) => (name === 'query' ? query : Reflect.get(target, name)) });
  await rebuild(client, { tenant: toUuid('tenant', tenant)!, check: false }, (line) => expect(line).toBe(''));
  expect(isLocked).toBe(true);
  expect(reads).toBeGreaterThan(0);
  expect(reads).toBeLessThan(4);
  expect(await rebuilt(tenant)).toEqual([]);
  expect(await writers.transactionsOf(tenant)).toBe(reads);
});
