// Velocity limits as postings meet them: what is counted, what is refused, and what is stored.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { CommandSchema, PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import { withClient } from '../../deploy/local/databases.ts';
import { openAudit, type Audit } from '../../test/audit.ts';
import { entries, newTenant, refusal, type RunningLedger } from '../../test/ledger.ts';

type Command = MessageInitShape<typeof CommandSchema>;
type More = MessageInitShape<typeof PostingSchema>;

let audit: Audit;
let ledger: RunningLedger;
/** Whose counts nobody has changed by hand. */
const untouched = new Set<string>();

beforeAll(async () => {
  audit = await openAudit();
  ({ ledger } = audit);
});
afterAll(() => audit.end());

interface Tenant {
  tenantId: string;
  tenant: string;
}

const accounts = [
  { accountCode: 'wallets', name: 'Wallets', type: 'liability', isGroup: true },
  { accountCode: 'ada', name: 'Ada', type: 'liability', parentCode: 'wallets' },
  { accountCode: 'ben', name: 'Ben', type: 'liability', parentCode: 'wallets' },
  { accountCode: 'others', name: 'Others', type: 'liability', isGroup: true },
  { accountCode: 'bank', name: 'Bank', type: 'asset' },
];

async function newBooks(): Promise<Tenant> {
  const tenant = newTenant();
  await ledger.client.createAccounts({ tenantId: tenant.tenantId, accounts });
  untouched.add(tenant.tenant);
  return tenant;
}

async function limitOn({ tenantId }: Tenant, more: object = {}): Promise<string> {
  const usual = { account_code: 'ada', currency: 'NGN', side: 'debit', max_amount: '500.00', window: { rolling_seconds: 86_400 } };
  const record = JSON.stringify({ ...usual, ...more });
  return (await ledger.client.putDefinition({ tenantId, kind: 'limit', record })).definition!.id;
}

const change = ({ tenantId }: Tenant, id: string, record: object) =>
  ledger.client.putDefinition({ tenantId, kind: 'limit', id, mustExist: true, record: JSON.stringify(record) });
const postingOf = (tenantId: string, lines: string[], more: More = {}): More => ({ tenantId, entries: entries(...lines), ...more });
const post = ({ tenantId }: Tenant, lines: string[], more: More = {}) =>
  ledger.client.postTransaction({ posting: postingOf(tenantId, lines, more) });
/** Takes an amount out of an account. */
const out = (amount: string, from = 'ada', currency = 'NGN') => [
  `${from} debit ${amount} ${currency}`,
  `bank credit ${amount} ${currency}`,
];
const exceeded = (field: string, tag: string, value: string) => ({ reason: 'limit_exceeded', field, tag, value });

async function usage({ tenantId }: Tenant, limitId: string, accountCode?: string): Promise<[amount: string, count: bigint]> {
  const { amount, count } = await ledger.client.getUsage({ tenantId, limitId, ...(accountCode !== undefined && { accountCode }) });
  return [amount, count];
}

async function stepsOf({ tenant }: Tenant): Promise<Record<string, [number, string, number][]>> {
  const { rows } = await withClient(ledger.database.adminUrl, (client) =>
    client.query<{ subject: string; steps: string }>('select subject, steps from velocity where tenant_id = $1', [tenant]),
  );
  return Object.fromEntries(rows.map(({ subject, steps }) => [subject, JSON.parse(steps) as [number, string, number][]]));
}

async function postedEvents({ tenantId }: Tenant): Promise<TransactionPosted[]> {
  const { events } = await ledger.client.listEvents({ tenantId, limit: 100 });
  return events.flatMap(({ data }) => (data.case === 'transactionPosted' ? [data.value] : []));
}

test('a limit holds up to its last kobo, and its refusal names field, tag and limit', async () => {
  const tenant = await newBooks();
  const id = await limitOn(tenant, { max_count: 3 });
  await post(tenant, out('499.99'));
  expect(await refusal(post(tenant, out('0.02')))).toMatchObject(exceeded('entries[0].account_code', 'max_amount', id));
  await post(tenant, out('0.01'));
  expect(await usage(tenant, id)).toEqual(['500.00', 2n]);
  await change(tenant, id, { max_amount: '9000.00' });
  await post(tenant, out('1.00'));
  expect(await refusal(post(tenant, out('1.00')))).toMatchObject(exceeded('entries[0].account_code', 'max_count', id));
  // A refused key is free.
  await change(tenant, id, { max_count: 4 });
  expect(await post(tenant, out('1.00'))).toMatchObject({ replayed: false });
  const refused = await refusal(post(tenant, out('1.00')));
  expect(refused.message).toBe(`the debits of ada would exceed the max_count of 4, which limit ${id} allows in its window`);
});

test('the last entry that counts is named, for each kind of posting', async () => {
  const tenant = await newBooks();
  const id = await limitOn(tenant);
  const twice = ['bank credit 501.00 NGN', 'ada debit 500.00 NGN', 'ada debit 1.00 NGN'];
  expect(await refusal(post(tenant, twice))).toMatchObject(exceeded('entries[2].account_code', 'max_amount', id));
  expect(await refusal(post(tenant, ['ada debit 500.01 NGN']))).toMatchObject(exceeded('account_code', 'max_amount', id));
  const exchange = {
    debit: { accountCode: 'ada', currency: 'NGN', amount: '501.00' },
    credit: { accountCode: 'ben', currency: 'USD', amount: '1.00' },
  };
  expect(await refusal(post(tenant, [], { exchange }))).toMatchObject(exceeded('debit.account_code', 'max_amount', id));
  await post(tenant, [], { exchange: { ...exchange, debit: { ...exchange.debit, amount: '400.00' } } });
  await post(tenant, ['ada debit 60.00 NGN']);
  await post(tenant, ['bank credit 40.00 NGN', 'ada debit 30.00 NGN', 'ada debit 10.00 NGN']);
  expect(await usage(tenant, id)).toEqual(['500.00', 3n]);
});

test('only its side, currency and account count, from its creation on', async () => {
  const tenant = await newBooks();
  await post(tenant, out('400.00'));
  const id = await limitOn(tenant);
  const suspense = await limitOn(tenant, { account_code: 'bank', side: 'credit', currency: 'USD' });
  await post(tenant, out('900.00', 'ada', 'EUR'));
  await post(tenant, out('900.00', 'ben'));
  await post(tenant, ['ada credit 900.00 NGN', 'bank debit 900.00 NGN']);
  expect(await usage(tenant, id)).toEqual(['0.00', 0n]);
  await post(tenant, out('500.00'));
  expect(await usage(tenant, id)).toEqual(['500.00', 1n]);
  await post(tenant, out('3.00', 'ben', 'USD'));
  expect(await usage(tenant, suspense)).toEqual(['3.00', 1n]);
});

test('of a group each account is counted by itself, or all together, also below its groups and after a move', async () => {
  const tenant = await newBooks();
  const { tenantId } = tenant;
  const group = { accountCode: 'minors', name: 'Minors', type: 'liability', parentCode: 'wallets', isGroup: true };
  await ledger.client.createAccounts({
    tenantId,
    accounts: [group, { ...group, accountCode: 'cleo', parentCode: 'minors', isGroup: false }],
  });
  const each = await limitOn(tenant, { account_code: 'wallets', applies: 'each', max_amount: '100.00' });
  const sum = await limitOn(tenant, { account_code: 'wallets', applies: 'sum', max_amount: '150.00' });
  await post(tenant, out('100.00', 'cleo'));
  expect(await refusal(post(tenant, out('1.00', 'cleo')))).toMatchObject(exceeded('entries[0].account_code', 'max_amount', each));
  expect(await refusal(post(tenant, out('50.01', 'ben')))).toMatchObject(exceeded('entries[0].account_code', 'max_amount', sum));
  await post(tenant, ['ada debit 20.00 NGN', 'ben debit 30.00 NGN', 'bank credit 50.00 NGN']);
  expect([await usage(tenant, each, 'cleo'), await usage(tenant, each, 'ben'), await usage(tenant, sum)]).toEqual([
    ['100.00', 1n],
    ['30.00', 1n],
    ['150.00', 2n],
  ]);
  await ledger.client.updateAccount({ tenantId, accountCode: 'ada', parentCode: 'others' });
  await post(tenant, out('70.00', 'ada'));
  expect(await usage(tenant, sum)).toEqual(['150.00', 2n]);
});

test('100 at once use a daily limit up once, and what is stored is what the log has', async () => {
  const tenant = await newBooks();
  const id = await limitOn(tenant, { window: { calendar: 'day', time_zone: 'Africa/Lagos' } });
  const results = await Promise.allSettled(Array.from({ length: 100 }, () => post(tenant, out('50.00'))));
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
  expect(await usage(tenant, id)).toEqual(['500.00', 10n]);
  const uses = (await postedEvents(tenant)).map((event) => event.uses?.uses);
  expect(uses).toHaveLength(10);
  const midnight = uses[0]?.[0]?.stepMs ?? 0n;
  expect((midnight + 3_600_000n) % 86_400_000n).toBe(0n);
  for (const use of uses) expect(use).toMatchObject([{ limitId: id, subject: 'ada', stepMs: midnight, amount: '50.00', count: 1 }]);
  expect(await stepsOf(tenant)).toEqual({ ada: [[Number(midnight), '50000', 10]] });
});

test('a new day begins with nothing, and yesterday’s step is dropped with the next use', async () => {
  const tenant = await newBooks();
  const id = await limitOn(tenant, { window: { calendar: 'day', time_zone: 'Africa/Lagos' } });
  await post(tenant, out('500.00'));
  const today = (await stepsOf(tenant))['ada']![0]![0];
  const age = `update velocity set steps = replace(steps, $2, $3) where tenant_id = $1`;
  await withClient(ledger.database.adminUrl, (client) => client.query(age, [tenant.tenant, String(today), String(today - 86_400_000)]));
  untouched.delete(tenant.tenant);
  // The ledger reads it anew, because the limit has changed.
  await change(tenant, id, { name: 'Daily' });
  expect(await usage(tenant, id)).toEqual(['0.00', 0n]);
  await post(tenant, out('500.00'));
  expect(await stepsOf(tenant)).toEqual({ ada: [[today, '50000', 1]] });
  expect(await refusal(post(tenant, out('0.01')))).toMatchObject({ reason: 'limit_exceeded', value: id });
});

test('what was counted is known to a ledger that starts', async () => {
  const tenant = await newBooks();
  const id = await limitOn(tenant);
  await post(tenant, out('500.00'));
  // A change of the chart ends what the process has in memory.
  await ledger.client.updateAccount({ tenantId: tenant.tenantId, accountCode: 'ben', name: 'Benjamin' });
  expect(await refusal(post(tenant, out('0.01')))).toMatchObject({ value: id });
});

test('a paused limit counts and refuses nothing, a deleted one is gone with what it has counted', async () => {
  const tenant = await newBooks();
  const id = await limitOn(tenant, { status: 'paused' });
  await post(tenant, out('600.00'));
  expect(await usage(tenant, id)).toEqual(['600.00', 1n]);
  const { remainingAmount } = await ledger.client.getUsage({ tenantId: tenant.tenantId, limitId: id });
  expect(remainingAmount).toBe('0.00');
  await change(tenant, id, { status: 'active' });
  expect(await refusal(post(tenant, out('0.01')))).toMatchObject({ value: id });
  await ledger.client.deleteDefinition({ tenantId: tenant.tenantId, kind: 'limit', id });
  await post(tenant, out('600.00'));
  expect(await stepsOf(tenant)).toEqual({});
  expect((await postedEvents(tenant)).map(({ uses }) => uses?.uses.length)).toEqual([1, undefined]);
});

test('an override is counted, and names each limit that it broke, after floor and ceiling', async () => {
  const tenant = await newBooks();
  const { tenantId } = tenant;
  await ledger.client.updateAccount({ tenantId, accountCode: 'ada', allowNegative: false });
  const first = await limitOn(tenant);
  const second = await limitOn(tenant, { max_amount: '600.00' });
  const reason = { overrideReason: 'Charge-back 4711' };
  expect(await refusal(post(tenant, out('900.00')))).toMatchObject({ reason: 'insufficient_funds' });
  const { transaction } = await post(tenant, out('900.00'), reason);
  expect(transaction?.origin?.override).toMatchObject({ reason: 'Charge-back 4711', broken: ['insufficient_funds', first, second] });
  expect(await usage(tenant, first)).toEqual(['900.00', 1n]);
  await ledger.client.updateAccount({ tenantId, accountCode: 'ada', allowNegative: true });
  expect(await refusal(post(tenant, out('1.00')))).toMatchObject(exceeded('entries[0].account_code', 'max_amount', first));
});

test('a reversal neither counts nor gives back', async () => {
  const tenant = await newBooks();
  const debits = await limitOn(tenant);
  const credits = await limitOn(tenant, { side: 'credit', max_amount: '1.00' });
  const { transaction } = await post(tenant, out('500.00'));
  await ledger.client.reverseTransaction({ tenantId: tenant.tenantId, transactionId: transaction!.transactionId });
  expect([await usage(tenant, debits), await usage(tenant, credits)]).toEqual([
    ['500.00', 1n],
    ['0.00', 0n],
  ]);
  expect(await refusal(post(tenant, out('0.01')))).toMatchObject({ value: debits });
});

test('a dry run uses nothing, and what is undone of an atomic call is given back', async () => {
  const tenant = await newBooks();
  const { tenantId } = tenant;
  const id = await limitOn(tenant);
  const command = (amount: string): Command => ({ command: { case: 'posting', value: postingOf(tenantId, out(amount)) } });
  const submit = async (commands: Command[], more: object = {}) =>
    (await ledger.client.submit({ tenantId, commands, actor: 'k', atomic: true, ...more })).results.map(
      ({ transaction, refusal: refused }) => refused?.value ?? transaction?.kind,
    );
  const [tried, alone] = [{ dryRun: true }, { atomic: false }];
  for (let time = 0; time < 2; time++) expect(await submit([command('300.00'), command('200.00')], tried)).toEqual(['double', 'double']);
  expect(await submit([command('300.00'), command('200.01')], tried)).toEqual([undefined, id]);
  expect(await submit([command('300.00'), command('200.01')])).toEqual([undefined, id]);
  expect([await usage(tenant, id), await stepsOf(tenant)]).toEqual([['0.00', 0n], {}]);
  const together = await Promise.all([
    submit([command('300.00'), command('300.00')]),
    submit([command('200.00')], tried),
    submit([command('200.00')], alone),
    submit([command('200.01'), command('299.98')]),
    submit([command('300.00')]),
  ]);
  expect(together[0]).toEqual([undefined, id]);
  // Whichever was first, what was done fits together, and nothing of what was refused is counted.
  const posted = [200, 499.99, 300].filter((_, at) => !together[at + 2]?.includes(id));
  expect(await usage(tenant, id)).toEqual([
    posted.reduce((sum, each) => sum + each, 0).toFixed(2),
    BigInt(posted.length + Number(posted.includes(499.99))),
  ]);
});

test('a replay is not counted again, and a tenant without limits stores nothing', async () => {
  const tenant = await newBooks();
  const free = await newBooks();
  const id = await limitOn(tenant);
  for (let time = 0; time < 3; time++) await post(tenant, out('300.00'), { idempotencyKey: 'once' });
  expect(await usage(tenant, id)).toEqual(['300.00', 1n]);
  await post(free, out('900.00'));
  expect([await stepsOf(free), (await postedEvents(free))[0]?.uses]).toEqual([{}, undefined]);
});

test('tenants in one batch keep their own counts', async () => {
  const tenants = await Promise.all(Array.from({ length: 5 }, newBooks));
  const ids = await Promise.all(tenants.map((tenant) => limitOn(tenant)));
  const postings = tenants.flatMap(({ tenantId }) => Array.from({ length: 8 }, () => postingOf(tenantId, out('100.00'))));
  const { results } = await ledger.client.postTransactions({ postings });
  expect(results.map(({ outcome }) => (outcome.case === 'refusal' ? ids.indexOf(outcome.value.value) : 'posted'))).toEqual(
    tenants.flatMap((_, at) => [...Array.from({ length: 5 }, () => 'posted'), at, at, at]),
  );
  for (const [at, tenant] of tenants.entries()) expect(await usage(tenant, ids[at]!)).toEqual(['500.00', 5n]);
});

test('the log explains every count: a replay of it finds no difference', async () => {
  expect(untouched.size).toBeGreaterThan(10);
  for (const tenant of untouched) {
    expect([tenant, await audit.verified(tenant), await audit.checked(tenant)]).toEqual([tenant, [], []]);
  }
});
