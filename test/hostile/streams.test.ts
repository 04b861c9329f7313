// Floods of HTTP/2 at the ledger's internal port, by those who know the token and those who do not: an honest caller posts all the while,
// and nothing of them stays behind.
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { createClient, type Client } from '@connectrpc/connect';
import { GetAccountRequestSchema, LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller, type Caller } from '../../services/platform/caller.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { entries } from '../ledger.ts';
import { faultsOf } from '../proof/soundness.ts';
import { attack, block, flag, frame, message, number, open, type } from './frames.ts';

const cancelled = 8;
const enhanceYourCalm = 11;
let cluster: Cluster;
let port: number;
let tenantId: string;
let caller: Caller;
let ledger: Client<typeof LedgerService>;
let posted = 0;

beforeAll(async () => {
  cluster = await startCluster();
  const address = cluster.addresses.ledger[0] ?? '';
  port = Number(address.split(':')[1]);
  caller = openCaller({ addresses: [address], token: cluster.internalToken, maxMessageBytes: 32 << 20 });
  ledger = createClient(LedgerService, caller);
  tenantId = (await cluster.tenant()).id;
  await ledger.setUpChart({ tenantId, businessType: 'wallet', actor: 'test' });
  for (let count = 0; count < 100; count += 1) await post();
});
afterAll(async () => {
  caller.close();
  await cluster.stop();
});

async function post(): Promise<void> {
  const jotted = entries('SETTLEMENT-NGN debit 1.00 NGN', 'CUSTOMER-WALLETS-NGN credit 1.00 NGN');
  const posting = { tenantId, idempotencyKey: `post-${posted}`, actor: 'honest', entries: jotted };
  const { transaction, replayed } = await ledger.postTransaction({ posting }, { timeoutMs: 30_000 });
  expect([transaction?.idempotencyKey, transaction?.amount, replayed]).toEqual([`post-${posted}`, '1.00', false]);
  posted += 1;
}

/** Posts, one after the other, until the other work is done; tells how many that were, and what the other work answered. */
async function postWhile<Result>(work: Promise<Result>): Promise<{ posts: number; result: Result }> {
  const before = posted;
  const state = { done: false };
  const result = work.finally(() => (state.done = true));
  do await post();
  while (!state.done);
  return { posts: posted - before, result: await result };
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${cluster.opsUrl('ledger')}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
}

/** Waits until a figure is as it should be. */
async function until(name: string, right: (value: number) => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !right(await metric(name)); await pause(100)) {
    if (Date.now() > end) throw new Error(`${name} stays ${await metric(name)}`);
  }
}

/** Resident memory of the ledger, MiB. */
const resident = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${cluster.pid('ledger')}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1024;

const headers = (token: string | null, path = `/${LedgerService.typeName}/GetAccount`) =>
  block({
    ':method': 'POST',
    ':scheme': 'http',
    ':path': path,
    ':authority': 'ledger',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...(token !== null && { authorization: `Bearer ${token}` }),
  });

/** So many streams of these frames each, a hundred a piece. */
function streams(count: number, framesOf: (stream: number) => Buffer[]): Buffer[] {
  const all = Array.from({ length: count }, (_, place) => Buffer.concat(framesOf(2 * place + 1)));
  return Array.from({ length: Math.ceil(count / 100) }, (_, piece) => Buffer.concat(all.slice(piece * 100, piece * 100 + 100)));
}

/** A frame, again and again. */
const repeated = (bytes: Buffer) => Array.from({ length: 1000 }, () => Buffer.concat(Array<Buffer>(200).fill(bytes)));

function resets(token: string | null, path?: string): Buffer[] {
  const head = headers(token, path);
  const question = message(toBinary(GetAccountRequestSchema, create(GetAccountRequestSchema, { tenantId, accountCode: 'SETTLEMENT-NGN' })));
  return streams(5000, (stream) => [
    frame(type.headers, flag.endHeaders, stream, head),
    frame(type.data, flag.endStream, stream, question),
    frame(type.reset, flag.none, stream, number(cancelled)),
  ]);
}

const health = '/grpc.health.v1.Health/Check';

test.each<[string, () => Buffer[], { deaf?: boolean }?]>([
  ['streams that are opened and reset, without the token', () => resets(null)],
  ['streams that are opened and reset, with a wrong token', () => resets('wrong')],
  ['streams that are opened and reset, with the token', () => resets(cluster.internalToken)],
  ['health checks that are opened and reset', () => resets(null, health)],
  [
    'health checks',
    () => streams(5000, (stream) => [frame(type.headers, flag.endHeaders | flag.endStream, stream, headers(null, health))]),
  ],
  ['calls without the token that are not reset', () => streams(5000, (stream) => [frame(type.headers, 5, stream, headers(null))])],
  [
    'streams that the server has to reset',
    () =>
      streams(5000, (stream) => [
        frame(type.headers, flag.endHeaders, stream, headers(cluster.internalToken)),
        frame(type.windowUpdate, flag.none, stream, number(0)),
      ]),
  ],
  ['PING', () => repeated(frame(type.ping, flag.none, 0, Buffer.alloc(8)))],
  ['PING, the answers never read', () => repeated(frame(type.ping, flag.none, 0, Buffer.alloc(8))), { deaf: true }],
  ['SETTINGS', () => repeated(frame(type.settings, flag.none, 0))],
  ['SETTINGS, the answers never read', () => repeated(frame(type.settings, flag.none, 0)), { deaf: true }],
  [
    'headers without end',
    () => [
      frame(type.headers, flag.none, 1, headers(null)),
      ...repeated(frame(type.continuation, flag.none, 1, block({ x: 'x'.repeat(200) }))),
    ],
  ],
  [
    'empty headers without end',
    () => [frame(type.headers, flag.none, 1, headers(null)), ...repeated(frame(type.continuation, flag.none, 1))],
  ],
  [
    'empty DATA',
    () => [frame(type.headers, flag.endHeaders, 1, headers(cluster.internalToken)), ...repeated(frame(type.data, flag.none, 1))],
  ],
])(
  'while a flood of %s lasts an honest caller posts, and nothing of it is left',
  // Jest gives a function of more parameters than a row has values a callback to wait for.
  async (...[, pieces, options]: [string, () => Buffer[], { deaf?: boolean }?]) => {
    const honest = await metric('grpc_server_connections');
    const { posts, result } = await postWhile(attack(port, pieces(), { seconds: 1, connections: 4, ...options }));
    expect(result.sent).toBeGreaterThan(0);
    expect(posts).toBeGreaterThan(0);
    const ended = performance.now();
    await post();
    // The work that a flood has left behind, in front of others: it was 22 s.
    expect(performance.now() - ended).toBeLessThan(15_000);
    await until('grpc_server_streams', (value) => value === 0);
    await until('grpc_server_connections', (value) => value <= honest);
  },
  180_000,
);

test('who opens streams without the token is ended with his connection, and told why', async () => {
  for (const token of [null, 'wrong']) {
    const peer = await open(port);
    const isOver = () => peer.ended;
    for (let [stream, asked] = [1, 0]; stream < 10_000 && !isOver(); stream += 2) {
      const opened = frame(type.headers, flag.endHeaders, stream, headers(token));
      // What has not been read when the server closes makes the kernel drop its farewell.
      await peer.send(Buffer.concat([opened, frame(type.ping, flag.none, 0, Buffer.alloc(8))]));
      for (asked += 1; stream > 300 && !isOver() && peer.pings < asked;) await pause(1);
    }
    for (const end = Date.now() + 30_000; !peer.ended && Date.now() < end;) await pause(20);
    expect([peer.ended, peer.goaways]).toEqual([true, expect.arrayContaining([enhanceYourCalm])]);
  }
});

test('who is slow and asks for health alone keeps his connection', async () => {
  const peer = await open(port);
  for (let stream = 1; stream < 50; stream += 2) {
    await peer.send(frame(type.headers, flag.endHeaders | flag.endStream, stream, headers(null, health)));
    await pause(220);
  }
  expect([peer.ended, peer.goaways]).toEqual([false, []]);
  peer.socket.destroy();
});

test('one connection has 5,000 streams open at most: who opens more and ends none is ended, and others post', async () => {
  const peer = await open(port);
  let most = 0;
  const sending = async () => {
    for (const piece of streams(9_000, (stream) => [frame(type.headers, flag.endHeaders, stream, headers(cluster.internalToken))])) {
      await peer.send(piece);
    }
    for (const end = Date.now() + 60_000; !peer.ended && Date.now() < end; await pause(20)) {
      most = Math.max(most, await metric('grpc_server_streams'));
    }
  };
  const { posts } = await postWhile(sending());
  expect(posts).toBeGreaterThan(0);
  expect(peer.ended).toBe(true);
  // The honest caller's own among them.
  expect(most).toBeLessThanOrEqual(5_001);
  await until('grpc_server_streams', (value) => value === 0);
}, 180_000);

test('of three thousand calls that are cancelled at once, again and again, the others on their connection notice nothing', async () => {
  for (let round = 0; round < 3; round += 1) {
    const leave = new AbortController();
    const left = Array.from({ length: 3000 }, () =>
      ledger.getAccount({ tenantId, accountCode: 'SETTLEMENT-NGN' }, { signal: leave.signal }).then(
        () => 'answered',
        () => 'cancelled',
      ),
    );
    await pause(50);
    leave.abort();
    await post();
    expect(await Promise.all(left)).toContain('cancelled');
  }
}, 180_000);

test('afterwards the memory is bounded, nothing has failed, every posting is there once and the books are right', async () => {
  expect(resident()).toBeLessThan(900);
  expect(cluster.logs('ledger')).not.toMatch(/"level":(50|60)/);
  const { balance } = await ledger.getBalance({ tenantId, accountCode: 'SETTLEMENT-NGN', currency: 'NGN' });
  expect(balance?.balance).toBe(`${posted}.00`);
  expect(await faultsOf(cluster)).toEqual([]);
});
