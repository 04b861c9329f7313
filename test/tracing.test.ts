// Traces of a running deployment, taken by a collector of OTLP: from a request to its deliveries, over gRPC and over Kafka.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { root } from '../deploy/local/plan.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { describeWithKafka, kafkaBrokers, newTopic } from './kafka.ts';
import { startReceiver, until, type Receiver } from './notifier.ts';
import { startCollector, treeOf, type Collector, type ExportedSpan } from './otlp.ts';

jest.setTimeout(120_000);

let collector: Collector;
let receiver: Receiver;
let cluster: Cluster;
let customer: Customer;
/** What the receiver answers next; then 200. */
const nextAnswers: number[] = [];

const page = readFileSync(join(root, 'gateway/docs/operate/tracing.md'), 'utf8');
const contents = 'paid-by-ada';
const processes = ['gateway', 'identity', 'ledger', 'notifier', 'auditor'];

beforeAll(async () => {
  receiver = await startReceiver((_, response) => response.writeHead(nextAnswers.shift() ?? 200).end());
  collector = await startCollector();
  const common = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Bearer%20of-the-collector',
    OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    OTEL_TRACES_SAMPLER_ARG: '0',
    LOG_LEVEL: 'debug',
  };
  const environment = Object.fromEntries(processes.map((name) => [name, common]));
  cluster = await startCluster({ environment: { ...environment, notifier: { ...common, WEBHOOK_RETRY_DELAYS: '0,0' } } });
  customer = await newWallet(cluster);
  expect((await customer.post('webhooks', { url: receiver.url, events: ['transaction.posted'] })).status).toBe(201);
});

afterAll(async () => {
  await cluster.stop();
  await Promise.all([collector.close(), receiver.close()]);
});

interface Caller {
  trace: string;
  span: string;
  traceparent: string;
}

/** A trace context that a caller sends. */
function newCaller(flags = '01'): Caller {
  const [trace, span] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { trace, span, traceparent: `00-${trace}-${span}-${flags}` };
}

const post = ({ traceparent }: Caller, more: Record<string, unknown> = {}) =>
  customer.post('transactions/double-entry', deposit('1.00', { description: contents, metadata: { [contents]: 1 }, ...more }), {
    traceparent,
  });

const deliveries = (trace: string) => receiver.received.filter(({ headers }) => String(headers['traceparent']).slice(3, 35) === trace);
const named = (spans: ExportedSpan[], wanted: string) => spans.filter(({ name }) => name === wanted);

const route = 'POST /v1/tenants/:slug/transactions/double-entry';
const postingTree = [
  `gateway SERVER ${route}`,
  '  gateway CLIENT ledger.v1.LedgerService/PostTransactions',
  '    ledger SERVER ledger.v1.LedgerService/PostTransactions',
  '      ledger INTERNAL commit',
  '      ledger PRODUCER publish ledger.v1.Event',
  '        notifier CONSUMER process ledger.v1.Event',
  '          notifier CLIENT deliver webhook',
];

const namesOf = (lines: string[]) => lines.map((line) => line.trim().split(' ').slice(2).join(' '));

/** Posts with a trace that is recorded; expects one tree from the request to the delivery, and answers its spans. */
async function postTraced(): Promise<ExportedSpan[]> {
  const caller = newCaller();
  expect((await post(caller)).status).toBe(201);
  const spans = await collector.trace(caller.trace, ...namesOf(postingTree));
  expect(treeOf(spans, caller.span)).toEqual(postingTree);
  const [delivery] = named(spans, 'deliver webhook');
  expect(deliveries(caller.trace).map(({ headers }) => headers['traceparent'])).toEqual([`00-${caller.trace}-${delivery?.id}-01`]);
  return spans;
}

test('the trace of a posting is one tree, from the request to the delivery, and leads to the batch that committed it', async () => {
  const spans = await postTraced();
  const [commit] = named(spans, 'commit');
  for (const span of spans) {
    expect(span.end).toBeGreaterThanOrEqual(span.start);
    expect(span.failed).toBe(false);
    expect(span.resource).toMatchObject({ 'service.namespace': 'ledger', 'deployment.environment.name': 'test' });
  }
  const sent = new Set(collector.requests.map((headers) => `${headers.authorization} ${headers['content-encoding']}`));
  expect(sent).toEqual(new Set(['Bearer of-the-collector gzip']));
  await until(() => Promise.resolve(cluster.logs('notifier').includes(`"trace_id":"${commit?.trace}"`)));
  const [batch] = await collector.trace(commit?.links[0]?.trace ?? '', 'commit batch');
  expect(batch).toMatchObject({ id: commit?.links[0]?.id, parent: '', attributes: { 'ledger.batch.commands': '1' } });
  expect(batch?.links).toEqual([{ trace: commit?.trace, id: commit?.parent }]);
});

test('postings that share a batch are linked to it, each once', async () => {
  const callers = Array.from({ length: 60 }, () => newCaller());
  await Promise.all(callers.map((caller) => post(caller)));
  const commits = await Promise.all(callers.map(async ({ trace }) => named(await collector.trace(trace, 'commit'), 'commit')));
  expect(commits.map(({ length }) => length)).toEqual(callers.map(() => 1));
  const batches = Map.groupBy(commits.flat(), ({ links }) => links[0]?.trace ?? '');
  expect(batches.size).toBeLessThan(callers.length);
  for (const [trace, members] of batches) {
    const [batch] = await collector.trace(trace, 'commit batch');
    const linked = batch?.links.map((link) => `${link.trace} ${link.id}`);
    expect(linked?.sort()).toEqual(members.map((each) => `${each.trace} ${each.parent}`).sort());
    expect(batch?.attributes['ledger.batch.commands']).toBe(String(members.length));
  }
});

test('commands of one call and calls of other services are traced too, and the trace is in their log lines', async () => {
  const held = newCaller();
  expect((await customer.post('holds', deposit('2.00'), { traceparent: held.traceparent })).status).toBe(201);
  const holdTree = [
    'gateway SERVER POST /v1/tenants/:slug/holds',
    '  gateway CLIENT ledger.v1.LedgerService/Submit',
    '    ledger SERVER ledger.v1.LedgerService/Submit',
    '      ledger INTERNAL commit',
  ];
  expect(treeOf(await collector.trace(held.trace, ...namesOf(holdTree)), held.span).slice(0, 4)).toEqual(holdTree);
  const login = newCaller();
  const { email, password } = customer.tenant.owner;
  await cluster.rest('POST', '/v1/auth/login', { body: { email, password }, headers: { traceparent: login.traceparent } });
  const loginTree = [
    'gateway SERVER POST /v1/auth/login',
    '  gateway CLIENT identity.v1.IdentityService/Login',
    '    identity SERVER identity.v1.IdentityService/Login',
  ];
  expect(treeOf(await collector.trace(login.trace, ...namesOf(loginTree)), login.span)).toEqual(loginTree);
  for (const process of ['gateway', 'identity'])
    await until(() => Promise.resolve(cluster.logs(process).includes(`"trace_id":"${login.trace}"`)));
});

test('a refusal says why, and a caller’s mistake is no failure of the span; each attempt of a delivery has its outcome', async () => {
  const refused = newCaller();
  expect((await post(refused, { entries: [] })).status).toBe(400);
  const [span] = await collector.trace(refused.trace, route);
  expect(span).toMatchObject({ failed: false, attributes: { 'error.type': 'validation_failed', 'http.response.status_code': '400' } });
  nextAnswers.push(500);
  const caller = newCaller();
  await post(caller);
  const attempts = await until(async () => {
    const found = named(await collector.trace(caller.trace, 'deliver webhook'), 'deliver webhook');
    return found.length === 2 && found.sort((a, b) => Number(a.start - b.start));
  });
  expect(attempts.map(({ failed, parent, attributes }) => ({ failed, parent, ...attributes }))).toMatchObject([
    { failed: true, parent: attempts[1]?.parent, 'ledger.delivery.status': 'pending', 'http.response.status_code': '500' },
    { failed: false, 'ledger.delivery.status': 'delivered', 'ledger.delivery.attempt': '2' },
  ]);
});

test('spans have the attributes of the guide and no others: no content, no secret, no personal data', () => {
  const listed = [...page.matchAll(/`([a-z]+\.[a-z._]+)`/g)].map(([, name]) => name);
  const used = new Set(collector.spans.flatMap(({ attributes, resource }) => Object.keys({ ...attributes, ...resource })));
  expect([...used].filter((name) => !listed.includes(name))).toEqual([]);
  const all = JSON.stringify(collector.spans, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  const { email, id } = customer.tenant.owner;
  for (const secret of [contents, customer.key, email, id, receiver.url, 'CUSTOMER-WALLETS', customer.tenant.slug, 'of-the-collector'])
    expect(all).not.toContain(secret);
});

test('a request that is not recorded leaves no span, and its deliveries have the trace context as it came', async () => {
  const [caller, last] = [newCaller('00'), newCaller()];
  await Promise.all([post(caller), customer.post('transactions/double-entry', deposit('3.00'))]);
  await post(last);
  await collector.trace(last.trace, 'deliver webhook');
  expect(collector.spans.filter(({ trace }) => trace === caller.trace)).toEqual([]);
  await until(() => Promise.resolve(deliveries(caller.trace).length === 1));
  expect(deliveries(caller.trace)[0]?.headers['traceparent']).toBe(caller.traceparent);
  // Roots are batches, which no request is.
  expect(new Set(collector.spans.filter(({ parent }) => parent === '').map(({ name }) => name))).toEqual(new Set(['commit batch']));
});

const spansOf = async (process: string, result: string): Promise<number> => {
  const text = await (await fetch(`${cluster.opsUrl(process)}/metrics`)).text();
  return Number(new RegExp(`^tracing_spans_total\\{result="${result}".*\\} ([0-9]+)$`, 'm').exec(text)?.[1]);
};

test('a collector that hangs or fails changes no answer; what it does not take is counted', async () => {
  for (const status of [0, 500]) {
    const before = await spansOf('gateway', 'failed');
    collector.status = status;
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(newCaller())));
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([201]));
    await until(async () => (await spansOf('gateway', 'failed')) >= before + 100);
  }
  collector.status = 200;
  await postTraced();
  await until(() => Promise.resolve(cluster.logs('gateway').includes('traces are exported again')));
  expect(cluster.logs('gateway').match(/traces are not exported/g)?.length).toBe(1);
});

test('the commands of the guide ask for a trace that the collector gets', async () => {
  const [, code = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(page) ?? [];
  const { url } = cluster;
  const script = code.replaceAll('http://localhost:8080', url);
  const { stdout, stderr, status } = spawnSync('bash', ['-euc', script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], SLUG: customer.tenant.slug, KEY: customer.key },
  });
  expect([status, stderr]).toEqual([0, '']);
  const trace = /[0-9a-f]{32}/.exec(stdout)?.[0] ?? '';
  await collector.trace(trace, 'ledger.v1.LedgerService/PostTransactions');
});

test('a service that does not answer fails the span of the call, and a 5xx that of the request', async () => {
  await cluster.kill('auditor');
  const caller = newCaller();
  const answer = await cluster.rest('GET', customer.at('jobs'), { key: customer.key, headers: { traceparent: caller.traceparent } });
  expect(answer.status).toBe(503);
  const spans = await collector.trace(caller.trace, 'GET /v1/tenants/:slug/jobs', 'ledger.v1.AuditService/ListJobs');
  expect(spans.map(({ failed, attributes }) => [failed, attributes['error.type']])).toEqual(spans.map(() => [true, 'unavailable']));
});

describeWithKafka('over Kafka', () => {
  test('the trace of a posting is the same tree', async () => {
    const kafka = { KAFKA_BROKERS: await kafkaBrokers(), KAFKA_TOPIC: newTopic() };
    await cluster.restart('notifier', kafka);
    await cluster.restart('ledger', kafka);
    await postTraced();
  });
});

// Last, as it stops the gateway.
describe('which requests are recorded', () => {
  test('the gateway chooses by chance, and decides alone if it is to; what it has not sent yet is sent when it stops', async () => {
    await cluster.restart('gateway', { OTEL_TRACES_SAMPLER_ARG: '0.5' });
    const list = async (headers: Record<string, string> = {}) => {
      for (let n = 0; n < 10; n++)
        await Promise.all(
          Array.from({ length: 20 }, () => cluster.rest('GET', customer.at('accounts?limit=1'), { key: customer.key, headers })),
        );
    };
    const elsewhere = ['/healthz', '/readyz', '/metrics', '/docs/guide/', '/console', '/openapi.json'];
    await Promise.all([list(), ...elsewhere.flatMap((path) => Array.from({ length: 5 }, () => cluster.rest('GET', path)))]);
    await cluster.restart('gateway', { OTEL_TRACES_SAMPLER_ARG: '0', OTEL_TRACES_SAMPLER: 'traceidratio' });
    const chosen = named(collector.spans, 'GET /v1/tenants/:slug/accounts');
    // Fewer than 60 or more than 140 of 200 come once in a hundred million runs.
    expect(chosen.length).toBeGreaterThan(60);
    expect(chosen.length).toBeLessThan(140);
    const routes = collector.spans.flatMap(({ attributes }) => attributes['http.route'] ?? []);
    expect(routes.filter((each) => !(each as string).startsWith('/v1/'))).toEqual([]);
    const caller = newCaller();
    await post(caller);
    await until(() => Promise.resolve(deliveries(caller.trace).length === 1));
    expect(deliveries(caller.trace)[0]?.headers['traceparent']).toBe(`${caller.traceparent.slice(0, 53)}00`);
    await cluster.kill('gateway', 'SIGTERM');
    expect(collector.spans.filter(({ trace }) => trace === caller.trace)).toEqual([]);
  });
});
