// Connections whose other end no longer answers: a process that is stopped or stalled, a machine that is gone.
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { listenBounded } from './sessions.ts';
import { openLog } from './telemetry.ts';

const preface = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])]);

test.each([
  ['said nothing', Buffer.alloc(0)],
  ['began a session', preface],
])('a caller that %s and ends no connection keeps no server from closing', async (_, said) => {
  const metrics = new Registry();
  const options = { host: '127.0.0.1', port: 0, isKnown: () => true, logger: openLog('test', 'silent'), metrics };
  const server = await listenBounded(() => undefined, options);
  // Reads nothing, and so never learns that the server is about to go.
  const socket: Socket = connect({
    port: server.port,
    host: '127.0.0.1',
    allowHalfOpen: true,
    onread: { buffer: Buffer.alloc(1), callback: () => false },
  });
  socket.on('error', () => undefined);
  try {
    socket.write(said);
    const open = async () => (await metrics.getSingleMetric('grpc_server_connections')?.get())?.values[0]?.value;
    for (const until = Date.now() + 30_000; (await open()) !== 1 && Date.now() < until;) await pause(20);
    expect(await open()).toBe(1);
    expect(await Promise.race([server.close().then(() => 'closed'), pause(25_000, 'open', { ref: false })])).toBe('closed');
  } finally {
    socket.destroy();
  }
});
