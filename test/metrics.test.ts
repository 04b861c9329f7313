// The metrics of a deployment: the guide lists them all, no client can add series, and every query of a dashboard has data.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:http2';
import { jest } from '@jest/globals';
import { withClient } from '../deploy/local/databases.ts';
import { allEvents } from './subscriber.ts';
import { startCluster, type Answer, type Cluster } from './cluster.ts';
import { deposit, line, newWallet, type Customer } from './customer.ts';
import { dashboards, queriesOf } from './dashboards.ts';
import { describeWithKafka, kafkaBrokers, newTopic } from './kafka.ts';
import { startReceiver, type Receiver } from './notifier.ts';
import { until } from './polling.ts';
import { startPrometheus, testWithPrometheus } from './prometheus.ts';
import { processes } from './required-settings.ts';
import { text } from './sources.ts';
import { startWitness, type TestWitness } from './witness.ts';

jest.setTimeout(180_000);

let cluster: Cluster;
let receiver: Receiver;
let witness: TestWitness;
let customer: Customer;

/** The metrics of a process: label sets by name. */
type Exposed = Map<string, Record<string, string>[]>;

async function exposedBy(name: string): Promise<Exposed> {
  const lines = (await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text()).split('\n');
  const exposed: Exposed = new Map(lines.flatMap((each) => /^# TYPE (\w+)/.exec(each)?.[1] ?? []).map((metric) => [metric, []]));
  for (const each of lines) {
    const [, sample = '', labels = ''] = /^(\w+)(?:\{(.*)\})? /.exec(each) ?? [];
    const metric = exposed.has(sample) ? sample : sample.replace(/_(bucket|sum|count)$/, '');
    exposed.get(metric)?.push(Object.fromEntries([...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value])));
  }
  return exposed;
}

const seriesOf = (exposed: Exposed): Set<string> =>
  new Set([...exposed].flatMap(([name, all]) => all.map((labels) => `${name} ${JSON.stringify(labels)}`)));

/** A row of the guide's tables: metrics with the same labels. */
interface Row {
  section: string;
  names: string[];
  labels: string[];
  isOptional: boolean;
}

const page = text('gateway/docs/reference/metrics.md');
const codes = (cell: string) => [...cell.matchAll(/`(\w+)`/g)].map(([, name = '']) => name);
const rows = page.split(/^## /m).flatMap((section) =>
  [...section.matchAll(/^\| (`.*?) \| (.*?)\| (.*) \|$/gm)].map(([, names = '', labels = '', shows = '']): Row => {
    return {
      section: section.split('\n')[0] ?? '',
      names: codes(names),
      labels: codes(labels),
      isOptional: /only with/i.test(shows),
    };
  }),
);
const isOf = (process: string, section: string) =>
  section === 'Every process' ||
  section.toLowerCase() === process ||
  (process !== 'gateway' && ['PostgreSQL pools', 'Every gRPC service'].includes(section));

/** Traffic of every kind, so that each metric has samples. */
async function work(): Promise<void> {
  const { post, at, key } = customer;
  const word = randomBytes(6).toString('hex');
  const done = async (path: string, body: unknown, status = 201) => {
    const answer = await post(path, body);
    expect([path, answer.status, answer.body]).toEqual([path, status, expect.anything()]);
  };
  const posting = deposit('10.00', { idempotency_key: word, personal: [{ subject: word, data: { name: 'Ada' } }] });
  await done('transactions/double-entry', posting);
  await done('transactions/double-entry', posting, 200);
  const [wallet, settlement] = [line('CUSTOMER-WALLETS-USD', 'debit', '9999.00'), line('SETTLEMENT-USD', 'credit', '9999.00')];
  await done('transactions/double-entry', { entries: [wallet, settlement] }, 422);
  await done('holds', { ...deposit('1.00'), expires_in: 1 });
  await done('subjects/erase', { subject: word, reason: 'Request 1' }, 200);
  await done('reports/trial-balance', { format: 'csv' }, 202);
  // A batch that fails: the connection of the writer is lost.
  await withClient(cluster.databases.ledger.adminUrl, (client) =>
    client.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'ledger writer' and datname = current_database()`),
  );
  await done('transactions/double-entry', deposit());
  expect((await cluster.rest('GET', at('accounts'), { key })).status).toBe(200);
  expect((await cluster.rest('GET', at('accounts/code/NONE'), { key })).status).toBe(404);
}

/** Requests by which a client would like to add series: paths, methods, headers and credentials that contain `word`. */
async function attack(word: string): Promise<void> {
  const { port } = new URL(cluster.url);
  const send = async (method: string, path: string) => {
    const sent = request({
      port,
      agent: false,
      method,
      path,
      headers: { 'x-request-id': word, 'user-agent': word, authorization: `Bearer ${word}`, traceparent: word },
    });
    sent.end(['GET', 'HEAD'].includes(method) ? undefined : `{"${word}": 1}`);
    const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream];
    await once(response.resume(), 'close');
  };
  const { paths } = (await cluster.rest('GET', '/openapi.json')).body as { paths: Record<string, unknown> };
  const known = Object.keys(paths).map((path) => path.replaceAll(/\{\w+\}/g, word));
  const methods = ['GET', 'POST', 'DELETE', 'PROPFIND', 'PURGE', 'MKCOL'];
  const all = [...known, `/${word}`, `/v1/${word}/%00`, `/v1/tenants/${word}/transactions?${word}=1`, `/%`, `/docs/guide/${word}`];
  for (const path of all) await Promise.all(methods.map((method) => send(method, path)));
  // Unknown services and methods of gRPC, and tokens.
  const { gateway: _, ...servers } = cluster.addresses;
  for (const [address] of Object.values(servers)) {
    const session = connect(`http://${address}`);
    for (const path of [`/${word}/Get`, `/ledger.v1.LedgerService/${word}`, '/ledger.v1.LedgerService/GetBooks']) {
      const call = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        authorization: `Bearer ${word}`,
      });
      call.on('error', () => undefined).end();
      await once(call.resume(), 'close');
    }
    session.close();
  }
}

describeWithKafka('the metrics of a deployment', () => {
  beforeAll(async () => {
    receiver = await startReceiver((_, response, index) => {
      response.statusCode = index === 0 ? 500 : 200;
      response.end();
    });
    witness = await startWitness('witness.example/one');
    const kafka = { KAFKA_BROKERS: await kafkaBrokers(), KAFKA_TOPIC: newTopic(), KAFKA_PARTITIONS: '2' };
    cluster = await startCluster({
      environment: {
        ledger: kafka,
        notifier: { ...kafka, WEBHOOK_RETRY_DELAYS: '0,0' },
        auditor: { WITNESSES: witness.line, CHECKPOINT_SECONDS: '1' },
      },
    });
    customer = await newWallet(cluster);
    expect((await customer.post('webhooks', { url: receiver.url, events: allEvents })).status).toBe(201);
    await work();
  });

  afterAll(async () => {
    await cluster.stop();
    await receiver.close();
    await witness.close();
  });

  test('are those that the guide lists, with their labels, process by process', async () => {
    for (const process of processes) {
      expect(await (await fetch(`${cluster.opsUrl(process)}/healthz`)).json()).toMatchObject({ status: 'ok' });
      const exposed = await exposedBy(process);
      const own = rows.filter(({ section }) => isOf(process, section));
      const listed = own.flatMap(({ names }) => names);
      const isStandard = (name: string) => /^(nodejs|process)_/.test(name);
      const unlisted = [...exposed.keys()].filter((name) => !isStandard(name) && !listed.includes(name));
      const missing = own.filter(({ isOptional }) => !isOptional).flatMap(({ names }) => names.filter((name) => !exposed.has(name)));
      expect([process, unlisted, missing]).toEqual([process, [], []]);
      for (const { names, labels } of own)
        for (const name of names)
          for (const found of exposed.get(name) ?? []) {
            const { process: by, le: _, ...others } = found;
            expect([name, by, Object.keys(others)]).toEqual([name, process, labels]);
          }
    }
  });

  test('show every connection to PostgreSQL in its pool', async () => {
    const pools = new Map<string, number>();
    for (const process of processes) {
      for (const { pool = '' } of (await exposedBy(process)).get('postgres_pool_connections_max') ?? []) pools.set(pool, 0);
    }
    for (const { adminUrl } of Object.values(cluster.databases)) {
      const { rows: open } = await withClient(adminUrl, (client) =>
        client.query<{ name: string }>(
          `select application_name as name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
        ),
      );
      for (const { name } of open) pools.set(name, (pools.get(name) ?? NaN) + 1);
    }
    expect([...pools].filter(([, connections]) => Number.isNaN(connections))).toEqual([]);
    expect(pools.get('ledger writer')).toBeGreaterThan(0);
  });

  test('get no series from what clients send, and are few', async () => {
    const [first, second] = [randomBytes(6).toString('hex'), randomBytes(6).toString('hex')];
    await attack(first);
    const before = await Promise.all(processes.map(exposedBy));
    await attack(second);
    const after = await Promise.all(processes.map(exposedBy));
    for (const [index, process] of processes.entries()) {
      const [known, now] = [seriesOf(before[index]!), seriesOf(after[index]!)];
      expect([...now].filter((series) => series.includes(first) || series.includes(second))).toEqual([]);
      // What the deployment does by itself meanwhile, such as a first checkpoint or garbage collection of another kind.
      const added = [...now].filter((series) => !known.has(series));
      expect([process, added.length < 40 ? [] : added]).toEqual([process, []]);
      expect([process, now.size < (process === 'gateway' ? 8_000 : 2_000) ? 0 : now.size]).toEqual([process, 0]);
    }
    const methods = new Set(after[0]!.get('http_requests_total')!.map(({ method }) => method));
    expect([...methods].sort()).toEqual(expect.arrayContaining(['*', 'DELETE', 'GET', 'POST']));
    expect([...methods]).not.toContain('PURGE');
    expect(after[0]!.get('http_requests_total')!.map(({ route }) => route)).not.toContain('undefined');
  });

  testWithPrometheus('answer every query of the dashboards, on a real Prometheus', async () => {
    const targets = Object.fromEntries(processes.map((name) => [name, cluster.opsUrl(name)]));
    const prometheus = await startPrometheus(targets);
    try {
      // Some need a fault: the auditor is away for a request.
      const { key, at } = customer;
      const read = () => cluster.rest('GET', at('reports/trial-balance'), { key });
      await cluster.kill('auditor');
      expect((await read()).status).toBe(503);
      const isDegraded = ({ status, body }: Answer) => status === 200 && body.status === 'degraded' && body.dependencies.auditor !== 'ok';
      await until(() => cluster.rest('GET', '/readyz'), isDegraded);
      await cluster.restart('auditor');
      await until(read, ({ status }) => status === 200);
      // Nothing is wrong with this Kafka.
      const silent = ['notifier_consumer_rebuilds_total'];
      const queries = dashboards.flatMap((each) => queriesOf(each, '1m'));
      // Without the labels of its legend a chart does not say what its lines are.
      const wrong = async () => {
        await work();
        const answers = await Promise.all(queries.map(({ expr }) => prometheus.query(expr)));
        return queries.filter(({ expr, labels }, index) => {
          const samples = answers[index]!;
          return (
            (samples.length === 0 && !silent.some((name) => expr.includes(name))) ||
            !samples.every(({ metric }) => labels.every((label) => label in metric))
          );
        });
      };
      await until(wrong, (left) => left.length === 0);
      expect(await prometheus.query('count by (process) (process_start_time_seconds)')).toHaveLength(processes.length);
    } finally {
      await prometheus.stop();
    }
  });
});
