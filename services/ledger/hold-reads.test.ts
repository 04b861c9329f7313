// Lists of holds: filters, pages, cursors and tenants.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ListHoldsRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { capture, hold, holdCalls, release, type Command } from '../../test/hold-commands.ts';
import { entries, newTenant, refusal, startLedger } from '../../test/ledger.ts';
import { newId } from '../platform/ids.ts';

let ledger: Awaited<ReturnType<typeof startLedger>>;
const { done, made, tenantWith } = holdCalls(() => ledger.client);
let tenantId: string;
/** Holds by a short name, oldest first. */
const holds: Record<string, { holdId: string; createdMs: bigint }> = {};

const inYears = (years: number) => BigInt(Date.now() + years * 31_536_000_000);
const inDollars: Command = {
  command: { case: 'hold', value: { entries: entries('bank debit 1.00 USD', 'fees credit 1.00 USD'), expiresMs: inYears(3) } },
};

beforeAll(async () => {
  ledger = await startLedger();
  ({ tenantId } = await tenantWith('1000.00'));
  holds['a'] = await made(tenantId, hold('1.00', { reference: 'r', idempotencyKey: 'key a' }));
  holds['b'] = await made(tenantId, hold('2.00', { reference: 'r', expiresMs: inYears(1) }));
  holds['c'] = await made(tenantId, inDollars);
  holds['d'] = await made(tenantId, hold('4.00', { expiresMs: inYears(2) }));
  await done(tenantId, capture(holds['b'].holdId));
  await done(tenantId, release(holds['d'].holdId));
});

afterAll(() => ledger.end());

type Filter = MessageInitShape<typeof ListHoldsRequestSchema>;

/** Names of the holds that are listed. */
async function listed(filter: Filter): Promise<string> {
  const { holds: found, nextCursor } = await ledger.client.listHolds({ tenantId, ...filter });
  expect(nextCursor).toBe('');
  return found.map(({ holdId }) => Object.entries(holds).find(([, each]) => each.holdId === holdId)![0]).join('');
}

test.each<[string, () => Filter, string]>([
  ['nothing', () => ({}), 'dcba'],
  ['a status', () => ({ status: 'pending' }), 'ca'],
  ['another status', () => ({ status: 'captured' }), 'b'],
  ['an account', () => ({ accountCode: 'purse' }), 'dba'],
  ['an unknown account', () => ({ accountCode: 'nobody' }), ''],
  ['a currency', () => ({ currency: 'USD' }), 'c'],
  ['an account and a currency that it has not', () => ({ accountCode: 'purse', currency: 'USD' }), ''],
  ['an account and a status', () => ({ accountCode: 'shop', status: 'voided' }), 'd'],
  ['a reference', () => ({ reference: 'r' }), 'ba'],
  ['a reference and an account', () => ({ reference: 'r', accountCode: 'purse', status: 'pending' }), 'a'],
  ['a key', () => ({ idempotencyKey: 'key a' }), 'a'],
  ['a key and an account', () => ({ idempotencyKey: 'key a', accountCode: 'fees' }), ''],
  ['a time before which they expire', () => ({ expiresBeforeMs: inYears(2) - 60_000n }), 'b'],
  ['that time and a status', () => ({ expiresBeforeMs: inYears(4), status: 'pending' }), 'c'],
  ['times between which they were made', () => ({ startMs: holds['b']!.createdMs, endMs: holds['d']!.createdMs }), 'cb'],
])('a list filtered by %s has these, newest first', async (_, filter, names) => {
  expect(await listed(filter())).toBe(names);
});

test('pages continue where the one before ended, with its filters only', async () => {
  const { client } = ledger;
  const first = await client.listHolds({ tenantId, limit: 3 });
  expect(first.holds.map(({ holdId }) => holdId)).toEqual(['d', 'c', 'b'].map((name) => holds[name]!.holdId));
  const second = await client.listHolds({ tenantId, limit: 3, cursor: first.nextCursor });
  expect(second).toMatchObject({ holds: [{ holdId: holds['a']!.holdId }], nextCursor: '' });
  const cursor = { field: 'cursor', tag: 'cursor' };
  for (const other of [{ tenantId, status: 'pending' }, newTenant()]) {
    expect(await refusal(client.listHolds({ ...other, limit: 3, cursor: first.nextCursor }))).toMatchObject(cursor);
  }
  const transactions = await client.listTransactions({ tenantId, limit: 1 });
  expect(await refusal(client.listHolds({ tenantId, cursor: transactions.nextCursor }))).toMatchObject(cursor);
});

test('a page ends where it has examined enough, and the next one goes on', async () => {
  const own = await tenantWith('100000.00');
  const wanted = await made(own.tenantId, hold('1.00', { expiresMs: inYears(1) }));
  const commands = Array.from({ length: 1_000 }, () => hold('1.00'));
  for (let call = 0; call < 5; call++) await ledger.client.submit({ tenantId: own.tenantId, commands });
  const filter = { tenantId: own.tenantId, expiresBeforeMs: inYears(2) };
  const first = await ledger.client.listHolds(filter);
  expect([first.holds, first.nextCursor]).toEqual([[], expect.stringMatching(/./)]);
  const second = await ledger.client.listHolds({ ...filter, cursor: first.nextCursor });
  expect(second).toMatchObject({ holds: [{ holdId: wanted.holdId }], nextCursor: '' });
});

test.each<[string, Filter, object]>([
  ['status', { status: 'open' }, { field: 'status', tag: 'oneof', value: 'open' }],
  ['account', { accountCode: ' ' }, { field: 'account_code', tag: 'code' }],
  ['currency', { currency: 'XXX' }, { field: 'currency', tag: 'oneof' }],
  ['key', { idempotencyKey: '' }, { field: 'idempotency_key', tag: 'required' }],
  ['time', { expiresBeforeMs: -1n }, { field: 'expires_before', tag: 'datetime' }],
  ['limit', { limit: 101 }, { field: 'limit', tag: 'max' }],
  ['cursor', { cursor: 'x' }, { field: 'cursor', tag: 'cursor' }],
])('a malformed %s is refused', async (_, filter, blame) => {
  expect(await refusal(ledger.client.listHolds({ tenantId, ...filter }))).toMatchObject({ reason: 'validation_failed', ...blame });
});

test('a hold of another tenant is unknown, and so is one that was never made', async () => {
  const { holdId } = holds['a']!;
  const other = newTenant();
  expect(await refusal(ledger.client.getHold({ tenantId: other.tenantId, holdId }))).toMatchObject({ reason: 'hold_not_found' });
  expect(await refusal(ledger.client.getHold({ tenantId, holdId: newId('hold') }))).toMatchObject({ reason: 'hold_not_found' });
  expect(await refusal(ledger.client.getHold({ tenantId, holdId: 'x' }))).toMatchObject({ reason: 'validation_failed', field: 'hold_id' });
  expect((await ledger.client.listHolds({ tenantId: other.tenantId })).holds).toEqual([]);
});
