// Personal data through REST: sealed for all but those with the scope, found by its subject, and gone with the subject's erasure.
import { withClient } from '../deploy/local/databases.ts';
import { runCommand } from '../test/audit.ts';
import type { Cluster } from '../test/cluster.ts';
import { deposit, id, line, newWallet, time, type Customer } from '../test/customer.ts';
import type { Fields } from '../test/holder.ts';
import { until } from '../test/polling.ts';
import { newReceiver, startHookCluster } from '../test/subscriber.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
let customer: Customer;
let blind: string;
const [ada, ben] = ['customer-ada-4711', 'customer-ben-4712'];
const [secret, other] = ['Augusta of Number 11', 'Benjamin of Number 12'];

beforeAll(async () => {
  cluster = await startHookCluster();
  customer = await newWallet(cluster);
  blind = await cluster.apiKey(customer.tenant, ['transactions:read', 'transactions:write', 'accounts:read']);
});
afterAll(() => cluster.stop());

let count = 0;
const newKey = () => `personal-${(count += 1)}`;
const of = (subject: string, name: string) => ({ subject, data: { name, n: 1 } });
const post = (body: Fields, key = customer.key, path = 'transactions/double-entry') =>
  cluster.rest('POST', customer.at(path), { key, body });
const get = async (path: string, key = customer.key) => (await cluster.rest('GET', customer.at(path), { key })).body.data;
const opened = (subject: string, name: string) => ({ subject_id: id('subj'), ...of(subject, name), state: 'open' });
const closed = (state = 'sealed') => ({ subject_id: id('subj'), subject: null, data: null, state });

test('all postings take it, and only callers with the scope see it', async () => {
  const personal = [of(ada, secret), of(ben, other)];
  const single = { ...line('CUSTOMER-WALLETS-USD', 'credit'), idempotency_key: newKey(), personal };
  const both = [opened(ada, secret), opened(ben, other)];
  const first = await post(single, customer.key, 'transactions');
  expect([first.status, first.body.data.transaction.personal]).toEqual([201, both]);
  const { transaction_id } = first.body.data.transaction;
  const replay = await post({ ...single, personal: [] }, blind, 'transactions');
  expect([replay.status, replay.body.data.transaction]).toMatchObject([200, { transaction_id, personal: [closed(), closed()] }]);
  const exchange = {
    ...{ idempotency_key: newKey(), debit: { account_code: 'CUSTOMER-WALLETS-USD', currency: 'USD', amount: '1.00' } },
    ...{ credit: { account_code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN', amount: '1500.00' }, personal: [of(ada, secret)] },
  };
  expect((await post(exchange, customer.key, 'transactions/exchange')).body.data.transaction.personal).toEqual([opened(ada, secret)]);

  const item = (more: Fields) => ({ op: 'double', ...deposit('1.00'), idempotency_key: newKey(), ...more });
  const items = [item({ personal: [of(ben, other)] }), item({}), item({ personal: [of(ada, secret), of(ada, secret)] })];
  const { results } = (await post({ items }, customer.key, 'transactions/batch')).body.data;
  expect(results.map(({ data, details }: any) => data?.transaction.personal ?? details.field)).toEqual([
    ...[[opened(ben, other)], [], 'personal[1].subject'],
  ]);
  const imported = await cluster.rest('POST', customer.at('transactions/import?results=all'), {
    key: customer.key,
    body: `${JSON.stringify(item({ personal: [of(ada, secret)] }))}\n`,
    headers: { 'content-type': 'application/x-ndjson' },
  });
  const posted = JSON.parse(imported.body.split('\n')[0]).transaction_id as string;

  const listed = await get(`transactions?subject=${ada}`);
  expect(listed.transactions.map((each: Fields) => (each['personal'] as object[])[0])).toEqual(Array(3).fill(opened(ada, secret)));
  expect(listed.transactions[0].transaction_id).toBe(posted);
  expect((await get(`transactions?subject=${ada}&kind=exchange`)).transactions).toHaveLength(1);
  expect((await get(`transactions?subject=${ada}&account_code=CUSTOMER-WALLETS-NGN`)).transactions).toHaveLength(1);
  const ids = new Set(listed.transactions.map(({ personal: [each] }: any) => each.subject_id));
  expect(ids.size).toBe(1);
  expect((await get('transactions?subject=nobody')).transactions).toEqual([]);
  const refused = await cluster.rest('GET', customer.at(`transactions?subject=${ada}`), { key: blind });
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([403, expect.stringContaining('scope="personal:read"')]);
  expect((await get(`transactions/${posted}`, blind)).transaction.personal).toEqual([closed()]);
  const { events } = await get('events?after_sequence=0&limit=100');
  expect(events.find(({ data }: any) => data.transaction_id === posted).data.personal).toEqual([closed()]);
});

test('a dry run and a refused posting show and keep nothing, and bad data names its field', async () => {
  const personal = [of('customer-tried', 'nobody')];
  expect(
    (await post({ ...deposit(), personal }, customer.key, 'transactions/double-entry?dry_run=true')).body.data.transaction,
  ).toMatchObject({
    personal: [],
  });
  const faults: [unknown, string, string][] = [
    [Array(5).fill(of(ada, secret)), 'personal', 'max'],
    [[{ subject: '', data: {} }], 'personal[0].subject', 'required'],
    [[{ subject: ada }], 'personal[0].data', 'required'],
    [[{ subject: ada, data: 'text' }], 'personal[0].data', 'type'],
    [[{ subject: ada, data: { text: 'x'.repeat(4_096) } }], 'personal[0].data', 'max'],
    [[{ subject: ada, data: {}, more: 1 }], 'personal[0].more', 'unknown'],
    [[of('Jos\u00e9', 'n'), of('Jose\u0301', 'n')], 'personal[1].subject', 'unique'],
  ];
  for (const [sent, field, tag] of faults) {
    const { status, body } = await post({ ...deposit(), personal: sent });
    expect([status, body.details]).toMatchObject([400, { field, tag }]);
  }
});

test('after an erasure nothing shows the data, proofs hold, and a subject that returns is a new one', async () => {
  const receiver = await newReceiver();
  await customer.post('webhooks', { url: receiver.url, events: ['transaction.posted', 'subject.erased'] });
  const personal = [of(ada, secret), of(ben, other)];
  const { transaction } = (await post({ ...deposit(), personal })).body.data;
  const erase = (key = customer.key) =>
    cluster.rest('POST', customer.at('subjects/erase'), { key, body: { subject: ada, reason: 'Request 1' } });
  expect((await erase(blind)).status).toBe(403);
  const { status, body } = await erase();
  const { subject_id } = transaction.personal[0];
  expect([status, body.data]).toEqual([200, { subject_id, erased_at: time }]);
  expect([(await erase()).status, (await erase()).body.code]).toEqual([404, 'subject_not_found']);

  const read = (key?: string) => get(`transactions/${transaction.transaction_id}`, key);
  expect((await read()).transaction.personal).toEqual([closed('erased'), opened(ben, other)]);
  expect((await read(blind)).transaction.personal).toEqual([closed('erased'), closed()]);
  expect((await get(`transactions?subject=${ada}`)).transactions).toEqual([]);
  const { events } = await get('events?after_sequence=0&limit=100');
  expect(events.at(-1)).toMatchObject({ type: 'subject.erased', data: { subject_id, reason: 'Request 1' } });
  const bodies = async () => receiver.received.map((each) => each.body);
  const delivered = await until(bodies, (all) => all.some((each) => each.includes('subject.erased')));
  const texts = [...delivered, (await cluster.rest('GET', customer.at('export/events'), { key: customer.key })).body];
  for (const text of texts) expect(text).not.toMatch(/Augusta|customer-ada|Benjamin/);
  for (const { adminUrl } of Object.values(cluster.databases)) expect(await tablesWith(adminUrl, ['Augusta', ada])).toEqual([]);

  const again = (await post({ ...deposit(), personal: [of(ada, 'Ada')] })).body.data.transaction.personal;
  expect(again).toEqual([opened(ada, 'Ada')]);
  expect(again[0].subject_id).not.toBe(subject_id);
  // Two ways to type a name are one subject.
  await post({ ...deposit(), personal: [of('Jose\u0301', 'José')] });
  expect((await get(`transactions?subject=${encodeURIComponent('Jos\u00e9')}`)).transactions).toMatchObject([
    { personal: [{ state: 'open' }] },
  ]);
  const verified = runCommand(cluster.databases.ledger.ownerUrl, 'verify', '--tenant', customer.tenant.id);
  expect([verified.status, verified.stderr]).toEqual([0, '']);
});

/** Tables of a database in which any column of any row has one of these texts. */
async function tablesWith(url: string, texts: string[]): Promise<string[]> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `select format('%I', relname) as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`,
    );
    const found: string[] = [];
    for (const { name } of rows) {
      const likes = texts.flatMap((text) => [`%${text}%`, `%${Buffer.from(text).toString('hex')}%`]);
      const { rowCount } = await client.query(`select from ${name} as each where each::text like any($1) limit 1`, [likes]);
      if (rowCount !== 0) found.push(name);
    }
    return found;
  });
}
