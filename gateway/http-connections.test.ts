import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { lastAnswer, startGatewayOnly, type GatewayOnly } from '../test/gateway-only.ts';
import { until } from '../test/polling.ts';

let gateway: GatewayOnly;
beforeAll(async () => {
  gateway = await startGatewayOnly();
});
afterAll(() => gateway.stop());

const metric = async ({ url }: GatewayOnly, name: string) =>
  Number(new RegExp(`^${name}(?:\\{.*\\})? (\\d+)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())?.[1] ?? 0);

test.each([
  ['no request line', 'GARBAGE\r\n\r\n', 400, 'malformed_request'],
  ['a header without a colon', 'GET / HTTP/1.1\r\nHost x\r\n\r\n', 400, 'malformed_request'],
  ['no host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'malformed_request'],
  ['headers without end', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, 431, 'headers_too_large'],
  [
    'a broken chunk',
    'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nGARBAGE\r\n',
    400,
    'malformed_request',
  ],
])('%s is answered in the envelope, and the connection ends', async (_, text, status, code) => {
  const received = await gateway.raw(text);
  const { head, body } = lastAnswer(received);
  expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`]);
  expect(body).toMatchObject({ success: false, code, request_id: expect.any(String) });
  expect(head).toContain(`x-request-id: ${body.request_id}`);
});

test('malformed HTTP is counted', async () => {
  const name = 'http_requests_total\\{method="\\*",route="malformed",status="400".*';
  const before = await metric(gateway, name);
  await gateway.raw('GARBAGE\r\n\r\n');
  expect(await metric(gateway, name)).toBe(before + 1);
});

const login = JSON.stringify({ email: 'ada@example.com', password: 'correct horse' });
const whole = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${login.length}\r\n\r\n${login}`;

test('what is malformed behind a whole request leaves that its answer: it may have posted', async () => {
  for (const more of ['\0', '}', 'GARBAGE\r\n\r\n']) {
    expect([more, /(?<="code":")\w+/.exec(await gateway.raw(whole + more))?.[0]]).toEqual([more, 'unavailable']);
  }
});

/** A gateway whose identity accepts connections and never answers. */
async function startWaiting(environment: NodeJS.ProcessEnv = {}) {
  const open = new Set<Socket>();
  const silent = createServer((socket) => void open.add(socket.on('error', () => undefined)));
  await new Promise<void>((done) => silent.listen(0, '127.0.0.1', done));
  const waiting = await startGatewayOnly({ IDENTITY_ADDR: `127.0.0.1:${(silent.address() as AddressInfo).port}`, ...environment });
  return {
    waiting,
    end: async () => {
      silent.close();
      for (const each of open) each.destroy();
      await waiting.stop();
    },
  };
}

test('requests beyond MAX_IN_FLIGHT are 503 with Retry-After, and leave with their client', async () => {
  const { waiting, end } = await startWaiting({ MAX_IN_FLIGHT: '8' });
  try {
    const inFlight = () => metric(waiting, 'http_requests_in_flight');
    const sockets = Array.from({ length: 4 }, () => connect(waiting.port, '127.0.0.1').on('error', () => undefined));
    for (const socket of sockets) socket.write(whole);
    await until(inFlight, (count) => count === 4);
    // Requests without a tenant have one half.
    const answer = await fetch(`${waiting.url}/v1/auth/login`, {
      method: 'POST',
      body: login,
      headers: { 'content-type': 'application/json' },
    });
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await answer.json()).toMatchObject({ code: 'overloaded' });
    expect((await fetch(`${waiting.url}/healthz`)).status).toBe(200);
    for (const socket of sockets) socket.destroy();
    await until(inFlight, (count) => count === 0);
    const left = 'http_requests_total\\{method="POST",route="/v1/auth/login",status="0".*';
    expect(await metric(waiting, left)).toBe(4);
  } finally {
    await end();
  }
});

test('rejected requests and HEAD hold no slot', async () => {
  for (const [method, path] of [
    ['HEAD', '/v1/user'],
    ['GET', '/v1/nothing'],
    ['PUT', '/v1/user'],
    ['GET', '/v1/%zz'],
    ['GET', '/v1/user'],
  ] as const) {
    await (await fetch(gateway.url + path, { method })).text();
  }
  expect(await metric(gateway, 'http_requests_in_flight')).toBe(0);
});

test('connections beyond MAX_CONNECTIONS are closed, counted and logged', async () => {
  const few = await startGatewayOnly({ MAX_CONNECTIONS: '5' });
  const sockets: Socket[] = [];
  try {
    await (await fetch(`${few.url}/healthz`)).text();
    let [closed, answered] = [0, 0];
    for (let number = 0; number < 20; number++) {
      const socket = connect(few.port, '127.0.0.1');
      socket.on('error', () => undefined).once('close', () => closed++);
      socket.once('data', () => answered++).write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      sockets.push(socket);
    }
    await until(
      () => Promise.resolve(closed + answered),
      (count) => count === sockets.length,
    );
    expect(closed).toBeGreaterThanOrEqual(15);
    expect([await metric(few, 'http_connections_refused_total'), await metric(few, 'http_connections')]).toEqual([closed, 5]);
    await until(
      () => Promise.resolve(few.output()),
      (output) => output.includes('rejecting connections'),
    );
  } finally {
    for (const socket of sockets) socket.destroy();
    await few.stop();
  }
});
