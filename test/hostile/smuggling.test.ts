// Requests that two HTTP servers could read differently: a request hidden behind or inside another must never be answered.
import { startGatewayOnly, type GatewayOnly } from '../gateway-only.ts';

let gateway: GatewayOnly;
beforeAll(async () => {
  gateway = await startGatewayOnly();
});
afterAll(() => gateway.stop());

const statusesIn = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));

const hidden = 'GET /healthz HTTP/1.1\r\nHost: hidden\r\nX-Request-Id: hidden\r\n\r\n';
const head = 'POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';
const chunked = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

test.each([
  ['a length and chunks', `${head}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['two lengths', `${head}Content-Length: 2\r\nContent-Length: ${2 + hidden.length}\r\n\r\n{}`],
  ['a length with a sign', `${head}Content-Length: +2\r\n\r\n{}`],
  ['a length beyond 64 bits', `${head}Content-Length: 18446744073709551618\r\n\r\n{}`],
  ['an unknown transfer encoding', `${head}Transfer-Encoding: xchunked\r\n\r\n${chunked('{}')}`],
  ['a space before the colon', `${head}Transfer-Encoding : chunked\r\n\r\n${chunked('{}')}`],
  ['a folded header', `${head}Transfer-Encoding:\r\n chunked\r\n\r\n${chunked('{}')}`],
  ['a bare LF after a header', `${head}X: y\nContent-Length: 0\r\n\r\n`],
  ['a header with NUL', `${head}X: y\0z\r\nContent-Length: 0\r\n\r\n`],
  ['a hexadecimal chunk size with prefix', `${head}Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n`],
  ['a chunk longer than its size', `${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n`],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
])('%s: one 400, the connection ends, and the request behind it is not answered', async (_, text) => {
  const received = await gateway.raw(Buffer.from(text + hidden, 'latin1'));
  expect(statusesIn(received)).toEqual([400]);
  expect(received).toContain('"code":"malformed_request"');
});

test.each([
  ['by length', `Content-Length: ${hidden.length}\r\n\r\n${hidden}`],
  ['in a chunk', `Transfer-Encoding: chunked\r\n\r\n${chunked(hidden)}`],
])('a request in the body of another, %s, is only its body, also where the route does not read it', async (_, framed) => {
  for (const [path, status] of [
    ['/v1/auth/login', 400],
    ['/v1/tenants', 401],
    ['/v1/nothing', 404],
    ['/v1/user', 405],
  ] as const) {
    const received = await gateway.raw(`${head.replace('/v1/auth/login', path)}Connection: close\r\n${framed}`);
    expect([path, statusesIn(received)]).toEqual([path, [status]]);
    expect(received).not.toContain('x-request-id: hidden');
  }
});

test('pipelined requests are answered once each, in their order', async () => {
  const count = 10;
  const requests = Array.from({ length: count }, (_, index) => `GET /v1/user HTTP/1.1\r\nHost: x\r\nX-Request-Id: order-${index}\r\n\r\n`);
  const received = await gateway.raw(requests.join(''), (text) => text.includes(`order-${count - 1}`));
  expect([...received.matchAll(/x-request-id: (\S+)/gi)].map(([, id]) => id)).toEqual(requests.map((_, index) => `order-${index}`));
});
