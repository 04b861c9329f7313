// When connections end on which nothing is asked.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { openLog } from '../services/platform/telemetry.ts';
import { buildApp, type AppOptions } from './app.ts';
import { ApiKeyCache } from './api-keys.ts';
import { TokenVerifier } from './tokens.ts';

test('a connection that has idled for its time is ended, but not where a request came while this process stood still', async () => {
  const nobody = () => Promise.reject(new Error('nobody is asked'));
  const options: AppOptions = {
    authorities: { keys: new ApiKeyCache(nobody), tokens: new TokenVerifier(nobody), memberRole: nobody },
    // Later than in the turn in which it is asked.
    routes: (app) => app.get('/', { config: { access: { by: 'nobody' } } }, () => pause(50, 'answered')),
    logger: openLog('gateway', 'silent'),
    metrics: new Registry(),
    trustProxy: [],
    corsOrigins: [],
    maxInFlight: 10,
    maxConnections: 10,
  };
  const app = await buildApp(options);
  try {
    // Node adds a second.
    app.server.keepAliveTimeout = 100;
    const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
    const socket = connect(Number(url.port), '127.0.0.1');
    const ask = () => {
      socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      return once(socket, 'data');
    };
    await ask();
    const answer = ask();
    // Both of them stand still, and the request is in the gateway's socket.
    for (const end = Date.now() + 1_500; Date.now() < end;);
    expect(String(await answer)).toContain('200 OK');
    await once(socket, 'end');
  } finally {
    await app.close();
  }
});
