// A caller whose replicas stall.
import { createClient } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { openProxy } from '../../test/proxy.ts';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { openCaller } from './caller.ts';
import { serve } from './serve.ts';
import { openLog } from './telemetry.ts';

test('a replica that lets a call time out gets no other one while there is another replica', async () => {
  const answered = [0, 0];
  const replicas = await Promise.all(
    answered.map(async (_, place) => {
      const readiness = async () => {
        answered[place]!++;
        return { ready: true, dependencies: {} };
      };
      const logger = openLog('test', 'silent');
      const bounds = { host: '127.0.0.1', port: 0, tokens: ['token'], maxMessageBytes: 1 << 20 };
      const served = await serve({ ...bounds, services: [], routes: () => undefined, logger, metrics: new Registry(), readiness });
      return { served, proxy: await openProxy(served.port) };
    }),
  );
  const addresses = replicas.map(({ proxy }) => `127.0.0.1:${proxy.port}`);
  const caller = openCaller({ addresses, token: 'token', maxMessageBytes: 1 << 20, retried: [] });
  const health = createClient(Health, caller);
  try {
    while (answered.includes(0)) await health.check({});
    replicas[0]?.proxy.hold(true);
    let timedOut = 0;
    for (let call = 0; call < 12; call++) await health.check({}, { timeoutMs: 2_000 }).catch(() => timedOut++);
    expect(timedOut).toBe(1);
    // With the other one away it is asked again.
    replicas[0]?.proxy.hold(false);
    await replicas[1]?.served.close();
    const before = answered[0]!;
    while (answered[0] === before) await health.check({}).catch(() => undefined);
  } finally {
    caller.close();
    for (const { served, proxy } of replicas) {
      await proxy.close();
      await served.close();
    }
  }
});
