// Traces of a running deployment, taken by a collector of OTLP: from a request to its deliveries, over gRPC and over Kafka.
import { randomBytes } from 'node:crypto';
import { jest } from '@jest/globals';
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

const processes = ['gateway', 'identity', 'ledger', 'notifier', 'auditor'];

beforeAll(async () => {
  [collector, receiver] = await Promise.all([startCollector(), startReceiver()]);
  const common = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_TIMEOUT: '1000', OTEL_TRACES_SAMPLER_ARG: '0' };
  const environment = Object.fromEntries(processes.map((name) => [name, common]));
  cluster = await startCluster({ environment: { ...environment, notifier: { ...common, WEBHOOK_RETRY_DELAYS: '0,0' } } });
  customer = await newWallet(cluster);
  const url = receiver.url;
  const webhook = await customer.post('webhooks', { url, events: ['transaction.posted'] });
  expect(webhook.status).toBe(201);
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
  customer.post('transactions/double-entry', deposit('1.00', more), { traceparent });

test('x', async () => {
  const caller = newCaller();
  const answer = await post(caller);
  console.log(answer.status, answer.body);
  const spans = await collector.trace(caller.trace, 'deliver webhook');
  console.log(treeOf(spans, caller.span).join('\n'), JSON.stringify(spans.map(({name, attributes, resource}) => [name, attributes, resource]), null, 1));
  console.log(JSON.stringify(collector.spans.filter(({ links }) => links.length > 0), (_, v) => typeof v === 'bigint' ? String(v) : v));
  console.log(receiver.received.map(({ headers }) => headers['traceparent']), collector.requests);
});
