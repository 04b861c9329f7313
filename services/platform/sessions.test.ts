// Connections whose other end no longer answers (a process that is stopped or stalled, a machine that is gone), or never takes an answer.
import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
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

test('tells its callers how much metadata a call may have', async () => {
  const options = { host: '127.0.0.1', port: 0, isKnown: () => true, logger: openLog('test', 'silent'), metrics: new Registry() };
  const server = await listenBounded(() => undefined, options);
  const session = connectHttp2(`http://127.0.0.1:${server.port}`);
  try {
    await once(session, 'remoteSettings');
    expect(session.remoteSettings.maxHeaderListSize).toBe(65_536);
  } finally {
    session.destroy();
    await server.close();
  }
});

test('who has no token may leave 200 streams open, and is ended with one more, however slowly they come', async () => {
  const options = { host: '127.0.0.1', port: 0, isKnown: () => false, logger: openLog('test', 'silent'), metrics: new Registry() };
  const server = await listenBounded((request) => request.resume(), options);
  const session = connectHttp2(`http://127.0.0.1:${server.port}`);
  try {
    const ended = once(session, 'goaway');
    session.on('error', () => undefined);
    const open = () => session.request({ ':method': 'POST', ':path': '/' }).on('error', () => undefined);
    await once(session, 'connect');
    for (let place = 0; place < 200; place++) open();
    // What may be opened each second has come back.
    await pause(1_000);
    await promisify(session.ping.bind(session))();
    expect(session.closed).toBe(false);
    open();
    expect((await ended)[0]).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  } finally {
    session.destroy();
    await server.close();
  }
});

test('who reads no answers is given no more of them than 256 MB on a connection, and has his further calls refused', async () => {
  const options = { host: '127.0.0.1', port: 0, isKnown: () => true, logger: openLog('test', 'silent'), metrics: new Registry() };
  const page = Buffer.alloc(16 << 20);
  const server = await listenBounded((request, response) => {
    request.resume();
    response.end(page);
  }, options);
  const session = connectHttp2(`http://127.0.0.1:${server.port}`, { settings: { initialWindowSize: 0 } });
  try {
    await once(session, 'remoteSettings');
    const outcomes: string[] = [];
    for (let place = 0; place < 24; place++) {
      const stream = session.request({ ':method': 'POST', ':path': '/' }).on('error', () => undefined);
      stream.end();
      outcomes.push(await new Promise((told) => ['response', 'close'].forEach((name) => stream.once(name, () => told(name)))));
    }
    const answered = outcomes.indexOf('close');
    expect(answered).toBeGreaterThanOrEqual(15);
    expect(answered).toBeLessThanOrEqual(17);
    expect(outcomes.slice(answered)).toEqual(Array.from({ length: 24 - answered }, () => 'close'));
  } finally {
    session.destroy();
    await server.close();
  }
});
