// Traces and a collector that never answers: spans are bounded, drops are counted, and a stop does not wait for it.
import { expect, test } from '@jest/globals';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { Lifetime } from './lifetime.ts';
import { commonSettings, Settings, type TracingSettings } from './settings.ts';
import { endSpan, isTracing, openTracing, startRequest, startSpan, SpanKind } from './tracing.ts';

const recorded = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

test('of more spans than may wait for a collector that hangs the rest is dropped and counted, and the stop is quick', async () => {
  const unanswered: ServerResponse[] = [];
  const hanging = createServer((_, response) => unanswered.push(response));
  await new Promise<void>((done) => hanging.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(hanging.address() as AddressInfo).port}/v1/traces`;
  const [lifetime, metrics] = [new Lifetime(), new Registry()];
  await openTracing('test', { url, headers: {}, ratio: 1, followsCaller: true }, { lifetime, metrics, logger: pino({ level: 'silent' }) });
  const started = performance.now();
  for (let n = 0; n < 5_000; n++) endSpan(startSpan('span', recorded, { kind: SpanKind.INTERNAL }));
  // A span costs microseconds: nothing has waited.
  expect(performance.now() - started).toBeLessThan(2_000);
  const { values } = (await metrics.getMetricsAsJSON()).find(({ name }) => name === 'tracing_spans_total') as any;
  expect(Object.fromEntries(values.map(({ labels, value }: any) => [labels.result, value]))).toEqual({
    ...{ exported: 0, queue_full: 904, failed: 0 },
  });
  const stopped = performance.now();
  await lifetime.end();
  expect(performance.now() - stopped).toBeLessThan(4_500);
  expect(isTracing()).toBe(false);
  expect(startRequest('request', recorded, {})).toBeUndefined();
  for (const response of unanswered) response.end();
  hanging.close();
});

const read = (env: NodeJS.ProcessEnv): TracingSettings | undefined =>
  commonSettings(new Settings({ INTERNAL_TOKEN: 'token', ...env }), 1).tracing;
const on = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' };

test('the settings are those of the specification; by default everything is recorded', () => {
  expect(read({ OTEL_TRACES_SAMPLER_ARG: '0.01' })).toBeUndefined();
  expect(read(on)).toEqual({ url: 'http://collector:4318/v1/traces', headers: {}, ratio: 1, followsCaller: true });
  const more = {
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20YTpi=, x-team=a',
    OTEL_TRACES_SAMPLER_ARG: '0',
    OTEL_TRACES_SAMPLER: 'traceidratio',
  };
  expect(read({ ...on, ...more })).toMatchObject({
    ...{ headers: { authorization: 'Basic YTpi=', 'x-team': 'a' }, ratio: 0, followsCaller: false },
  });
});

test.each([
  ['OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }],
  ['OTEL_EXPORTER_OTLP_HEADERS must be name=value', { OTEL_EXPORTER_OTLP_HEADERS: 'secret' }],
  ['OTEL_TRACES_SAMPLER_ARG must be a decimal from 0 to 1, not "1.5"', { OTEL_TRACES_SAMPLER_ARG: '1.5' }],
  ['OTEL_TRACES_SAMPLER must be one of', { OTEL_TRACES_SAMPLER: 'always_on' }],
])('%s', (message, env) => {
  expect(() => read({ ...on, ...env })).toThrow(message);
});
