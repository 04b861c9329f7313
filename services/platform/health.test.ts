import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Gauge, Registry } from 'prom-client';
import { metricsText, serveOps } from './health.ts';

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

test('who asks for anything but an answer, or its head, is told that there is nothing else', async () => {
  const ops = await serveOps('127.0.0.1', 0, new Registry(), () => Promise.resolve({ ready: true, dependencies: {} }));
  try {
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      const ask = async (method: string) => (await fetch(`http://127.0.0.1:${ops.port}${path}`, { method })).status;
      expect(await Promise.all(['GET', 'HEAD', 'POST', 'DELETE'].map(ask))).toEqual([200, 200, 405, 405]);
    }
  } finally {
    await ops.close();
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
    const told: number[] = [];
    // Pipelined: the second is read before the first is answered.
    socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    let text = '';
    for await (const chunk of socket) text += String(chunk);
    for (const [, value] of text.matchAll(/^taken (\d+)$/gm)) told.push(Number(value));
    expect(told).toEqual([1, 1]);
    const later = await fetch(`http://127.0.0.1:${ops.port}/metrics`);
    expect(await later.text()).toContain('taken 2');
  } finally {
    socket.destroy();
    await ops.close();
  }
});

test('so does who asks later in the same turn of the event loop, where taking them needs no turn', async () => {
  let taken = 0;
  const metrics = new Registry();
  const gauge: Gauge = new Gauge({ name: 'taken', help: 'How often', registers: [metrics], collect: () => gauge.set(++taken) });
  const figures = metricsText(metrics);
  const first = figures();
  // All that waits for no turn has come to its end by then.
  await new Promise<void>((done) => process.nextTick(done));
  expect(await Promise.all([first, figures()])).toEqual([expect.stringContaining('taken 1'), expect.stringContaining('taken 1')]);
  expect(await figures()).toContain('taken 2');
});

test('an answer that takes longer than it is kept for puts no warning of Node into the log', () => {
  const module = JSON.stringify(new URL('./health.ts', import.meta.url).href);
  const script = `const { recent } = await import(${module});
    console.log(await recent(() => new Promise((done) => setTimeout(done, 1100, 'answered')))());`;
  // In a process of its own: what Node says is not heard by whom jest runs.
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect([stdout, stderr]).toEqual(['answered\n', '']);
});
