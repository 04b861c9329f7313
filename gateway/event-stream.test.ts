import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { create } from '@bufbuild/protobuf';
import { EventSchema } from '../proto/gen/ledger/v1/events_pb.js';
import { newId } from '../services/platform/ids.ts';
import { startCheckedCluster } from '../test/contract.ts';
import type { Cluster } from '../test/cluster.ts';
import { deposit, newWallet, type Customer } from '../test/customer.ts';
import { openSse, type Message, type SseClient } from '../test/sse.ts';
import { eventStream, sharedReads, type EventPage, type EventStream } from './event-stream.ts';

let cluster: Cluster;
let customer: Customer;
const streams: SseClient[] = [];

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
});
afterEach(() => streams.splice(0).forEach((stream) => stream.close()));
afterAll(() => cluster.stop());

async function open(query = '', headers: Record<string, string> = {}, key = customer.key): Promise<SseClient> {
  const stream = await openSse(cluster.url + customer.at(`events/stream${query}`), { authorization: `Bearer ${key}`, ...headers });
  streams.push(stream);
  return stream;
}

const eventsAfter = async (sequence: number) => (await customer.get(`events?limit=100&after_sequence=${sequence}`)).events;
const head = async (): Promise<number> => {
  const { transaction } = (await customer.post('transactions/double-entry', deposit('1.00'))).body.data;
  return transaction.sequence;
};

test('events come as the log has them, then as they happen, and go on after a cut', async () => {
  const stream = await open();
  expect([stream.status, stream.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
  const known = await eventsAfter(0);
  const messages = await stream.take(known.length);
  expect(messages.map(({ data }) => data)).toEqual(known);
  expect(messages.map(({ id, event }) => [id, event])).toEqual(known.map(({ sequence, type }: any) => [String(sequence), type]));
  const last = await head();
  const [live] = await stream.take(1);
  expect(live).toEqual({ id: String(last), event: 'transaction.posted', data: (await eventsAfter(last - 1))[0] });
  stream.close();
  const next = await head();
  // As a browser returns: the parameter stands in the address for ever.
  const again = await open('?after_sequence=0', { 'last-event-id': String(last) });
  expect((await again.take(1))[0]?.id).toBe(String(next));
});

test('types are chosen, derived ones too; of one sequence only the last message has an id', async () => {
  const before = await head();
  const stream = await open(`?after_sequence=${before}&types=balance.updated,hold.captured,transaction.posted`);
  const { hold } = (await customer.post('holds', deposit('2.00'))).body.data;
  const { transaction } = (await customer.post(`holds/${hold.hold_id}/capture`, {})).body.data;
  const held = await stream.take(2);
  expect(held.map(({ id, event, data }) => [id, event, data.data.hold_id, data.data.transaction_id])).toEqual([
    [undefined, 'balance.updated', hold.hold_id, null],
    [String(hold.sequence), 'balance.updated', hold.hold_id, null],
  ]);
  const captured = await stream.take(4);
  expect(captured.map(({ id, event }) => [id, event])).toEqual([
    [undefined, 'transaction.posted'],
    [undefined, 'balance.updated'],
    [undefined, 'balance.updated'],
    [String(transaction.sequence), 'hold.captured'],
  ]);
  const { id, type, sequence, data } = captured[1]!.data;
  expect({ id, type, sequence }).toEqual({ id: expect.stringMatching(/^evt_/), type: 'balance.updated', sequence: transaction.sequence });
  expect(data).toMatchObject({ account_code: 'SETTLEMENT-USD', transaction_id: transaction.transaction_id, pending_debits: '0.00' });
  const filtered = await open(`?after_sequence=${before}&types=hold.created`);
  expect((await filtered.take(1))[0]?.data.data.hold_id).toBe(hold.hold_id);
});

test('bad requests are refused, and so is a stream too many', async () => {
  const refused = async (query: string, headers: Record<string, string> = {}) => {
    const { status, body } = await cluster.rest('GET', customer.at(`events/stream${query}`), { key: customer.key, headers });
    return [status, body.code, body.details?.field, body.details?.tag, body.details?.value];
  };
  expect(await refused('?types=transaction.posted,test.webhook')).toEqual([400, 'validation_failed', 'types', 'oneof', 'test.webhook']);
  expect(await refused('?after_sequence=-1')).toEqual([400, 'validation_failed', 'after_sequence', 'min', -1]);
  expect(await refused('', { 'last-event-id': 'x' })).toEqual([400, 'validation_failed', 'Last-Event-ID', 'number', 'x']);
  const answer = await cluster.rest('HEAD', customer.at('events/stream'), { key: customer.key });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
  const all = await Promise.all(Array.from({ length: 32 }, () => open()));
  expect(all.map(({ status }) => status)).toEqual(all.map(() => 200));
  expect(await refused('')).toEqual([503, 'overloaded', undefined, undefined, undefined]);
  all[0]!.close();
  for (let status = 503; status === 503;) ({ status } = await open());
});

test('a stream ends when its key ends', async () => {
  const key = await cluster.apiKey(customer.tenant, ['transactions:read']);
  const stream = await open(`?after_sequence=${await head()}`, {}, key);
  await stream.next();
  const { api_keys } = (await cluster.rest('GET', `/v1/tenants/${customer.tenant.id}/api-keys`, { key: customer.tenant.owner.token })).body
    .data;
  const revoked = Date.now();
  await cluster.rest('DELETE', `/v1/tenants/${customer.tenant.id}/api-keys/${api_keys[0].id}`, { key: customer.tenant.owner.token });
  const [end] = await stream.take(1);
  expect(Date.now() - revoked).toBeLessThan(5_000);
  expect(end).toMatchObject({ event: 'end', data: { code: 'unauthenticated', sequence: Number(end?.id) } });
  expect(await stream.next()).toBeUndefined();
});

describe('alone', () => {
  const event = (sequence: number) => create(EventSchema, { ...base, id: newId('evt'), sequence: BigInt(sequence) });
  const base = {
    type: 'definition.changed',
    data: { case: 'definitionChanged' as const, value: { kind: 'limit', record: JSON.stringify({ name: 'x'.repeat(20_000) }) } },
  };
  const usual: Omit<EventStream, 'read'> = {
    tenantId: 't',
    afterSequence: 0n,
    types: undefined,
    mustEnd: () => Promise.resolve(undefined),
    signal: new AbortController().signal,
    giveUp: () => undefined,
  };
  const textOf = async (stream: AsyncGenerator<string>) => String((await stream.next()).value);

  test('a quiet stream sends its position', async () => {
    const read = (_: string, after: bigint): Promise<EventPage> =>
      Promise.resolve({ events: after === 0n ? [event(1)] : [], hasMore: false });
    const times = { pollMs: 5, heartbeatMs: 20, slowMs: 10_000 };
    const stream = eventStream({ ...usual, read, types: new Set(['hold.created']), times });
    expect([await textOf(stream), await textOf(stream)]).toEqual([': connected\n\n', ': heartbeat\nid: 1\n\n']);
    await stream.return(undefined);
  });

  test('streams at one sequence share a read', async () => {
    let reads = 0;
    const read = sharedReads(() => Promise.resolve({ events: [], hasMore: ++reads > 100 }));
    await Promise.all([read('a', 1n), read('a', 1n), read('a', 2n), read('b', 1n)]);
    expect(reads).toBe(3);
    await read('a', 1n);
    expect(reads).toBe(4);
  });

  test('a reader that pauses is cut off with its last event; nothing piles up meanwhile', async () => {
    let read = 0;
    let gaveUp = false;
    const times = { pollMs: 5, heartbeatMs: 10_000, slowMs: 2_000 };
    const server = createServer((_, response) => {
      const page = (_tenant: string, after: bigint) => {
        read = Number(after) + 50;
        return Promise.resolve({ events: Array.from({ length: 50 }, (_each, index) => event(Number(after) + index + 1)), hasMore: true });
      };
      const giveUp = () => (gaveUp = true);
      Readable.from(eventStream({ ...usual, read: page, giveUp, times }), { objectMode: false, highWaterMark: 65_536 }).pipe(response);
    }).listen(0);
    const stream = await openSse(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {});
    await stream.take(1);
    for (let before = -1; before !== read; await new Promise((done) => setTimeout(done, 400))) before = read;
    // What fits into the buffers of two sockets and not more, far from what the log has.
    expect(read).toBeLessThan(2_000);
    const all: Message[] = [];
    for (let message = await stream.next(); message; message = await stream.next()) all.push(message);
    const end = all.pop();
    expect(end).toMatchObject({ id: all.at(-1)?.id, event: 'end', data: { code: 'too_slow', sequence: Number(all.at(-1)?.id) } });
    expect(gaveUp).toBe(false);
    server.close();
  });

  test('a reader that takes nothing at all is given up', async () => {
    const gaveUp = new Promise<void>((giveUp) => {
      const read = () => Promise.resolve({ events: [event(1)], hasMore: true });
      const stream = eventStream({ ...usual, read, giveUp, times: { pollMs: 5, heartbeatMs: 1_000, slowMs: 10 } });
      void stream.next().then(() => stream.next());
    });
    await gaveUp;
  });
});
