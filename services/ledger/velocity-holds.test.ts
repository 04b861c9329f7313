// Velocity limits and holds: a hold counts when it is made, and what it releases is given back where it was counted.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { CommandSchema, HoldSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { VelocityUses } from '../../proto/gen/ledger/v1/events_pb.js';
import { openAudit, type Audit } from '../../test/audit.ts';
import { entries, newTenant, type RunningLedger } from '../../test/ledger.ts';
import { until } from '../../test/polling.ts';
import { newId } from '../platform/ids.ts';

type Command = NonNullable<MessageInitShape<typeof CommandSchema>['command']>;

let audit: Audit;
let ledger: RunningLedger;
const tenants: string[] = [];

beforeAll(async () => {
  audit = await openAudit();
  ({ ledger } = audit);
});
afterAll(() => audit.end());

const accounts = [
  { accountCode: 'wallets', name: 'Wallets', type: 'liability', isGroup: true },
  { accountCode: 'others', name: 'Others', type: 'liability', isGroup: true },
  ...['ada', 'ben'].map((accountCode) => ({ accountCode, name: accountCode, type: 'liability', parentCode: 'wallets' })),
  { accountCode: 'bank', name: 'Bank', type: 'asset' },
];

async function newBooks(): Promise<string> {
  const { tenantId, tenant } = newTenant();
  await ledger.client.createAccounts({ tenantId, accounts });
  tenants.push(tenant);
  return tenantId;
}

async function limitOn(tenantId: string, more: object = {}): Promise<string> {
  const usual = { account_code: 'ada', currency: 'NGN', side: 'debit', max_amount: '500.00', window: { rolling_seconds: 86_400 } };
  const record = JSON.stringify({ ...usual, ...more });
  return (await ledger.client.putDefinition({ tenantId, kind: 'limit', record })).definition!.id;
}

async function submit(tenantId: string, commands: Command[], more: object = {}) {
  const { results } = await ledger.client.submit({ tenantId, commands: commands.map((command) => ({ command })), actor: 'k', ...more });
  return results;
}

const out = (amount: string, from = 'ada') => entries(`${from} debit ${amount} NGN`, `bank credit ${amount} NGN`);
const hold = (holdId: string, lines = out('100.00'), more: MessageInitShape<typeof HoldSchema> = {}): Command => ({
  case: 'hold',
  value: { holdId, entries: lines, ...more },
});
const capture = (holdId: string, more: object = {}): Command => ({ case: 'capture', value: { holdId, ...more } });
const release = (holdId: string): Command => ({ case: 'void', value: { holdId } });

/** Does one command; answers the value of its refusal, if any. */
async function act(tenantId: string, command: Command): Promise<string | undefined> {
  const [result] = await submit(tenantId, [command]);
  return result?.refusal?.value;
}

async function usage(tenantId: string, limitId: string, accountCode?: string): Promise<[amount: string, count: bigint]> {
  const { amount, count } = await ledger.client.getUsage({ tenantId, limitId, ...(accountCode !== undefined && { accountCode }) });
  return [amount, count];
}

async function usesOf(tenantId: string): Promise<[type: string, ...uses: string[]][]> {
  const { events } = await ledger.client.listEvents({ tenantId, limit: 100 });
  return events
    .filter(({ type }) => type.startsWith('hold') || type === 'transaction.posted')
    .map(({ type, data }) => {
      const { uses = { uses: [] } } = data.value as { uses?: Pick<VelocityUses, 'uses'> };
      return [
        type,
        ...uses.uses.map(({ subject, amount, count, positions }) => `${subject} ${amount} ${count} ${positions.join()}`.trim()),
      ];
    });
}

test('a hold counts when it is made and its capture does not; a refusal names entry, maximum and limit', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId);
  const first = newId('hold');
  await act(tenantId, hold(first, out('400.00')));
  expect(await usage(tenantId, id)).toEqual(['400.00', 1n]);
  const [refused] = await submit(tenantId, [hold(newId('hold'), out('100.01'))]);
  expect(refused?.refusal).toMatchObject({ reason: 'limit_exceeded', field: 'entries[0].account_code', tag: 'max_amount', value: id });
  await act(tenantId, capture(first));
  expect(await usage(tenantId, id)).toEqual(['400.00', 1n]);
  expect(await usesOf(tenantId)).toEqual([['hold.created', 'ada 400.00 1 0'], ['transaction.posted']]);
});

test('a void gives back amount and count where nothing was captured', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId, { max_count: 1 });
  const first = newId('hold');
  await act(tenantId, hold(first));
  expect(await act(tenantId, hold(newId('hold'), out('1.00')))).toBe(id);
  await act(tenantId, release(first));
  expect(await usage(tenantId, id)).toEqual(['0.00', 0n]);
  expect(await act(tenantId, hold(newId('hold'), out('500.00')))).toBeUndefined();
  expect((await usesOf(tenantId))[1]).toEqual(['hold.voided', 'ada -100.00 -1']);
});

test('a final capture gives back the rest, and the count stays', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId);
  const [first, second] = [newId('hold'), newId('hold')];
  await act(tenantId, hold(first));
  await act(tenantId, capture(first, { amount: '30.00' }));
  expect(await usage(tenantId, id)).toEqual(['30.00', 1n]);
  await act(tenantId, hold(second));
  await act(tenantId, capture(second, { amount: '10.00', final: false }));
  expect(await usage(tenantId, id)).toEqual(['130.00', 2n]);
  await act(tenantId, capture(second, { amount: '20.00', final: false }));
  await act(tenantId, release(second));
  expect(await usage(tenantId, id)).toEqual(['60.00', 2n]);
  expect((await usesOf(tenantId)).slice(1)).toEqual([
    ...[['transaction.posted', 'ada -70.00 0'], ['hold.created', 'ada 100.00 1 0'], ['transaction.posted'], ['transaction.posted']],
    ['hold.voided', 'ada -70.00 0'],
  ]);
});

test('of several entries each limit gets back what was released of its own, also after an account has moved', async () => {
  const tenantId = await newBooks();
  const each = await limitOn(tenantId, { account_code: 'wallets', applies: 'each' });
  const sum = await limitOn(tenantId, { account_code: 'wallets', applies: 'sum' });
  const first = newId('hold');
  const lines = entries('ada debit 60.00 NGN', 'bank credit 100.00 NGN', 'ben debit 40.00 NGN');
  await act(tenantId, hold(first, lines));
  await ledger.client.updateAccount({ tenantId, accountCode: 'ben', parentCode: 'others' });
  const part = { entries: entries('ada debit 50.00 NGN', 'bank credit 50.00 NGN'), final: false };
  expect(await act(tenantId, capture(first, part))).toBeUndefined();
  await act(tenantId, release(first));
  expect([await usage(tenantId, each, 'ada'), await usage(tenantId, sum)]).toEqual([
    ['50.00', 1n],
    ['50.00', 1n],
  ]);
  expect((await usesOf(tenantId)).at(-1)).toEqual(['hold.voided', 'ada -10.00 0', 'ben -40.00 -1', 'wallets -50.00 0']);
});

test('what one batch holds, captures and voids together is counted as one after the other', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId);
  const [first, second, third] = [newId('hold'), newId('hold'), newId('hold')];
  const steps = [hold(first, out('500.00')), capture(first, { amount: '100.00' }), hold(second, out('400.00')), release(second)];
  const tried = await submit(tenantId, [...steps, hold(third, out('400.01'))], { atomic: true });
  expect(tried.map(({ refusal }) => refusal?.value)).toEqual([undefined, undefined, undefined, undefined, id]);
  expect(await usage(tenantId, id)).toEqual(['0.00', 0n]);
  const done = await submit(tenantId, [...steps, hold(third, out('400.00'))], { atomic: true });
  expect(done.map(({ refusal }) => refusal?.value)).toEqual([undefined, undefined, undefined, undefined, undefined]);
  expect(await usage(tenantId, id)).toEqual(['500.00', 2n]);
});

test('100 holds at once use a limit up once, and what is voided is there again', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId);
  const ids = Array.from({ length: 100 }, () => newId('hold'));
  const refused = await Promise.all(ids.map((each) => act(tenantId, hold(each, out('50.00')))));
  const made = ids.filter((_, index) => refused[index] === undefined);
  expect([made.length, await usage(tenantId, id)]).toEqual([10, ['500.00', 10n]]);
  await Promise.all(made.slice(0, 4).map((each) => act(tenantId, release(each))));
  await Promise.all(made.slice(4, 7).map((each) => act(tenantId, capture(each, { amount: '20.00' }))));
  expect(await usage(tenantId, id)).toEqual(['210.00', 6n]);
});

test('what a deleted limit has counted is given back to nothing, and a limit made since has not counted it', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId);
  const first = newId('hold');
  await act(tenantId, hold(first));
  await ledger.client.deleteDefinition({ tenantId, kind: 'limit', id });
  const since = await limitOn(tenantId);
  await act(tenantId, release(first));
  expect(await usage(tenantId, since)).toEqual(['0.00', 0n]);
  expect((await usesOf(tenantId)).at(-1)).toEqual(['hold.voided']);
});

test('an override of a hold is counted and names the limit', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId);
  const [result] = await submit(tenantId, [hold(newId('hold'), out('900.00'), { overrideReason: 'Court order' })]);
  expect(result?.hold?.origin?.override).toMatchObject({ reason: 'Court order', broken: [id] });
  expect(await usage(tenantId, id)).toEqual(['900.00', 1n]);
});

test('what a due hold has left makes way for what needs it', async () => {
  const tenantId = await newBooks();
  const id = await limitOn(tenantId);
  const first = newId('hold');
  await act(tenantId, hold(first, out('100.00'), { expiresIn: 1n }));
  await act(tenantId, capture(first, { amount: '10.00', final: false }));
  // Refused as long as it is not due; 10.00 of it were captured.
  const spend: Command = { case: 'posting', value: { entries: out('490.00') } };
  await until(
    () => act(tenantId, spend),
    (value) => value === undefined,
  );
  expect(await usage(tenantId, id)).toEqual(['500.00', 2n]);
  expect((await usesOf(tenantId)).slice(-2)).toEqual([
    ['hold.expired', 'ada -90.00 0'],
    ['transaction.posted', 'ada 490.00 1'],
  ]);
});

test('the log explains every count: a replay of it finds no difference', async () => {
  for (const tenant of tenants) {
    expect([tenant, await audit.verified(tenant), await audit.checked(tenant)]).toEqual([tenant, [], []]);
  }
});
