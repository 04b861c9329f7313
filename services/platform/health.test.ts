import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Code, createClient, type Client } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { Gauge, Registry } from 'prom-client';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { serveOps, type Readiness } from './health.ts';
import type { RunningServer } from './lifetime.ts';

describe('over gRPC', () => {
  let server: RunningServer;
  let health: Client<typeof Health>;
  let asked: number;
  let state: Readiness;

  beforeEach(async () => {
    asked = 0;
    state = { ready: true, dependencies: { postgresql: 'ok', kafka: 'away' } };
    server = await startGrpcServer({ services: [LedgerService], readiness: () => (asked++, Promise.resolve(state)) });
    health = createClient(Health, createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}` }));
  });
  afterEach(() => server.close());

  test('services and dependencies have a health, which needs no token', async () => {
    for (const [service, status] of [
      ['', Serving.SERVING],
      [LedgerService.typeName, Serving.SERVING],
      ['postgresql', Serving.SERVING],
      ['kafka', Serving.NOT_SERVING],
    ] as const) {
      expect(await health.check({ service })).toMatchObject({ status });
    }
    await expect(health.check({ service: 'other' })).rejects.toMatchObject({ code: Code.NotFound });
    const { statuses } = await health.list({});
    expect(statuses).toMatchObject({ '': { status: Serving.SERVING }, [LedgerService.typeName]: { status: Serving.SERVING } });
  });

  test('many who ask within a second are answered from one check, later ones from a new one', async () => {
    const began = performance.now();
    for (let call = 0; call < 20; call++) await health.check({});
    // One more for each further second, on however busy a machine.
    expect(asked).toBeLessThanOrEqual(1 + (performance.now() - began) / 1000);
    state = { ...state, ready: false };
    while ((await health.check({})).status === Serving.SERVING) await pause(20);
  });

  test('a watch reports each change, an unknown service, too, and ends with its deadline', async () => {
    const seen: string[] = [];
    const watch = async () => {
      for await (const { status } of health.watch({}, { timeoutMs: 3_500 })) {
        seen.push(Serving[status]);
        state = { ...state, ready: !state.ready };
      }
    };
    await expect(watch()).rejects.toMatchObject({ code: Code.DeadlineExceeded });
    expect(seen.slice(0, 2)).toEqual(['SERVING', 'NOT_SERVING']);
    for await (const { status } of health.watch({ service: 'other' })) {
      expect(status).toBe(Serving.SERVICE_UNKNOWN);
      break;
    }
  });

  test('the health of the internal token says whether the caller’s is accepted', async () => {
    for (const [authorization, status] of [
      ['Bearer token', Serving.SERVING],
      ['Bearer wrong', Serving.NOT_SERVING],
    ] as const) {
      expect(await health.check({ service: 'internal-token' }, { headers: { authorization } })).toMatchObject({ status });
    }
  });
});

test('half a request to the operations port keeps no process from ending', async () => {
  const ops = await serveOps('127.0.0.1', 0, new Registry(), () => Promise.resolve({ ready: true, dependencies: {} }));
  const socket = connect(ops.port, '127.0.0.1');
  try {
    const gone = new Promise((done) => socket.once('close', done));
    socket.write('GET /healthz HTTP/1.1\r\n');
    // Who is answered has connected later: the half is there.
    expect((await fetch(`http://127.0.0.1:${ops.port}/healthz`)).status).toBe(200);
    const closed = Promise.all([ops.close(), gone]).then(() => 'closed');
    expect(await Promise.race([closed, pause(30_000, 'open', { ref: false })])).toBe('closed');
  } finally {
    socket.destroy();
  }
});

test('who asks for figures while they are taken gets the same ones', async () => {
  let taken = 0;
  const metrics = new Registry();
  const gauge: Gauge = new Gauge({
    name: 'taken',
    help: 'How often',
    registers: [metrics],
    collect: async () => {
      gauge.set(++taken);
      await pause(50);
    },
  });
  const ops = await serveOps('127.0.0.1', 0, metrics, () => Promise.resolve({ ready: true, dependencies: {} }));
  const socket = connect(ops.port, '127.0.0.1');
  try {
    const sizes: number[] = [];
    // Pipelined: the second is read before the first is answered.
    socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    let text = '';
    for await (const chunk of socket) text += String(chunk);
    for (const [, value] of text.matchAll(/^taken (\d+)$/gm)) sizes.push(Number(value));
    expect(sizes).toEqual([1, 1]);
    const later = await fetch(`http://127.0.0.1:${ops.port}/metrics`);
    expect(await later.text()).toContain('taken 2');
  } finally {
    socket.destroy();
    await ops.close();
  }
});

test('the metrics say which dependencies are away as the read before found it, and wait for none', async () => {
  let dependencies: Record<string, string> = { postgresql: 'read-only', kafka: 'ok', relay: 'waits for postgresql' };
  let hangs = false;
  const readiness = () => (hangs ? new Promise<never>(() => undefined) : Promise.resolve({ ready: true, dependencies }));
  const ops = await serveOps('127.0.0.1', 0, new Registry(), readiness);
  const states = async () => {
    const exposed = await (await fetch(`http://127.0.0.1:${ops.port}/metrics`)).text();
    return [...exposed.matchAll(/^dependency_up\{dependency="(\w+)"\} (\d)$/gm)].map(([, name, state]) => `${name} ${state}`);
  };
  try {
    expect(await states()).toEqual(['postgresql 0', 'kafka 1', 'relay 0']);
    dependencies = { postgresql: 'ok', kafka: 'ok' };
    await states();
    expect(await states()).toEqual(['postgresql 1', 'kafka 1']);
    hangs = true;
    expect(await states()).toEqual(['postgresql 1', 'kafka 1']);
  } finally {
    await ops.close();
  }
});
