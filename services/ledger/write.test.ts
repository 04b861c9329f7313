// Heads that are held, moved by who holds them.
import { withClient } from '../../deploy/local/databases.ts';
import { openWriters, type Writers } from '../../test/writers.ts';
import { toUuid } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { lockHead } from './log.ts';
import { moveHeads } from './write.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

test('each of several heads comes to stand where it shall, and no other is moved', async () => {
  const tenants: string[] = [];
  for (let place = 0; place < 3; place++) tenants.push(toUuid('tenant', await writers.tenantWith('a'))!);
  const standing = async () => {
    const columns = 'sequence::int, hash, extract(epoch from last_at)::float8 * 1000 as "lastMs", chart, rebuilt::int';
    return (await writers.owner.query(`select ${columns} from heads where tenant_id = any($1) order by tenant_id`, [tenants])).rows;
  };
  const [, , other] = await standing();
  await inTransaction(writers.pool, tenants, async (client) => {
    const heads = [];
    for (const tenant of tenants.slice(0, 2)) heads.push((await lockHead(client, tenant, false))!.head);
    const patience = async () => (await client.query('show lock_timeout')).rows;
    const before = await patience();
    const to = (place: number) => ({ sequence: BigInt(place), hash: Buffer.alloc(32, place), lastMs: 1_700_000_000_000 + place });
    await moveHeads(client, [
      { ...heads[0]!, ...to(7), chart: 'other' },
      { ...heads[1]!, ...to(8) },
    ]);
    expect(await patience()).toEqual(before);
  });
  expect(await standing()).toEqual([
    { sequence: 7, hash: Buffer.alloc(32, 7), lastMs: 1_700_000_000_007, chart: 'other', rebuilt: 0 },
    { sequence: 8, hash: Buffer.alloc(32, 8), lastMs: 1_700_000_000_008, chart: null, rebuilt: 0 },
    other,
  ]);
});

test('who holds a head gives the table up before PostgreSQL looks for deadlocks', async () => {
  const tenant = toUuid('tenant', await writers.tenantWith('a'))!;
  await withClient(writers.adminUrl, async (admin) => {
    await admin.query('begin; lock table heads in share mode');
    const moved = inTransaction(writers.pool, [tenant], async (client) => {
      const { head } = (await lockHead(client, tenant, false))!;
      await client.query(`set local lock_timeout = 0`);
      await moveHeads(client, [head]);
    });
    await expect(moved).rejects.toMatchObject({ code: '55P03' });
  });
});
