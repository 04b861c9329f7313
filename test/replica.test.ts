// The auditor with a real standby: reports and exports come from there, and have all that was posted before they were asked for.
import { jest } from '@jest/globals';
import { Registry } from 'prom-client';
import { withClient } from '../deploy/local/databases.ts';
import type { Postgres } from '../deploy/local/postgres.ts';
import { openOperator } from '../services/ledger/audit/operator.ts';
import { verify } from '../services/ledger/audit/verify.ts';
import { Replica } from '../services/ledger/auditor/replica.ts';
import { openPool, type Pool } from '../services/platform/postgres.ts';
import { openLog } from '../services/platform/telemetry.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { startOwnPostgres, type OwnPostgres } from './own-postgres.ts';
import { until } from './polling.ts';

jest.setTimeout(180_000);

let server: OwnPostgres;
let standby: Postgres;
let cluster: Cluster;
let customer: Customer;
let amount = 0;

/** The address of a database on the standby. */
const onStandby = (url: string) => Object.assign(new URL(url), { host: new URL(standby.url).host }).href;

beforeAll(async () => {
  server = await startOwnPostgres();
  cluster = await startCluster({
    server,
    between: async ({ databases }) => {
      standby = await server.startReplica();
      return { auditor: { READ_DATABASE_URL: onStandby(databases.ledger.auditorUrl ?? '') } };
    },
  });
  customer = await newWallet(cluster);
});

afterAll(async () => {
  await (cluster as Cluster | undefined)?.stop();
  await server.end();
});

/** Posts, and asks at once for a report, an export and a job; returns what each shows of the account. */
async function postAndRead(): Promise<string[]> {
  expect((await customer.post('transactions/double-entry', deposit('1.00'))).status).toBe(201);
  amount += 1;
  const lines = async (path: string): Promise<string> => {
    const { body } = await cluster.rest('GET', customer.at(path), { key: customer.key });
    return typeof body === 'string' ? body : JSON.stringify(body);
  };
  const job = await customer.post('reports/trial-balance', {});
  expect(job.status).toBe(202);
  const { id } = job.body.data.job;
  const report = await lines('reports/trial-balance');
  const exported = await lines('export/transactions');
  await until(
    () => customer.get(`jobs/${id}`),
    (data) => data?.job.status === 'succeeded',
  );
  const result = await lines(`jobs/${id}/result`);
  const wanted = `"${amount}.00"`;
  return [report, result].map((text) => (text.includes(wanted) ? wanted : text)).concat(String(exported.split('\n').length - 2));
}

const all = () => [`"${amount}.00"`, `"${amount}.00"`, String(amount)];

async function connectionsOf(name: 'replica' | 'primary'): Promise<number> {
  const text = await (await fetch(`${cluster.opsUrl('auditor')}/metrics`)).text();
  return Number(new RegExp(`^auditor_read_connections_total\\{.*server="${name}".*\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
}

const stateOf = async () => (await (await fetch(`${cluster.opsUrl('auditor')}/readyz`)).json()) as Record<string, any>;

test('reports, jobs and exports come from the standby, with what was posted just before', async () => {
  for (let turn = 0; turn < 3; turn++) expect(await postAndRead()).toEqual(all());
  expect(await connectionsOf('replica')).toBeGreaterThanOrEqual(9);
  expect(await connectionsOf('primary')).toBe(0);
  expect(await stateOf()).toMatchObject({ status: 'ok', dependencies: { replica: 'ok' } });
});

test('verify finds the books on the standby as they are on the primary', async () => {
  const operator = await openOperator(onStandby(cluster.databases.ledger.adminUrl));
  try {
    expect(await verify(operator, {}, (line) => expect(line).toBe(''))).toMatchObject({ tenants: 1, findings: 0, transactions: amount });
  } finally {
    await operator.end();
  }
});

test('a standby of another server, as of before a restore, is not read, however far it is', async () => {
  const parts = { logger: openLog('test', 'silent'), metrics: new Registry() };
  const pool = openPool(standby.url, { name: 'standby', max: 1, mayBeStandby: true, ...parts });
  const primary = openPool(server.adminUrl, { name: 'primary', max: 1, ...parts });
  const query = (text: string) => primary.query(text).then(({ rows }) => ({ rows: [{ ...rows[0], ...changed }] }));
  let changed = {};
  const portOf = async () => {
    const replica = new Replica({ pool, primary: { query } as unknown as Pool, ...parts, metrics: new Registry() });
    const client = await replica.before(primary).connect();
    client.release();
    return { port: (client as unknown as { port: number }).port, state: replica.state() };
  };
  try {
    expect(await portOf()).toEqual({ port: Number(new URL(standby.url).port), state: 'ok' });
    for (changed of [{ system: '7000000000000000000' }, { timeline: '00000002' }])
      expect(await portOf()).toEqual({ port: Number(new URL(server.adminUrl).port), state: 'diverged' });
  } finally {
    await Promise.all([pool.end(), primary.end()]);
  }
});

test('where the standby is behind or away, the primary answers, until the standby is there again', async () => {
  await withClient(standby.url, (client) => client.query('select pg_wal_replay_pause()'));
  expect(await postAndRead()).toEqual(all());
  expect(await connectionsOf('primary')).toBeGreaterThan(0);
  expect(await stateOf()).toMatchObject({ status: 'degraded', dependencies: { postgresql: 'ok', replica: 'behind' } });
  await withClient(standby.url, (client) => client.query('select pg_wal_replay_resume()'));
  await until(stateAfterRead, (state) => state === 'ok');
  standby.child.signal('SIGINT');
  await standby.child.ended;
  await until(stateAfterRead, (state) => state === 'away');
  expect(await postAndRead()).toEqual(all());
});

async function stateAfterRead(): Promise<string> {
  expect(await postAndRead()).toEqual(all());
  return (await stateOf())['dependencies'].replica as string;
}
