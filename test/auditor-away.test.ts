// Without the auditor everything but reports, jobs and exports goes on, and a job that it was killed in runs again.
import { createHash } from 'node:crypto';
import pg from 'pg';
import { startCluster, type Cluster } from './cluster.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { until } from './polling.ts';

let cluster: Cluster;
let customer: Customer;
beforeAll(async () => {
  cluster = await startCluster();
  customer = await newWallet(cluster);
  await customer.post('transactions/double-entry', deposit('1.00'));
});
afterAll(() => cluster.stop());

const ask = (method: string, path: string, body?: unknown) =>
  cluster.rest(method, customer.at(path), { key: customer.key, ...(body !== undefined && { body }) });
const jobOf = async (id: string) => (await ask('GET', `jobs/${id}`)).body.data?.job;

test('a job survives kill -9, its result can be resumed, and meanwhile only what the auditor does is missing', async () => {
  const owner = new pg.Client({ connectionString: cluster.databases.ledger.adminUrl });
  await owner.connect();
  let id: string;
  try {
    // The job can't end before the process is killed.
    await owner.query('begin; lock table accounts in access exclusive mode');
    const started = await ask('POST', 'reports/trial-balance', { as_of: new Date().toISOString() });
    expect(started.status).toBe(202);
    ({ id } = started.body.data.job);
    await until(
      () => jobOf(id),
      ({ status }) => status === 'running',
    );
    await cluster.kill('auditor');
  } finally {
    await owner.end();
  }

  expect((await ask('POST', 'transactions/double-entry', deposit('2.00'))).status).toBe(201);
  for (const path of ['transactions', 'events', 'accounts/hierarchy?include=balances', 'books', 'periods'])
    expect([path, (await ask('GET', path)).status]).toEqual([path, 200]);
  for (const path of ['reports/trial-balance', `jobs/${id}`, 'jobs', `jobs/${id}/result`, 'export/entries', 'export/everything']) {
    const { status, body, headers } = await ask('GET', path);
    expect([path, status, body.code, headers.get('retry-after')]).toEqual([path, 503, 'unavailable', '1']);
  }
  const ready = async () => (await fetch(`${cluster.url}/readyz`).then((answer) => answer.json())) as Record<string, any>;
  const state = await until(ready, ({ dependencies }) => dependencies.auditor !== 'ok');
  expect(state).toMatchObject({ status: 'degraded', dependencies: { ledger: 'ok', auditor: 'unavailable' } });

  await cluster.restart('auditor');
  const { result } = await until(
    () => jobOf(id),
    (job) => job?.status === 'succeeded',
  );
  const read = async (range?: string) => {
    const headers = { authorization: `Bearer ${customer.key}`, ...(range !== undefined && { range }) };
    const answer = await fetch(cluster.url + customer.at(`jobs/${id}/result`), { headers });
    return { status: answer.status, etag: answer.headers.get('etag'), bytes: Buffer.from(await answer.arrayBuffer()) };
  };
  const [first, rest] = [await read('bytes=0-99'), await read('bytes=100-')];
  const whole = Buffer.concat([first.bytes, rest.bytes]);
  expect([first.status, first.etag, whole.length]).toEqual([206, `"${result.sha256}"`, result.bytes]);
  expect(createHash('sha256').update(whole).digest('hex')).toBe(result.sha256);
  // Whatever was posted until it ran again.
  const { data } = JSON.parse(whole.toString());
  expect(data.report.totals[0]).toMatchObject({ currency: 'USD', values: [{ closing: '0.00', debit: '1.00', credit: '1.00' }] });
});
