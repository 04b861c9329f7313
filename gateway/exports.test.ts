// Exports over REST: headers, formats, scopes, and a client that leaves or may no longer read.
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { deposit, newWallet, type Customer } from '../test/customer.ts';

let cluster: CheckedCluster;
let customer: Customer;
beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  for (const reference of ['a', 'b']) await customer.post('transactions/double-entry', deposit('1.00', { reference }));
});
afterAll(() => cluster.stop());

const ask = (path: string, key = customer.key, method = 'GET') => cluster.rest(method, customer.at(`export/${path}`), { key });
const linesOf = (body: string): any[] =>
  body
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

test('an export is NDJSON by default, and names the position as of which it reads', async () => {
  const { status, headers, body } = await ask('transactions');
  expect([status, headers.get('content-type')]).toEqual([200, 'application/x-ndjson; charset=utf-8']);
  const lines = linesOf(body);
  const end = lines.pop();
  const listed = await customer.get('transactions');
  expect(lines).toEqual(listed.transactions.reverse());
  const { events } = await customer.get('events?after_sequence=0&limit=100');
  expect(headers.get('x-through-sequence')).toBe(String(end.sequence));
  expect(end).toEqual({ end: true, count: 2, sequence: events.length, hash: events.at(-1).hash });
  const own = linesOf((await ask('transactions?reference=b')).body);
  expect(own.map(({ reference }) => reference)).toEqual(['b', undefined]);
  await cluster.rest('PUT', customer.at('filters/mine'), { key: customer.key, body: { query: 'reference=b' } });
  expect(linesOf((await ask('entries?filter=mine')).body).map(({ reference }) => reference)).toEqual(['b', 'b', undefined]);
  expect((await ask('entries?filter=nobodys')).body.code).toBe('filter_not_found');
  expect((await ask('entries?metadata.x=1')).body.details).toMatchObject({ field: 'metadata.x', tag: 'oneof' });
  expect(linesOf((await ask(`entries?after_sequence=${lines[0].sequence}`)).body)).toHaveLength(3);
});

test('every kind of record can be exported, in the formats that it has', async () => {
  for (const what of ['events', 'transactions', 'entries', 'accounts', 'balances', 'everything']) {
    const { status, body } = await ask(what);
    expect([what, status, linesOf(body).at(-1).end]).toEqual([what, 200, true]);
    expect([what, (await ask(what, customer.key, 'HEAD')).status]).toEqual([what, 200]);
    const csv = await ask(`${what}?format=csv`);
    if (what === 'events' || what === 'everything') {
      expect([what, csv.status, csv.body.details]).toEqual([what, 400, { field: 'format', tag: 'oneof', value: 'csv' }]);
    } else expect([what, csv.status, csv.headers.get('content-type')]).toEqual([what, 200, 'text/csv; charset=utf-8']);
  }
  expect((await ask('holds')).body.code).toBe('route_not_found');
  expect((await ask('accounts?after_sequence=1')).body.details).toMatchObject({ field: 'after_sequence', tag: 'unknown' });
});

test('each needs the scope of its records, and everything all three', async () => {
  const some = await cluster.apiKey(customer.tenant, ['transactions:read', 'accounts:read']);
  expect((await ask('balances', some)).status).toBe(403);
  const { status, headers } = await ask('everything', some);
  expect([status, headers.get('www-authenticate')]).toEqual([403, expect.stringContaining('scope="balances:read"')]);
  const all = await cluster.apiKey(customer.tenant, ['transactions:read', 'accounts:read', 'balances:read']);
  expect((await ask('everything', all)).status).toBe(200);
});
