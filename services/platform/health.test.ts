import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { serveOps } from './health.ts';

test('half a request to the operations port keeps no process from ending', async () => {
  const ops = await serveOps('127.0.0.1', 0, new Registry(), () => Promise.resolve({ ready: true, dependencies: {} }));
  const socket = connect(ops.port, '127.0.0.1');
  try {
    const gone = new Promise((done) => socket.once('close', done));
    socket.write('GET /healthz HTTP/1.1\r\n');
    // Who is answered has connected later: the half is there.
    expect((await fetch(`http://127.0.0.1:${ops.port}/healthz`)).status).toBe(200);
    const closed = Promise.all([ops.close(), gone]).then(() => 'closed');
    expect(await Promise.race([closed, pause(10_000, 'open', { ref: false })])).toBe('closed');
  } finally {
    socket.destroy();
  }
});
