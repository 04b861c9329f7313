// A gRPC server inside the test's process, for the tests of those who call one.
import { Registry } from 'prom-client';
import type { RunningServer } from '../services/platform/lifetime.ts';
import { serve, type ServeOptions } from '../services/platform/serve.ts';
import { openLog } from '../services/platform/telemetry.ts';

/** Starts one on 127.0.0.1; without other words it serves nothing, takes the token `token` and messages of up to 1 MiB, logs nothing and is ready. */
export function startGrpcServer(options: Partial<ServeOptions> = {}): Promise<RunningServer> {
  return serve({
    host: '127.0.0.1',
    port: 0,
    services: [],
    routes: () => undefined,
    tokens: ['token'],
    maxMessageBytes: 1 << 20,
    maxStreams: 1_000,
    logger: openLog('test', 'silent'),
    metrics: new Registry(),
    readiness: () => Promise.resolve({ ready: true, dependencies: {} }),
    ...options,
  });
}
