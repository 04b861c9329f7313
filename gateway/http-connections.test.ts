// What comes on a connection beside whole requests one after the other, and how connections end.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { lastAnswer, startGatewayOnly, type GatewayOnly } from '../test/gateway-only.ts';

let alone: GatewayOnly;
beforeAll(async () => {
  alone = await startGatewayOnly();
});
afterAll(() => alone.stop());

describe('a client that asks before it sends its body', () => {
  const asks = (path: string) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n`;

  test.each([
    ['/v1/tenants', 'Content-Length: 2', 401],
    ['/v1/tenants/acme/transactions', 'Content-Length: 2', 401],
    ['/v1/nothing', 'Content-Length: 2', 404],
    ['/v1/user', 'Content-Length: 2', 405],
    ['/v1/auth/login', 'Content-Length: 1048577', 413],
  ])('hears of no 100 where %s, %s is refused for anything else, and the connection ends', async (path, length, status) => {
    const received = await alone.raw(`${asks(path)}${length}\r\n\r\n`);
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`]);
    expect(lastAnswer(received).head).toContain('connection: close');
  });

  test('sends it when it is wanted, and goes on with the connection', async () => {
    const received = await new Promise<string>((resolve, reject) => {
      let text = '';
      const socket = connect(alone.port, '127.0.0.1', () => socket.write(`${asks('/v1/auth/login')}Content-Length: 2\r\n\r\n`));
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
        if (text.endsWith('100 Continue\r\n\r\n')) socket.write('{}');
        else if (text.endsWith('}')) socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      });
      socket.on('close', () => resolve(text));
      socket.on('error', reject);
    });
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 100', 'HTTP/1.1 400', 'HTTP/1.1 200']);
  });

  test('has the connection closed behind his answer where he asked for that, too', async () => {
    const received = await alone.raw(`${asks('/v1/auth/login')}Connection: close\r\nContent-Length: 2\r\n\r\n{}`);
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 100', 'HTTP/1.1 400']);
    expect(lastAnswer(received).head).toContain('connection: close');
  });
});

test.each([
  ['POST /v1/tenants/acme/transactions', 'Content-Length: 200000', '', 401, 'close'],
  ['POST /v1/tenants/acme/transactions', 'Content-Length: 2', '{', 401, 'close'],
  ['POST /v1/tenants/acme/transactions', 'Transfer-Encoding: chunked', '2\r\n{}\r\n', 401, 'close'],
  ['POST /v1/nothing', 'Content-Length: 2', '', 404, 'close'],
  ['GET /healthz', 'Content-Length: 2', '', 200, 'close'],
  ['POST /v1/tenants/acme/transactions', 'Content-Length: 2', '{}', 401, 'keep-alive'],
  ['POST /v1/tenants/acme/transactions', 'Transfer-Encoding: chunked', '2\r\n{}\r\n0\r\n\r\n', 401, 'keep-alive'],
  ['GET /v1/user', 'Accept: */*', '', 401, 'keep-alive'],
  ['GET /healthz', 'Content-Length: 2', '{}', 200, 'keep-alive'],
  ['HEAD /healthz', 'Content-Length: 2', '{}', 200, 'keep-alive'],
  ['GET /healthz', 'Host: y\r\nContent-Length: 2', '{}', 400, 'close'],
])('no connection is kept on which a body may still come: %s, %s, %j', async (request, header, body, status, connection) => {
  const received = await alone.raw(`${request} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${header}\r\n\r\n${body}`, (text) =>
    text.endsWith(request.startsWith('HEAD') ? '\r\n\r\n' : '}'),
  );
  expect(lastAnswer(received).head).toContain(`http/1.1 ${status} `);
  expect(lastAnswer(received).head).toContain(`connection: ${connection}`);
});

const login = JSON.stringify({ email: 'ada@example.com', password: 'correct horse' });
const first = `POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${login.length}\r\n\r\n${login}`;

/** A gateway whose identity takes calls and says nothing, until it hangs up. */
async function startWaiting(): Promise<{ waiting: GatewayOnly; hangUp: () => void; end: () => Promise<unknown> }> {
  const open = new Set<Socket>();
  const silent = createServer((socket) => void open.add(socket.on('error', () => undefined)));
  await new Promise<void>((done) => silent.listen(0, '127.0.0.1', done));
  const waiting = await startGatewayOnly({ IDENTITY_ADDR: `127.0.0.1:${(silent.address() as AddressInfo).port}` });
  const hangUp = () => {
    silent.close();
    for (const each of open) each.destroy();
  };
  const end = () => {
    silent.close();
    return waiting.stop();
  };
  return { waiting, hangUp, end };
}

describe('behind the last answer of a connection nothing is begun, as nobody would be told what came of it', () => {
  const behind = 'POST /v1/auth/logout HTTP/1.1\r\nHost: x\r\n\r\n';
  const statuses = (received: string) => received.match(/HTTP\/1\.1 \d+/g);
  const hasBegun = async ({ url }: GatewayOnly) => (await (await fetch(`${url}/metrics`)).text()).includes('route="/v1/auth/logout"');

  test.each([
    'GET /v1/user HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n',
    'POST /v1/auth/login HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  ])('%j', async (request) => {
    expect(statuses(await alone.raw(request + behind))).toEqual(['HTTP/1.1 400']);
    expect(await hasBegun(alone)).toBe(false);
  });

  describe('also where that one still waits for another', () => {
    let waiting: GatewayOnly;
    let hangUp: () => void;
    let end: () => Promise<unknown>;
    beforeEach(async () => ({ waiting, hangUp, end } = await startWaiting()));
    afterEach(() => end());
    const talk = () => {
      const conversation = { socket: connect(waiting.port, '127.0.0.1'), received: '', closed: Promise.resolve<unknown>(undefined) };
      conversation.socket.on('data', (chunk) => (conversation.received += chunk.toString('latin1'))).on('error', () => undefined);
      conversation.closed = new Promise((done) => conversation.socket.once('close', done));
      return conversation;
    };

    test('whose body had not come', async () => {
      const conversation = talk();
      conversation.socket.write(`${first}POST /v1/tenants HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{`);
      // In each round the gateway reads on wherever something has come.
      const rounds = async () => {
        for (let round = 0; round < 100; round++) await (await fetch(`${waiting.url}/healthz`)).text();
      };
      await rounds();
      conversation.socket.write(`}${behind}`);
      await rounds();
      hangUp();
      await conversation.closed;
      expect(statuses(conversation.received)).toEqual(['HTTP/1.1 503', 'HTTP/1.1 401']);
      expect(await hasBegun(waiting)).toBe(false);
    });

    test('and however many come behind it: they are not kept', async () => {
      const conversation = talk();
      conversation.socket.write(`${first}GET /v1/user HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n${behind.repeat(200)}`);
      await conversation.closed;
      expect(conversation.received).toBe('');
      expect(await hasBegun(waiting)).toBe(false);
    });
  });
});

test('a name of two addresses is listened on at one, where everything is as it is said to be', async () => {
  // As this machine might say.
  const two = `import dns from 'node:dns'; const own = dns.lookup; const at = (last) => ({ address: '127.0.0.' + last, family: 4 });
    dns.lookup = (name, how, done) => name === 'localhost' && how.all ? done(null, [at(1), at(2)]) : own(name, how, done);`;
  const named = await startGatewayOnly({ HOST: 'localhost', NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(two)}` });
  try {
    await expect(fetch(`http://127.0.0.2:${named.port}/healthz`)).rejects.toThrow();
    expect((await fetch(`${named.url}/healthz`)).status).toBe(200);
  } finally {
    await named.stop();
  }
});

// A body whose length was counted in characters is longer, by every letter beyond ASCII.
test('what is broken behind whole requests leaves them their answers, as they may have been posted, and has none of its own', async () => {
  const whole = 'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}';
  const codes = async (text: string) => (await alone.raw(text)).match(/(?<="code":")\w+/g);
  for (const more of ['\0', '}', 'GARBAGE\r\n\r\n', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`]) {
    expect([more, await codes(whole + more)]).toEqual([more, ['validation_failed']]);
    expect([more, await codes(`${whole}${whole}${first}${more}`)]).toEqual([
      more,
      ['validation_failed', 'validation_failed', 'unavailable'],
    ]);
  }
  // A request of which the body is broken waits for an answer.
  const broken = 'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nGARBAGE\r\n';
  expect(await codes(whole + broken)).toEqual(['validation_failed', 'malformed_request']);
  expect(await codes(`${whole}CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n`)).toEqual(['validation_failed', 'route_not_found']);
});

test('a request that was refused before its body came, which then is broken, leaves those before it their answers', async () => {
  const { waiting, hangUp, end } = await startWaiting();
  try {
    let received = '';
    const socket = connect(waiting.port, '127.0.0.1', () => {
      socket.write(`${first}POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{`);
    });
    socket.on('error', () => undefined).on('data', (chunk) => (received += chunk.toString('latin1')));
    const closed = once(socket, 'close');
    // Both are begun, besides the one that asks.
    while ((await figureOf(waiting, 'http_requests_in_flight')) < 3) await pause(20);
    for (let part = 0; part < 20; part++) {
      socket.write('}GARBAGE\r\n');
      await pause(5);
    }
    hangUp();
    await closed;
    expect(received.match(/(?<="code":")\w+/g)).toEqual(['unavailable', 'route_not_found']);
  } finally {
    await end();
  }
});

test('of more than 64 requests that come in one read none is answered', async () => {
  const many = (count: number) =>
    alone.raw(
      `${'GET /v1/user HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(count - 1)}GET /v1/user HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
  expect((await many(64)).match(/HTTP\/1\.1 401/g)).toHaveLength(64);
  expect(await many(200)).toBe('');
});

test('a connection that begins more requests than it takes answers is cut', async () => {
  const socket = connect(alone.port, '127.0.0.1', () => socket.write('GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(500)));
  socket.on('error', () => undefined).resume();
  await new Promise((done) => socket.once('close', done));
  expect((await fetch(`${alone.url}/healthz`)).status).toBe(200);
});

// With such a request Node's parser ends, and so does Node's care for the answers of those before it.
test.each([
  ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n'],
])('what waits on a connection for its answers is over when the connection is, also before %j', async (last) => {
  const { waiting, end } = await startWaiting();
  const inFlight = () => figureOf(waiting, 'http_requests_in_flight');
  try {
    const sockets = Array.from({ length: 5 }, () => connect(waiting.port, '127.0.0.1').on('error', () => undefined));
    for (const socket of sockets) socket.write(first.repeat(30) + last);
    const closed = Promise.all(sockets.map((socket) => new Promise((done) => socket.once('close', done))));
    const until = async (isSo: (count: number) => boolean) => {
      for (const end = Date.now() + 20_000; !isSo(await inFlight()) && Date.now() < end;) await pause(20);
    };
    await until((count) => count > 5 * 29);
    for (const socket of sockets) socket.destroy();
    await closed;
    await until((count) => count === 1);
    // Who asks for the figure.
    expect(await inFlight()).toBe(1);
  } finally {
    await end();
  }
});

const figureOf = async ({ url }: GatewayOnly, name: string) =>
  Number(new RegExp(`^${name}(?:\\{.*\\})? (\\d+)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())?.[1] ?? 0);

test('what is answered before it is a request counts, and what is broken within one counts once', async () => {
  const answered = () =>
    Promise.all(
      ['400', '404'].map((status) => figureOf(alone, `http_requests_total\\{method="\\*",route="malformed",status="${status}".*`)),
    );
  const [bad = 0, unknown = 0] = await answered();
  await alone.raw('GARBAGE\r\n\r\n');
  await alone.raw('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n');
  await alone.raw('POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nGARBAGE\r\n');
  expect(await answered()).toEqual([bad + 1, unknown + 1]);
});

test('figures are taken once for several who ask at a time', async () => {
  const sockets = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const socket = connect(alone.port, '127.0.0.1');
      // The gateway takes up one connection a turn: what is sent over those that it has is read at a time.
      socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(socket, 'readable');
      return socket;
    }),
  );
  for (const socket of sockets) socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  const texts = await Promise.all(sockets.map(async (socket) => (await socket.toArray()).join('')));
  // A look at the clock of the process costs time on it.
  const used = texts.map((text) => /^process_cpu_seconds_total\S* (\S+)$/m.exec(text)?.[1]);
  expect(used).not.toContain(undefined);
  expect(new Set(used).size).toBeLessThan(used.length);
});

test.each([
  ['the bound', { MAX_CONNECTIONS: '20' }, undefined],
  ['what the machine has descriptors for', {}, 220],
])('connections beyond %s are closed, counted, and told of in the log', async (_, environment, descriptors) => {
  const few = await startGatewayOnly(environment, descriptors);
  const sockets: Socket[] = [];
  try {
    // Its connection is kept for those who ask below.
    await (await fetch(`${few.url}/healthz`)).text();
    let [closed, answered] = [0, 0];
    for (let number = 0; number < 50; number++) {
      const socket = connect(few.port, '127.0.0.1');
      socket.on('error', () => undefined).once('close', () => closed++);
      socket.once('data', () => answered++).write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      sockets.push(socket);
    }
    const refused = () => figureOf(few, 'http_connections_refused_total');
    for (const until = Date.now() + 20_000; closed + answered < sockets.length && Date.now() < until;) await pause(20);
    expect(closed).toBeGreaterThanOrEqual(30);
    expect([closed + answered, await refused()]).toEqual([sockets.length, closed]);
    expect(await figureOf(few, 'http_connections')).toBe(20);
    // Lines are written together, once a second.
    for (const until = Date.now() + 20_000; !few.output().includes('refusing') && Date.now() < until;) await pause(20);
    expect(few.output()).toContain('refusing connections');
  } finally {
    for (const socket of sockets) socket.destroy();
    await few.stop();
  }
});

test('refusals that nobody reads keep nobody out', async () => {
  const few = await startGatewayOnly({ MAX_IN_FLIGHT: '8' });
  const inFlight = async () => Number(/^http_requests_in_flight\S* (\d+)/m.exec(await (await fetch(`${few.url}/metrics`)).text())?.[1]);
  try {
    const script = /<script src="([^"]+)"/.exec(await (await fetch(`${few.url}/docs/`)).text())?.[1] ?? '';
    const socket = connect(few.port, '127.0.0.1');
    socket.on('error', () => undefined);
    // Megabytes stand before them, which no kernel takes for somebody who does not read.
    socket.write(`GET /docs/${script} HTTP/1.1\r\nHost: x\r\n\r\n` + 'GET /v1/user HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20));
    for (const until = Date.now() + 20_000; (await inFlight()) <= 20 && Date.now() < until;) await pause(20);
    expect(await inFlight()).toBeGreaterThan(20);
    expect((await fetch(`${few.url}/v1/user`)).status).toBe(401);
    socket.destroy();
  } finally {
    await few.stop();
  }
});

describe('what is not HTTP', () => {
  test.each([
    ['no request line', 'GARBAGE\r\n\r\n', 400, 'malformed_request'],
    ['a header without a colon', 'GET / HTTP/1.1\r\nHost x\r\n\r\n', 400, 'malformed_request'],
    ['two lengths', 'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{', 400, 'malformed_request'],
    [
      'length and chunks',
      'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
      'malformed_request',
    ],
    ['headers without end', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, 431, 'headers_too_large'],
    ['a path without end', `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431, 'headers_too_large'],
  ])('%s is answered in the envelope, and the connection ends', async (_name, text, status, code) => {
    const answer = lastAnswer(await alone.raw(text));
    expect(answer).toMatchObject({ status, body: { success: false, code, request_id: expect.any(String) } });
    expect(answer.head).toContain('content-type: application/json');
    expect(answer.head).toContain('x-request-id: ');
  });

  test.each([
    ['GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n', 200],
    ['POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}', 400],
    ['POST /v1/tenants HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}', 401],
  ])('also after sound requests on the same connection: %s', async (sound, status) => {
    const received = await new Promise<string>((resolve, reject) => {
      let text = '';
      const socket = connect(alone.port, '127.0.0.1', () => socket.write(sound));
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
        if (text.endsWith('}') && text.split('HTTP/1.1 ').length === 2) socket.write('GARBAGE\r\n\r\n');
      });
      socket.on('close', () => resolve(text));
      socket.on('error', reject);
    });
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`, 'HTTP/1.1 400']);
    expect(lastAnswer(received).body.code).toBe('malformed_request');
  });

  test('a request of HTTP/1.0 without Host, and one that expects something, are answered like any other', async () => {
    expect(lastAnswer(await alone.raw('GET /healthz HTTP/1.0\r\n\r\n')).status).toBe(200);
    const expects = 'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: a-miracle\r\nConnection: close\r\n\r\n';
    expect(lastAnswer(await alone.raw(expects)).status).toBe(200);
  });
});

describe('being told to stop', () => {
  test('is not kept up by clients that never finish what they began', async () => {
    const other = await startGatewayOnly();
    const ends: Promise<void>[] = [];
    for (const text of [
      'GET /healthz HT',
      'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Le',
      'POST /v1/user HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{',
      'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2000000\r\n\r\n{',
      'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n',
    ]) {
      const socket = connect(other.port, '127.0.0.1').resume();
      socket.on('error', () => undefined);
      ends.push(new Promise((ended) => socket.on('close', () => ended())));
      await new Promise<void>((sent) => socket.write(text, () => sent()));
    }
    const began = performance.now();
    expect(await other.stop()).toEqual([]);
    await Promise.all(ends);
    expect(performance.now() - began).toBeLessThan(10_000);
  });
});
