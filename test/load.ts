// Clients that post, read, log in and listen without a pause, and note every answer that is not the expected one.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Agent } from 'undici';
import { clientOf } from './client.ts';
import type { Cluster, RestOptions } from './cluster.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { startReceiver, type Receiver } from './notifier.ts';
import { until } from './polling.ts';
import { openSse } from './sse.ts';

/** What clients have seen. */
export interface Load {
  /** What a client could not expect, a line each: no request was sent twice. */
  faults: string[];
  /** Right answers, by kind of request. */
  answers: Record<string, number>;
}

// Long enough that the processes, not the clients, have the machine.
const pauseMs = 40;

/**
 * Has clients of several tenants at work on a deployment while something is done to it. Throws where books, streams or deliveries are
 * afterwards not exactly what was answered.
 */
export async function underLoad(url: string, work: () => Promise<unknown>, { tenants = 3 } = {}): Promise<Load> {
  const client = clientOf(url);
  const receiver = await startReceiver();
  const customers = await Promise.all(Array.from({ length: tenants }, () => newWallet({ ...client, url } as Cluster)));
  const faults: string[] = [];
  const answers: Record<string, number> = {};
  const over = new AbortController();
  // Each worker has a connection of its own, as clients have that are processes of their own.
  const newAsk = (): Ask => {
    const { rest } = clientOf(url, new Agent({ connections: 1 }) as unknown as NonNullable<RequestInit['dispatcher']>);
    return async (kind, method, path, options, ...expected) => {
      const started = new Date().toISOString();
      const outcome = await rest(method, path, options).catch((error: Error) => ({
        status: 0,
        body: reasonOf(error),
        headers: new Headers(),
      }));
      const isFine = expected.includes(outcome.status) && outcome.headers.get('idempotent-replayed') === null;
      if (isFine) answers[kind] = (answers[kind] ?? 0) + 1;
      else faults.push(`${started} ${kind}: ${outcome.status} ${JSON.stringify(outcome.body).slice(0, 300)}`);
      return isFine ? outcome.body.data : undefined;
    };
  };
  const repeat = async (turn: () => Promise<unknown>, restMs = pauseMs) => {
    while (!over.signal.aborted) {
      await turn();
      await pause(restMs);
    }
  };
  const workers = customers.flatMap((customer) => {
    const books = new Books(customer);
    const work = (turn: (ask: Ask) => Promise<unknown>, restMs?: number) => {
      const ask = newAsk();
      return () => repeat(() => turn(ask), restMs);
    };
    return [
      work((ask) => books.post(ask)),
      work((ask) => books.post(ask)),
      work((ask) => books.batch(ask), 10 * pauseMs),
      work((ask) => books.holdAndCapture(ask), 4 * pauseMs),
      work((ask) => books.read(ask), 2 * pauseMs),
      // Each hashes a password. A connection must not rest for as long as a stopping gateway leaves it open.
      work((ask) => books.logIn(ask), 25 * pauseMs),
      () => books.follow(url, faults, over.signal),
    ].map((worker) => ({ books, worker }));
  });
  for (const { post } of customers) await post('webhooks', { url: receiver.url, events: ['transaction.posted'] });
  const running = workers.map(({ worker }) => worker().catch((error: Error) => faults.push(String(error.stack))));
  const books = new Set(workers.map((each) => each.books));
  try {
    await work();
    over.abort();
    await Promise.all(running);
    for (const each of books) await each.check();
    await everyPostingDelivered([...books], receiver);
  } catch (error) {
    (error as Error).message += `; clients got ${JSON.stringify({ answers, faults }, null, 1)}`;
    throw error;
  } finally {
    over.abort();
    await receiver.close();
  }
  return { faults, answers };
}

/** Why there was no answer. */
function reasonOf({ message, cause }: Error): { code: string } {
  return { code: cause instanceof Error ? cause.message : message };
}

type Ask = (kind: string, method: string, path: string, options: RestOptions, ...expected: number[]) => Promise<any>;

/** What one tenant's clients were answered. */
class Books {
  readonly customer: Customer;
  readonly posted = new Map<string, number>();
  private readonly streamed: number[] = [];

  constructor(customer: Customer) {
    this.customer = customer;
  }

  private async send(ask: Ask, kind: string, path: string, body: unknown): Promise<any> {
    const { at, key } = this.customer;
    return ask(kind, 'POST', at(path), { key, body }, 200, 201);
  }

  private note({ transaction_id, sequence }: { transaction_id: string; sequence: number }): void {
    this.posted.set(transaction_id, sequence);
  }

  async post(ask: Ask): Promise<void> {
    const data = await this.send(ask, 'posting', 'transactions/double-entry', deposit('1.00', { idempotency_key: randomUUID() }));
    if (data) this.note(data.transaction);
  }

  async batch(ask: Ask): Promise<void> {
    const items = Array.from({ length: 20 }, () => ({ op: 'double', ...deposit('1.00', { idempotency_key: randomUUID() }) }));
    const data = await this.send(ask, 'batch', 'transactions/batch', { items, atomic: true });
    for (const { data: done } of data?.results ?? []) this.note(done.transaction);
  }

  async holdAndCapture(ask: Ask): Promise<void> {
    const data = await this.send(ask, 'hold', 'holds', deposit('1.00', { idempotency_key: randomUUID() }));
    if (!data) return;
    const captured = await this.send(ask, 'capture', `holds/${data.hold.hold_id}/capture`, { idempotency_key: randomUUID() });
    if (captured) this.note(captured.transaction);
  }

  async read(ask: Ask): Promise<void> {
    const { at, key } = this.customer;
    const paths = ['accounts/code/CUSTOMER-WALLETS-USD/balance?currency=USD', 'transactions?limit=5', 'webhooks', 'reports/trial-balance'];
    for (const path of paths) await ask(path.split('?')[0] as string, 'GET', at(path), { key }, 200);
  }

  async logIn(ask: Ask): Promise<void> {
    const { email, password } = this.customer.tenant.owner;
    const data = await ask('login', 'POST', '/v1/auth/login', { body: { email, password } }, 200);
    if (data) await ask('user', 'GET', '/v1/user', { key: data.token }, 200);
  }

  /** Reads the stream of events; where it ends, goes on from the last one as a browser does. */
  async follow(url: string, faults: string[], signal: AbortSignal): Promise<void> {
    const { at, key } = this.customer;
    let last = 0;
    const isOver = () => signal.aborted;
    while (!isOver()) {
      const headers = { authorization: `Bearer ${key}`, 'last-event-id': String(last) };
      const stream = await openSse(url + at('events/stream'), headers).catch(() => undefined);
      if (stream?.status !== 200) faults.push(`${new Date().toISOString()} stream: ${stream?.status ?? 'no answer'}`);
      if (stream?.status !== 200) await pause(pauseMs);
      if (!stream) continue;
      const close = () => stream.close();
      signal.addEventListener('abort', close);
      try {
        for (let message = await stream.next(); message; message = await stream.next()) {
          if (message.id === undefined || message.event === undefined || message.event === 'end') continue;
          last = Number(message.id);
          this.streamed.push(last);
        }
      } catch (error) {
        if (!isOver()) faults.push(`${new Date().toISOString()} stream: ${reasonOf(error as Error).code}`);
      }
      signal.removeEventListener('abort', close);
    }
  }

  /** Throws where the log is not exactly what was answered and streamed. */
  async check(): Promise<void> {
    const logged = new Map<string, number>();
    for (let after = 0, more = true; more;) {
      const { events, pagination } = await this.customer.get(`events?limit=100&after_sequence=${after}`);
      for (const { type, sequence, data } of events) {
        after = sequence;
        if (type === 'transaction.posted') logged.set(data.transaction_id, sequence);
      }
      more = pagination.has_more;
    }
    expect([...logged].toSorted()).toEqual([...this.posted].toSorted());
    expect(this.streamed).toEqual(this.streamed.map((_, index) => index + 1));
    const { balance } = await this.customer.get('accounts/code/CUSTOMER-WALLETS-USD/balance?currency=USD');
    expect(balance.balance).toBe(`${this.posted.size}.00`);
  }
}

/** Waits until each posting has reached the receiver. */
async function everyPostingDelivered(books: Books[], receiver: Receiver): Promise<void> {
  const expected = books.flatMap(({ posted }) => [...posted.keys()]).toSorted();
  const delivered = () => [...new Set(receiver.received.map(({ body }) => JSON.parse(body).data.transaction_id as string))].toSorted();
  await until(
    async () => delivered().length,
    (count) => count >= expected.length,
  );
  expect(delivered()).toEqual(expected);
}
