// The connections of requests: those that are kept and end, and those that take long to begin.
import type { Server, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { jest } from '@jest/globals';
import { authority, good } from '../../test/certificates.ts';
import { endStarted, receiver, sender } from '../../test/deliveries.ts';
import { until, type Answering } from '../../test/notifier.ts';
import { Targets } from './addresses.ts';
import type { Answer, HttpClient } from './http-client.ts';

afterAll(endStarted);

const post = (by: HttpClient, url: string, onceMore = true) => by.send({ url, headers: {}, body: '{"ä":1}', onceMore });

describe('of connections without a request', () => {
  const keeping: Answering = ({ path }, response) => {
    (response.socket as unknown as { server: Server }).server.keepAliveTimeout = 60_000;
    response.setHeader('keep-alive', 'timeout=60');
    if (path === '/hook') response.end();
    else if (path === '/slow') setTimeout(() => response.end(), 1_000);
    else if (path === '/large') response.end('x'.repeat(100_000));
  };

  /** As few are left after another request or more, before the receiver or undici ends one. */
  const areLeft = async (sockets: Set<Socket>, few: number, ask: () => Promise<unknown>) => {
    await ask();
    for (const end = performance.now() + 10_000; sockets.size > few && performance.now() < end; await ask()) {
      await new Promise((done) => setTimeout(done, 20));
    }
    expect(sockets.size).toBeLessThanOrEqual(few);
  };

  test('so many are kept, and of those before none though another of them hangs', async () => {
    const { url, sockets, count } = await receiver(keeping);
    const by = sender({ mostIdle: 4 });
    const to = (path: string, times = 1) => Promise.all(Array.from({ length: times }, () => post(by, url.replace('/hook', path))));
    const hanging = to('/hang');
    const slow = to('/slow', 8);
    await to('/hook', 8);
    await count(17);
    // More than four are idle: this one is of others.
    await to('/hook');
    // The one that hangs, and the last.
    await areLeft(sockets, 2, () => slow);
    for (const socket of sockets) socket.destroy();
    await hanging;
  });

  test('those count, too, that never had one: undici makes them where a receiver says more than is read', async () => {
    const { url, sockets } = await receiver(keeping);
    const by = sender({ mostIdle: 4 });
    const large = () => post(by, url.replace('/hook', '/large'));
    await Promise.all(Array.from({ length: 16 }, () => large().then(large)));
    await areLeft(sockets, 5, () => post(by, url));
  });
});

describe('a connection that is kept, and ends just when the next request is sent,', () => {
  /** Answers the first request of each connection; `next` has every other one. */
  const first = (next: (socket: Socket) => unknown): Answering & { others: number } => {
    const known = new WeakSet<Socket>();
    const answer = (_: unknown, response: ServerResponse) => {
      const socket = response.socket!;
      if (known.has(socket)) {
        answer.others++;
        next(socket);
      } else response.end('ok');
      known.add(socket);
    };
    answer.others = 0;
    return answer;
  };

  test.each([
    ['closed', (socket: Socket) => socket.end(), undefined],
    ['closed over TLS', (socket: Socket) => socket.end(), good],
    ['reset', (socket: Socket) => socket.resetAndDestroy(), undefined],
  ])('costs no attempt, for it is sent once more over a new one: %s', async (_, end, tls) => {
    const answer = first(end);
    const { url, received } = await receiver(answer, tls);
    const by = sender({ targets: new Targets(true, () => Promise.resolve(['127.0.0.1'])), ca: authority });
    let sent = 0;
    while (answer.others < 2) {
      sent++;
      expect(await post(by, url.replace('127.0.0.1', 'hooks.test'))).toMatchObject({ statusCode: 200, errorClass: null, body: 'ok' });
    }
    expect(received).toHaveLength(sent + 2);
    expect(new Set(received.map(({ body }) => body))).toEqual(new Set(['{"ä":1}']));
  });

  test.each([
    ['the new one ends, too', 2, (socket: Socket) => socket.destroy()],
    ['it took a while to end', 1, (socket: Socket) => setTimeout(() => socket.destroy(), 2_500)],
    ['an answer has begun', 1, (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\n')],
  ])('costs one where %s', async (_, asked, end) => {
    let over = false;
    const answer = first(end);
    const { url, received } = await receiver((request, response, place) => {
      if (over) end(response.socket!);
      else answer(request, response, place);
      over = answer.others > 0;
    });
    const by = sender();
    let sent = 0;
    let told: Answer | null = null;
    while (answer.others === 0) {
      told = await post(by, url);
      sent++;
    }
    expect(told).toMatchObject({ statusCode: null, errorClass: 'connection_failed' });
    expect(received).toHaveLength(sent - 1 + asked);
  });
});

/** While `work` runs, this process has a clock that can be set ahead, milliseconds. */
async function withClock(work: (clock: { ahead: number }) => Promise<void>): Promise<void> {
  const now = performance.now.bind(performance);
  const clock = { ahead: 0 };
  const spy = jest.spyOn(performance, 'now').mockImplementation(() => now() + clock.ahead);
  try {
    await work(clock);
  } finally {
    spy.mockRestore();
  }
}

test('a connection that is busy is left after a minute, as its receiver may have moved; what is under way goes on', async () => {
  await withClock(async (clock) => {
    const used: Socket[] = [];
    let hanging: ServerResponse | undefined;
    const { url } = await receiver((_, response, place) => {
      if (place === 0 || response.req.url!.endsWith('?last')) hanging = response;
      else response.end();
      used.push(response.socket!);
    });
    const by = sender();
    const isNew = () => !used.slice(0, -1).includes(used.at(-1)!);
    // Each may find the one before still at its end.
    const isKept = async () => {
      for (let sent = 0; sent < 20; sent++) {
        expect(await post(by, url)).toMatchObject({ statusCode: 200 });
        if (!isNew()) return true;
      }
      return false;
    };
    const slow = post(by, url);
    await until(() => Promise.resolve(hanging !== undefined));
    expect(await isKept()).toBe(true);
    clock.ahead = 55_000;
    expect(await isKept()).toBe(true);
    clock.ahead = 61_000;
    await post(by, url);
    expect(isNew()).toBe(true);
    expect(await isKept()).toBe(true);
    hanging!.end('late');
    expect(await slow).toMatchObject({ statusCode: 200, body: 'late' });
    hanging = undefined;
    const last = post(by, `${url}?last`);
    await until(() => Promise.resolve(hanging !== undefined));
    clock.ahead = 122_000;
    await post(by, url);
    await by.close();
    // At once, and not by its deadline.
    expect(await last).toMatchObject({ statusCode: null, errorClass: 'connection_failed' });
  });
});

test('connections that are left end with the last of their requests, and at once where there is none', async () => {
  await withClock(async (clock) => {
    const hanging: ServerResponse[] = [];
    // The sender lets go of an idle one much later than the receiver, and he after seconds.
    const patient = (response: ServerResponse, body = 'ok') => response.setHeader('keep-alive', 'timeout=60').end(body);
    const { url, sockets } = await receiver((_, response, place) => (place < 2 ? hanging.push(response) : patient(response)));
    const other = await receiver((_, response) => patient(response));
    const ended: string[] = [];
    const note = (of: Set<Socket>, name: string) => {
      for (const socket of of) socket.once('close', () => ended.push(name));
    };
    const by = sender();
    const slow = [post(by, url), post(by, url)];
    await until(() => Promise.resolve(hanging.length === 2));
    note(sockets, 'left');
    await post(sender(), other.url);
    note(other.sockets, 'kept');
    clock.ahead += 61_000;
    await post(by, url);
    for (const [place, body] of ['first', 'second'].entries()) {
      patient(hanging[place]!, body);
      expect(await slow[place]).toMatchObject({ statusCode: 200, body });
    }
    await until(() => Promise.resolve(ended.length > 1));
    await post(by, url);
    note(sockets, 'idle');
    clock.ahead += 61_000;
    await post(by, url);
    await until(() => Promise.resolve(ended.length > 2));
    expect(ended).toEqual(['left', 'left', 'idle']);
  });
});

test('a sender that is closed leaves no connection, of whatever kind', async () => {
  let hanging = 0;
  const { url, sockets } = await receiver((_, response, place) => {
    if (place === 0) response.end('ok');
    else hanging++;
  });
  const by = sender();
  await post(by, url);
  const going = [post(by, url), post(by, url, false)];
  await until(() => Promise.resolve(hanging === 2));
  await by.close();
  expect(await Promise.all(going)).toMatchObject(Array(2).fill({ errorClass: 'connection_failed', statusCode: null }));
  await until(() => Promise.resolve(sockets.size === 0));
});

test('what a new connection ends on is not sent once more', async () => {
  const { url, received } = await receiver((_, response) => response.socket!.destroy());
  const by = sender();
  for (const sent of [1, 2]) {
    expect(await post(by, url)).toMatchObject({ errorClass: 'connection_failed' });
    expect(received).toHaveLength(sent);
  }
});

test('what may not be sent once more takes a connection of its own, and none that may be ending just then', async () => {
  const sockets = new Set<unknown>();
  const { url } = await receiver((_, response) => {
    sockets.add(response.socket);
    response.end('ok');
  });
  const by = sender();
  const counts: number[] = [];
  for (const onceMore of [true, false, false]) {
    expect(await post(by, url, onceMore)).toMatchObject({ statusCode: 200 });
    counts.push(sockets.size);
  }
  expect(counts).toEqual([1, 2, 3]);
});

/** What becomes of a request to a name with two addresses: where the first is, packets are lost for a second, and at the other nobody listens. */
async function postFarAway(): Promise<Answer | null> {
  const awake = new Int32Array(new SharedArrayBuffer(4));
  // It accepts nothing while it sleeps: when its queue is full, whoever connects is not answered, and asks again after a second.
  const sleeper = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     const server = require('node:http').createServer((_, response) => response.end('ok'));
     server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       Atomics.wait(workerData, 0, 0);
     });`,
    { eval: true, workerData: awake },
  );
  const port = await new Promise<number>((done) => sleeper.once('message', done));
  const queue: Socket[] = [];
  try {
    for (let answered = true; answered;) {
      const socket = connect(port, '127.0.0.1');
      queue.push(socket);
      answered = await Promise.race([
        new Promise<boolean>((done) => socket.once('connect', () => done(true))),
        new Promise<boolean>((done) => setTimeout(done, 300, false)),
      ]);
    }
    const asked = Promise.withResolvers<undefined>();
    const targets = new Targets(true, () => {
      asked.resolve(undefined);
      return Promise.resolve(['127.0.0.1', '127.0.0.2']);
    });
    const answer = post(sender({ targets }), `http://hooks.test:${port}/`);
    await asked.promise;
    await new Promise((done) => setTimeout(done, 100));
    Atomics.store(awake, 0, 1);
    Atomics.notify(awake, 0);
    return await answer;
  } finally {
    for (const socket of queue) socket.destroy();
    await sleeper.terminate();
  }
}

test('a receiver is reached that is far away, though its name has another address where nobody is', async () => {
  let answer: Answer | null = null;
  // On a busy machine the sleeper may wake too late.
  for (let tried = 0; tried < 5 && answer?.statusCode !== 200; tried++) answer = await postFarAway();
  expect(answer).toMatchObject({ statusCode: 200, errorClass: null, body: 'ok' });
});
