// Requests that two servers would read differently: whoever stands in front of the gateway must never be led to take one request for two, or
// two for one. Each is sent as it stands; behind it a second request waits to be mistaken for a first.
import { connect } from 'node:net';
import { startGatewayOnly, type GatewayOnly } from '../gateway-only.ts';

let alone: GatewayOnly;
beforeAll(async () => {
  alone = await startGatewayOnly();
});
afterAll(() => alone.stop());

interface Received {
  /** Status lines, in order. */
  answers: number[];
  /** What the last one says. */
  code: string | undefined;
  text: string;
  /** Whether the server ended the connection of itself. */
  ended: boolean;
}

const answersIn = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));

/** Sends bytes as they are and hears everything until the server ends the connection, or says nothing for a second after so many answers. */
function send(text: string, answers = Infinity): Promise<Received> {
  return new Promise((resolve) => {
    let received = '';
    let ended = false;
    const socket = connect(alone.port, '127.0.0.1', () => socket.write(Buffer.from(text, 'latin1')));
    let silence = setTimeout(() => socket.destroy(), 20_000);
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      clearTimeout(silence);
      silence = setTimeout(() => socket.destroy(), answersIn(received).length < answers ? 20_000 : 1_000);
    });
    socket.on('end', () => (ended = true));
    socket.on('error', () => (ended = true));
    socket.on('close', () => {
      clearTimeout(silence);
      resolve({ answers: answersIn(received), code: /"code":"([a-z_]+)"[^]*$/.exec(received)?.[1], text: received, ended });
    });
  });
}

// Its answer can be told from all others: no other request here is of this path, and its id comes back.
const hidden = 'GET /healthz HTTP/1.1\r\nHost: hidden\r\nX-Request-Id: hidden\r\n\r\n';
const line = 'POST /v1/auth/login HTTP/1.1\r\n';
const head = `${line}Host: x\r\nContent-Type: application/json\r\n`;
// The answer takes a call to a service, which is away.
const token = 'Authorization: Bearer eyJhbGciOiJFZERTQSJ9.e30.c2ln\r\n';
const chunked = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

const malformed: [string, string][] = [
  ['a length and chunks', `${head}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
  ['chunks and a length', `${head}Transfer-Encoding: chunked\r\nContent-Length: ${5 + hidden.length}\r\n\r\n0\r\n\r\n${hidden}`],
  ['chunks and a length of none', `${head}Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n${hidden}`],
  ['two lengths', `${head}Content-Length: 2\r\nContent-Length: ${2 + hidden.length}\r\n\r\n{}${hidden}`],
  ['one length twice', `${head}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}${hidden}`],
  ['two lengths in one field', `${head}Content-Length: 2, ${2 + hidden.length}\r\n\r\n{}${hidden}`],
  ['a length with a sign', `${head}Content-Length: +2\r\n\r\n{}${hidden}`],
  ['a length below zero', `${head}Content-Length: -2\r\n\r\n{}${hidden}`],
  ['a hexadecimal length', `${head}Content-Length: 0x2\r\n\r\n{}${hidden}`],
  ['a length with a space in it', `${head}Content-Length: 0 2\r\n\r\n{}${hidden}`],
  ['a length beyond 64 bits', `${head}Content-Length: 18446744073709551618\r\n\r\n{}${hidden}`],
  ['a length that is empty', `${head}Content-Length:\r\n\r\n{}${hidden}`],
  ['an encoding that is none', `${head}Transfer-Encoding: xchunked\r\n\r\n${chunked('{}')}${hidden}`],
  ['an encoding that is quoted', `${head}Transfer-Encoding: "chunked"\r\n\r\n${chunked('{}')}${hidden}`],
  ['chunks, then another encoding', `${head}Transfer-Encoding: chunked, identity\r\n\r\n${chunked('{}')}${hidden}`],
  ['identity', `${head}Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}${hidden}`],
  [
    'chunks and another encoding in two fields',
    `${head}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n${chunked('{}')}${hidden}`,
  ],
  ['a tab around chunked', `${head}Transfer-Encoding:\tchunked\t\r\n\r\n${chunked('{}')}${hidden}`],
  ['a vertical tab before chunked', `${head}Transfer-Encoding: \x0bchunked\r\n\r\n${chunked('{}')}${hidden}`],
  ['a form feed after chunked', `${head}Transfer-Encoding: chunked\x0c\r\n\r\n${chunked('{}')}${hidden}`],
  ['a space before the colon', `${head}Transfer-Encoding : chunked\r\n\r\n${chunked('{}')}${hidden}`],
  ['a tab before the colon', `${head}Content-Length\t: 2\r\n\r\n{}${hidden}`],
  ['a space before the name', `${line} Host: x\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a name that is empty', `${head}: x\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a name with a NUL', `${head}X\0Y: z\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a value with a NUL', `${head}X: y\0z\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a folded line', `${head}X: y\r\n z\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a folded encoding', `${head}Transfer-Encoding:\r\n chunked\r\n\r\n${chunked('{}')}${hidden}`],
  ['a bare LF after a field', `${head}X: y\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a bare CR within a value', `${head}X: y\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a bare LF after the request line', `${line.replace('\r', '')}Host: x\r\nContent-Length: 0\r\n\r\n${hidden}`],
  ['a bare LF at the end of the head', `${head}Content-Length: 0\r\n\n${hidden}`],
  ['two CR before the LF', `${head}Content-Length: 0\r\r\n\r\n${hidden}`],
  ['a chunk with a sign', `${head}Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n${hidden}`],
  ['a chunk of 0x2', `${head}Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n${hidden}`],
  ['a chunk with no size', `${head}Transfer-Encoding: chunked\r\n\r\n\r\n{}\r\n0\r\n\r\n${hidden}`],
  ['a chunk beyond 64 bits', `${head}Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n${hidden}`],
  ['a chunk longer than its size', `${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n${hidden}`],
  ['a chunk whose size ends with LF', `${head}Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n${hidden}`],
  ['a chunk whose bytes end with LF', `${head}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\n0\r\n\r\n${hidden}`],
  ['a space after the size of a chunk', `${head}Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n${hidden}`],
  ['a chunk extension with a bare LF', `${head}Transfer-Encoding: chunked\r\n\r\n2;x\n{}\r\n0\r\n\r\n${hidden}`],
  ['chunk extensions without end', `${head}Transfer-Encoding: chunked\r\n\r\n2;${'x'.repeat(40_000)}\r\n{}\r\n0\r\n\r\n${hidden}`],
  ['no version', `GET /v1/user\r\n\r\n${hidden}`],
  ['a version that is none', `GET /v1/user HTTP/1.12\r\nHost: x\r\n\r\n${hidden}`],
  ['a version to come', `GET /v1/user HTTP/3.0\r\nHost: x\r\n\r\n${hidden}`],
  ['a target with a space', `GET /v1/user /x HTTP/1.1\r\nHost: x\r\n\r\n${hidden}`],
  ['a target without a slash', `GET v1/user HTTP/1.1\r\nHost: x\r\n\r\n${hidden}`],
  ['a target of an authority alone', `GET example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n${hidden}`],
  ['a target in two lines', `GET /v1/user\r\n/x HTTP/1.1\r\nHost: x\r\n\r\n${hidden}`],
  ['the beginning of HTTP/2', `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`],
  ['the beginning of TLS', `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03${hidden}`],
];

test.each(malformed)('%s: one 400, the connection ends, and nothing behind it is answered', async (_, text) => {
  const { answers, code, ended, text: all } = await send(text);
  expect([answers.at(-1), answers.length, code, ended]).toEqual([400, 1, 'malformed_request', true]);
  expect(all).toMatch(/connection: close/i);
  expect(all).not.toContain('X-Request-Id: hidden');
});

const asBody = (text: string) => `${head}Connection: close\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
const asChunks = (text: string) => `${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(text)}`;

// Read in one way only, and so answered once: [what, text, status, code].
test.each<[string, string, number, string | undefined]>([
  ['a second request in a body by length', asBody(hidden), 400, 'invalid_json'],
  ['a second request in a chunk', asChunks(hidden), 400, 'invalid_json'],
  ['a second request in the trailers', `${asChunks('{}').slice(0, -2)}X: y\r\n${hidden.replace(/^.*\r\n/, '')}`, 400, 'validation_failed'],
  ['chunked in upper case', asChunks('{}').replace('chunked', 'CHUNKED'), 400, 'validation_failed'],
  ['chunked with a space behind', asChunks('{}').replace('chunked', 'chunked '), 400, 'validation_failed'],
  ['a length with a space behind', asBody('{}').replace('Length: 2', 'Length: 2 '), 400, 'validation_failed'],
  ['a length of 02', asBody('{}').replace('Length: 2', 'Length: 02'), 400, 'validation_failed'],
  ['a chunk of 00002', asChunks('{}').replace('\r\n2\r\n', '\r\n00002\r\n'), 400, 'validation_failed'],
  ['a short chunk extension', asChunks('{}').replace('\r\n2\r\n', '\r\n2;x=y\r\n'), 400, 'validation_failed'],
  // RFC 9112, section 3.2.2: a server takes it, and the host of the target counts. There is but one here.
  ['a target with a host', `GET http://example.com/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, 200, undefined],
  ['two hosts', `GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n`, 400, 'malformed_request'],
  ['one host twice', `GET /healthz HTTP/1.1\r\nHost: x\r\nHost: x\r\nConnection: close\r\n\r\n`, 400, 'malformed_request'],
  ...['a b', 'a/b', 'a@b', 'http://x', '[::1', 'x:abc', '\x80', 'a\tb'].map((host): [string, string, number, string] => [
    `a host ${JSON.stringify(host)}`,
    `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    400,
    'malformed_request',
  ]),
  ...['', 'x', 'X.example:8080', '127.0.0.1', '[::1]:80', 'a_b'].map((host): [string, string, number, undefined] => [
    `a host ${JSON.stringify(host)}, which there may be`,
    `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    200,
    undefined,
  ]),
  ['no host and no path', `GET /%zz HTTP/1.1\r\n\r\n${hidden}`, 400, 'malformed_request'],
  ['chunks in HTTP/1.0', `${asChunks('{}').replace('1.1', '1.0').replace('close', 'keep-alive')}${hidden}`, 400, 'malformed_request'],
  ['a byte behind the last request', `GET /v1/user HTTP/1.1\r\nHost: x\r\n${token}Connection: close\r\n\r\nx`, 503, 'unavailable'],
  ['a request behind the last one', `${asBody('{}')}${hidden}`, 400, 'validation_failed'],
  ['no host', `GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n`, 400, 'malformed_request'],
  ['another encoding before chunked', asChunks('{}').replace('chunked', 'gzip, chunked'), 400, 'malformed_request'],
  ['a version of other bytes', `GET /healthz HTTP/2.0\r\nHost: x\r\nConnection: close\r\n\r\n`, 400, 'malformed_request'],
  ['a target that is a star', `OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, 404, 'route_not_found'],
  [
    'a body of GET',
    `GET /v1/user HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
    401,
    'unauthenticated',
  ],
  [
    'a wish for another protocol',
    `GET /v1/user HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n`,
    401,
    'unauthenticated',
  ],
])('%s: one answer, and it is the one to the whole', async (_, text, status, code) => {
  const received = await send(text);
  expect([received.answers, received.code, received.ended]).toEqual([[status], code, true]);
});

test('CONNECT opens no way to elsewhere', async () => {
  const { answers, ended, text } = await send(`CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n${hidden}`);
  expect([answers.filter((status) => status < 400), ended]).toEqual([[], true]);
  expect(text).not.toContain('hidden');
});

test('requests that follow each other on one connection are answered in their order, each once, and no body is taken for one', async () => {
  const asked = Array.from({ length: 20 }, (_, place) =>
    place % 2 === 0
      ? `GET /v1/user HTTP/1.1\r\nHost: x\r\nX-Request-Id: order-${place}\r\n\r\n`
      : `${head}X-Request-Id: order-${place}\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
  );
  const { answers, text } = await send(asked.join(''), asked.length);
  expect(answers).toEqual(asked.map((_, place) => (place % 2 === 0 ? 401 : 400)));
  expect([...text.matchAll(/x-request-id: (\S+)/gi)].map(([, id]) => id)).toEqual(asked.map((_, place) => `order-${place}`));
});

test('a body that its route does not read is not taken for the next request', async () => {
  for (const [path, status] of [
    ['/v1/tenants', 401],
    ['/v1/nothing', 404],
    ['/v1/user', 405],
  ] as const) {
    for (const framing of [`Content-Length: ${hidden.length}\r\n\r\n${hidden}`, `Transfer-Encoding: chunked\r\n\r\n${chunked(hidden)}`]) {
      const { answers, text } = await send(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${framing}`, 1);
      expect([path, answers]).toEqual([path, [status]]);
      expect(text).not.toContain('hidden');
    }
  }
});

test('a wish for another protocol is passed over, and what comes with it and behind it is read as it stands', async () => {
  const wish = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n';
  // The answers of the first two take a call each: what comes behind them waits for its turn.
  const asked = [
    `GET /v1/user HTTP/1.1\r\nHost: x\r\n${token}X-Request-Id: a\r\n\r\n`,
    `GET /v1/user HTTP/1.1\r\nHost: x\r\n${token}X-Request-Id: b\r\n${wish}\r\n`,
    `${head}${wish}X-Request-Id: c\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
    `${head}${wish}X-Request-Id: d\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(hidden)}`,
    `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: e\r\n\r\n`,
  ];
  const whole = await send(asked.join(''), asked.length);
  expect([whole.answers, [...whole.text.matchAll(/x-request-id: (\S+)/gi)].map(([, id]) => id)]).toEqual([
    [503, 503, 400, 400, 200],
    ['a', 'b', 'c', 'd', 'e'],
  ]);
});

/** Sends bytes, and others when something has come back; everything that is answered in the second after two answers, or before the end. */
function sendInTwo(first: string, second: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    let silence: NodeJS.Timeout | undefined;
    const socket = connect(alone.port, '127.0.0.1', () => socket.write(first));
    socket.on('data', (chunk) => {
      if (text === '') socket.write(second);
      text += chunk.toString('latin1');
      if (answersIn(text).length >= 2) silence ??= setTimeout(() => socket.destroy(), 1_000);
    });
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(silence);
      resolve(text);
    });
  });
}

test('a body that comes later than a wish for another protocol is not taken for a request', async () => {
  const wish = 'GET /v1/nothing HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n';
  const received = await sendInTwo(`${wish}${head}Content-Length: ${hidden.length}\r\n\r\n`, hidden);
  expect(answersIn(received)).toEqual([404, 400]);
  expect(received).not.toContain('hidden');
});

test('a request that was answered before its body came has no second answer, whatever its body is', async () => {
  const early = 'POST /v1/tenants HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
  expect(answersIn(await sendInTwo(early, 'zz\r\n'))).toEqual([401]);
});
