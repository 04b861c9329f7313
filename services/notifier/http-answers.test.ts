// Answers as a receiver writes them, to the byte, and the connections that they come over.
import diagnostics from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { endStarted, sender } from '../../test/deliveries.ts';
import { Targets } from './addresses.ts';
import type { Answer, HttpClient } from './http-client.ts';

const ends: (() => unknown)[] = [];

afterEach(async () => {
  await endStarted();
  for (const end of ends.splice(0).reverse()) await end();
});

/** A receiver that answers its requests with these texts, in turn; resolves to its port and the connections that came. */
async function speaker(...texts: (string | Buffer)[]): Promise<{ port: number; sockets: Socket[] }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      if (chunk.toString().endsWith('{}')) socket.write(texts.shift() ?? '');
    });
  });
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { port: (server.address() as AddressInfo).port, sockets };
}

const post = (by: HttpClient, url: string) => by.send({ url, headers: {}, body: '{}', onceMore: true });

/** What is told of each of these answers, one after the other; fails where they took more than one connection. */
async function told(...texts: (string | Buffer)[]): Promise<(Answer | null)[]> {
  const count = texts.length;
  const { port, sockets } = await speaker(...texts);
  const by = sender();
  const answers: (Answer | null)[] = [];
  while (answers.length < count) {
    answers.push(await post(by, `http://127.0.0.1:${port}/`));
    // Given back, a connection is used again from the next turn on.
    await new Promise((done) => setTimeout(done, 20));
  }
  // A second one may be opened behind an answer that was cut, and carries nothing.
  expect(sockets.filter(({ bytesRead }) => bytesRead > 0).length).toBe(1);
  return answers;
}

const ok = (lines: number, body = 'ok'): string =>
  `HTTP/1.1 200 OK\r\n${'a:\r\n'.repeat(lines)}content-length: ${body.length}\r\n\r\n${body}`;

test('lines are counted answer by answer', async () => {
  expect(await told(ok(150), ok(150), ok(150))).toMatchObject(Array(3).fill({ errorClass: null, body: 'ok' }));
});

test('lines of a body are no lines beside it, also where the answer before had hardly any body', async () => {
  const body = '\n'.repeat(60_000);
  expect(await told(ok(0), ok(0, body), ok(0))).toMatchObject([{ body: 'ok' }, { errorClass: null, body }, { body: 'ok' }]);
});

test('too many lines are too many where all come at once', async () => {
  expect(await told(ok(3_000))).toMatchObject([
    { errorClass: 'connection_failed', detail: expect.stringContaining('more than 300 lines') },
  ]);
});

test('who looks whether there is something to read takes nothing of it, as Node itself does', async () => {
  const look = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    socket.prependListener('readable', () => void socket.read(0));
  };
  diagnostics.subscribe('undici:client:connected', look);
  ends.push(() => diagnostics.unsubscribe('undici:client:connected', look));
  expect(await told(ok(0))).toMatchObject([{ statusCode: 200, body: 'ok' }]);
});

test.each([65_535, 65_536, 65_537])(
  'a character that the cut goes through is left out, though the first %i bytes come as a chunk',
  async (size) => {
    const body = Buffer.from(`a${'😀'.repeat(20_000)}`);
    const chunks = [body.subarray(0, size), body.subarray(size)].flatMap((chunk) => [
      Buffer.from(`${chunk.length.toString(16)}\r\n`),
      chunk,
      Buffer.from('\r\n'),
    ]);
    const [answer] = await told(Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'), ...chunks]));
    expect(answer!.body).toBe(`a${'😀'.repeat(16_383)}`);
  },
);

test('what has run out of time before its connection was made is not sent over it', async () => {
  const looked = Promise.withResolvers<string[]>();
  const { port, sockets } = await speaker(ok(0), ok(0));
  const by = sender({ targets: new Targets(true, () => looked.promise), timeoutMs: 100 });
  expect(await post(by, `http://receiver.test:${port}/`)).toMatchObject({ errorClass: 'timeout' });
  looked.resolve(['127.0.0.1']);
  // Behind it, had it been sent.
  const answer = await post(sender(), `http://127.0.0.1:${port}/`);
  expect(answer).toMatchObject({ body: 'ok' });
  await by.close();
  expect(sockets.filter(({ bytesRead }) => bytesRead > 0).length).toBe(1);
});
