// Health, which anybody may ask for: what it costs the database, and how many may watch it.
import { setTimeout as pause } from 'node:timers/promises';
import { Code, ConnectError, createClient, type Client } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';
import type { RunningServer } from './lifetime.ts';

let server: RunningServer;
let health: Client<typeof Health>;
let asked = 0;
let ready = true;

beforeEach(async () => {
  [asked, ready] = [0, true];
  server = await startGrpcServer({
    tokens: ['right'],
    maxMessageBytes: 10_000,
    readiness: () => (asked++, Promise.resolve({ ready, dependencies: {} })),
  });
  health = createClient(Health, createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}` }));
});
afterEach(() => server.close());

test('many who ask for health within a second are answered from one question, and later ones from a new one', async () => {
  const began = performance.now();
  for (let call = 0; call < 20; call++) await health.check({});
  // One more for each further second, on however busy a machine.
  expect(asked).toBeLessThanOrEqual(1 + (performance.now() - began) / 1000);
  ready = false;
  while ((await health.check({})).status === Serving.SERVING) await pause(20);
});

function watch({ signal }: AbortController, headers: Record<string, string> = {}, service = ''): Promise<string> {
  const first = health.watch({ service }, { headers, signal })[Symbol.asyncIterator]().next();
  return first.then(
    ({ value }) => Serving[(value as { status: Serving } | undefined)?.status ?? -1] ?? 'nothing',
    (error: unknown) => Code[ConnectError.from(error).code],
  );
}

test('a hundred may watch without the token, more with it, and who leaves makes room', async () => {
  const leaving = new AbortController();
  const staying = new AbortController();
  const all = await Promise.all(Array.from({ length: 100 }, () => watch(leaving)));
  expect([...new Set(all)]).toEqual(['SERVING']);
  expect(await watch(staying)).toBe('ResourceExhausted');
  expect(await watch(staying, { authorization: 'Bearer right' })).toBe('SERVING');
  leaving.abort();
  while ((await watch(staying)) !== 'SERVING') await pause(20);
  staying.abort();
});

test('who watches with a deadline that has passed takes no one’s room', async () => {
  const staying = new AbortController();
  // Set as a header, so that this side does not end the call by itself.
  const all = await Promise.all(Array.from({ length: 101 }, () => watch(staying, { 'grpc-timeout': '0m' })));
  expect(all).not.toContain('SERVING');
  expect(await watch(staying)).toBe('SERVING');
  staying.abort();
});

test('a watch that its deadline ends is told so, before it has begun and after', async () => {
  for (const timeout of ['0m', '1m', '100m']) {
    const whole = async () => {
      for await (const { status } of health.watch({}, { headers: { 'grpc-timeout': timeout } })) expect(status).toBe(Serving.SERVING);
    };
    await expect(whole()).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  }
});

test('who watches the health of his token is told whether it is accepted, as who asks once', async () => {
  const leaving = new AbortController();
  for (const [authorization, told] of [
    ['Bearer right', 'SERVING'],
    ['Bearer wrong', 'NOT_SERVING'],
  ] as const) {
    expect(await watch(leaving, { authorization }, 'internal-token')).toBe(told);
    const { status } = await health.check({ service: 'internal-token' }, { headers: { authorization } });
    expect(Serving[status]).toBe(told);
  }
  leaving.abort();
});
