// A crowd at the gateway's port: as many connections as it will hold, and more than it will.
import { readFileSync, readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { startCluster, type Cluster, type Tenant } from '../cluster.ts';

let cluster: Cluster;
let port: number;
let tenant: Tenant;
let key: string;
let posted = 0;

beforeAll(async () => {
  cluster = await startCluster();
  port = Number(new URL(cluster.url).port);
  tenant = await cluster.tenant();
  key = await cluster.apiKey(tenant);
  await cluster.rest('POST', `/v1/tenants/${tenant.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});
afterAll(() => cluster.stop());

/** Files that a process has open, and how many it may. */
const openFiles = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;
const fileLimit = (pid: number) => Number(/Max open files\s+(\d+)/.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1] ?? 1024);
/** Resident memory of the gateway, KiB. */
const resident = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${cluster.pid('gateway')}/status`, 'utf8'))?.[1]);

interface Held {
  socket: Socket;
  /** What came back. */
  text: string;
  ended: boolean;
}

/** Opens a connection, from an address of its own for every ten thousand, and says `beginning`. */
function hold(place: number, beginning = ''): Promise<Held> {
  return new Promise((resolve) => {
    const localAddress = `127.0.0.${2 + Math.floor(place / 10_000)}`;
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    const held: Held = { socket, text: '', ended: false };
    socket.on('connect', () => {
      socket.write(beginning);
      resolve(held);
    });
    socket.on('data', (chunk) => (held.text += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      held.ended = true;
      resolve(held);
    });
  });
}

/** Opens so many, two hundred at a time. */
async function holdMany(count: number, beginning?: (place: number) => string): Promise<Held[]> {
  const all: Held[] = [];
  while (all.length < count) {
    const next = Array.from({ length: Math.min(200, count - all.length) }, (_, place) => all.length + place);
    all.push(...(await Promise.all(next.map((place) => hold(place, beginning?.(place))))));
  }
  return all;
}

/** Ends them all and waits until the gateway has no more files open than that. */
async function leave(crowd: Held[], files: number): Promise<void> {
  for (const { socket } of crowd) socket.destroy();
  await until('their connections are gone', () => openFiles(cluster.pid('gateway')) <= files);
}

async function until(what: string, right: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await right()); await pause(50)) if (Date.now() > end) throw new Error(`${what}: not yet`);
}

async function postAndRead(): Promise<void> {
  const line = (account_code: string, side: string) => ({ account_code, side, amount: '1.00', currency: 'NGN' });
  const body = {
    idempotency_key: `crowd-${posted}`,
    entries: [line('SETTLEMENT-NGN', 'debit'), line('CUSTOMER-WALLETS-NGN', 'credit')],
  };
  const answer = await cluster.rest('POST', `/v1/tenants/${tenant.slug}/transactions/double-entry`, { key, body });
  expect([answer.status, answer.body.code]).toEqual([201, undefined]);
  posted += 1;
  const read = await cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts/code/CUSTOMER-WALLETS-NGN/balance?currency=NGN`, { key });
  expect([read.status, JSON.stringify(read.body).includes(`"${posted}.00"`)]).toEqual([200, true]);
}

test('ten thousand connections that idle cost little memory, keep nobody from posting and reading, and leave nothing behind', async () => {
  for (let count = 0; count < 50; count += 1) await postAndRead();
  const gateway = cluster.pid('gateway');
  const files = openFiles(gateway);
  // Both ends count, here and there; room is left for what else is open.
  const room = Math.min(fileLimit(gateway), fileLimit(process.pid)) - 500;
  const most = Math.min(10_000, room);
  const before = resident();
  // Some say nothing, some begin a request, some have had an answer and keep their connection.
  const sayings = ['', 'GET /healthz HTTP/1.1\r\nHost: ', 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'];
  const crowd = await holdMany(most, (place) => sayings[place % sayings.length] ?? '');
  process.stdout.write(`${crowd.length} connections held\n`);
  expect(crowd.length).toBe(most);
  await until('all are answered', () => crowd.filter(({ text }) => text.startsWith('HTTP/1.1 200')).length >= Math.floor(most / 3));
  // Whoever has not said a whole request is cut after 15 s, which a busy machine may need for so many.
  expect(openFiles(gateway)).toBeGreaterThanOrEqual(Math.floor(most / 3));
  for (let count = 0; count < 20; count += 1) await postAndRead();
  // KiB a connection, those that a request made included.
  const each = (resident() - before) / most;
  expect(each).toBeLessThan(25);
  await leave(crowd, files + 20);
  const after = resident();
  await leave(await holdMany(Math.min(3_000, most)), files + 20);
  // What they took is used again.
  expect(resident() - after).toBeLessThan(64 << 10);
  for (let count = 0; count < 20; count += 1) await postAndRead();
}, 240_000);

test('connections beyond MAX_CONNECTIONS are ended at once, those who were there are answered, and a place that is left is given again', async () => {
  const most = 20;
  await cluster.restart('gateway', { MAX_CONNECTIONS: String(most) });
  const files = openFiles(cluster.pid('gateway'));
  const question = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
  const inside = await holdMany(most);
  const answered = (held: Held) => (held.text.match(/HTTP\/1\.1 200/g) ?? []).length;
  const askAll = async (times: number) => {
    for (const { socket } of inside) socket.write(question);
    await until('all inside are answered', () => inside.every((held) => answered(held) === times));
  };
  await askAll(1);
  for (let round = 2; round <= 4; round += 1) {
    const outside = await holdMany(200, () => question);
    await until('all outside are ended', () => outside.every(({ ended }) => ended));
    expect(outside.filter(({ text }) => text !== '')).toEqual([]);
    await askAll(round);
  }
  expect(inside.filter(({ ended }) => ended)).toEqual([]);
  inside[0]?.socket.destroy();
  let late: Held | undefined;
  await until('the place is given again', async () => {
    late = await hold(0, question);
    const mine = late;
    for (const end = Date.now() + 5_000; !mine.ended && answered(mine) === 0 && Date.now() < end;) await pause(20);
    return answered(mine) === 1;
  });
  late?.socket.destroy();
  await leave(inside, files + 5);
  for (let count = 0; count < 5; count += 1) await postAndRead();
}, 180_000);
