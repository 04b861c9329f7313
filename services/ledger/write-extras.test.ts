// What a batch writes besides postings, and the rows on which it depends.
import { openWriters, type Writers } from '../../test/writers.ts';
import { newUuid } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { extraTypes, extraValues, noExtras, type Extras, type HoldWrite } from './write-extras.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

const text = `select write_extras(7, ${extraTypes.map((type, index) => `$${index + 1}::${type}`).join(', ')}) as now_ms`;

const write = (seenBy: string, extras: Partial<Extras>) =>
  inTransaction(writers.pool, [seenBy], (client) => client.query({ text, values: extraValues({ ...noExtras, ...extras }) })).then(
    ({ rows }) => (rows[0] as { now_ms: number }).now_ms,
    (error: unknown) => (error as { code?: string }).code,
  );

const rowsOf = async (table: string, tenant: string) =>
  (await writers.owner.query(`select to_jsonb(t) - 'tenant_id' as row from ${table} t where tenant_id = $1 order by 1`, [tenant])).rows.map(
    ({ row }: { row: unknown }) => row,
  );

const account = newUuid();
const line = { account, currency: 'NGN', side: 'debit', amount: 100n, captured: 0n, remaining: 100n, from: 100n };

function holdOf(tenant: string): HoldWrite {
  const fingerprint = Buffer.alloc(33, 1);
  return {
    tenant,
    sequence: 4n,
    made: { id: newUuid(), idempotencyKey: 'k', fingerprint, reference: null, expiresAtMs: null, createdMs: 1_000 },
    status: 'pending',
    lines: [line, { ...line, side: 'credit' }],
  };
}

test('a hold is written with its lines, and changed', async () => {
  const tenant = newUuid();
  const hold = holdOf(tenant);
  const part = { tenant, of: hold.made!.id, number: 1, sequence: 5n };
  const velocity = { tenant, limitId: 'limit', subject: 's', steps: [] };
  expect(await write(tenant, { holds: [hold], parts: [part], velocity: [velocity] })).toBe(7);
  const [stored] = await rowsOf('holds', tenant);
  expect(stored).toMatchObject({ sequence: 4, idempotency_key: 'k', status: 'pending', expires_at: null, reference: null });
  const lines = await rowsOf('hold_entries', tenant);
  expect(lines).toContainEqual(expect.objectContaining({ hold_sequence: 4, position: 1, side: 'credit', amount: 100, remaining: 100 }));
  expect(await rowsOf('parts', tenant)).toEqual([{ of: part.of, number: 1, sequence: 5 }]);
  const captured = [
    { ...line, captured: 30n, remaining: 0n },
    { ...line, side: 'credit' },
  ];
  const changed: HoldWrite = { ...hold, made: null, status: 'captured', lines: captured };
  expect(await write(tenant, { holds: [changed], velocity: [{ ...velocity, steps: [[1, 2n, 3]] }] })).toBe(7);
  expect(await rowsOf('holds', tenant)).toMatchObject([{ status: 'captured' }]);
  expect(await rowsOf('hold_entries', tenant)).toMatchObject([
    { position: 1, captured: 0, remaining: 100 },
    { position: 0, captured: 30, remaining: 0 },
  ]);
  expect(await rowsOf('velocity', tenant)).toMatchObject([{ steps: '[[1,"2",3]]' }]);
});

test('nothing is written where a row is not as it was read, or another took the number of a part', async () => {
  const tenant = newUuid();
  const hold = holdOf(tenant);
  const part = { tenant, of: hold.made!.id, number: 1, sequence: 5n };
  await write(tenant, { holds: [hold], parts: [part] });
  const before: HoldWrite = { ...hold, made: null };
  const lines = [{ ...line, from: 90n, remaining: 80n }];
  expect(await write(tenant, { holds: [{ ...before, lines }] })).toBe('40001');
  expect(await write(tenant, { holds: [{ ...before, sequence: 5n, status: 'voided' }] })).toBe('40001');
  expect(await write(tenant, { parts: [{ ...part, sequence: 6n }] })).toBe('23505');
  await write(tenant, { holds: [{ ...before, status: 'voided' }] });
  expect(await write(tenant, { holds: [{ ...before, status: 'expired' }] })).toBe('40001');
  expect(await rowsOf('hold_entries', tenant)).toMatchObject([{ remaining: 100 }, { remaining: 100 }]);
});

test('nothing of another tenant is written', async () => {
  const tenant = newUuid();
  const hold = holdOf(tenant);
  await write(tenant, { holds: [hold] });
  const other = newUuid();
  expect(await write(other, { holds: [hold] })).toBe('42501');
  expect(await write(other, { holds: [{ ...hold, made: null, status: 'voided' }] })).toBe('40001');
  expect(await write(other, { parts: [{ tenant, of: newUuid(), number: 1, sequence: 5n }] })).toBe('42501');
  expect(await write(other, { velocity: [{ tenant, limitId: 'l', subject: 's', steps: [] }] })).toBe('42501');
});
