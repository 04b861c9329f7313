import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { withClient } from '../deploy/local/databases.ts';
import { metricOf, until } from '../test/polling.ts';
import { checkedRest, readContract } from '../test/contract.ts';
import { openProxy } from '../test/proxy.ts';
import { startCluster, type Answer, type Cluster, type Tenant } from '../test/cluster.ts';
import { waitingLocks } from '../test/table-locks.ts';

// Some of these start the cluster again and again, or ask it for much, which a busy machine needs minutes for.
jest.setTimeout(180_000);

// Small bounds, so that a flood need not be large.
const maxInFlight = 64;
let cluster: Cluster;
let rest: Cluster['rest'];
let tenant: Tenant;
let key: string;

beforeAll(async () => {
  cluster = await startCluster({ environment: { gateway: { MAX_IN_FLIGHT: String(maxInFlight) } } });
  rest = checkedRest(cluster, await readContract(cluster.url));
  tenant = await cluster.tenant();
  key = await cluster.apiKey(tenant);
  await rest('POST', `/v1/tenants/${tenant.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});
afterAll(() => cluster.stop());

const at = (path: string, of = tenant) => `/v1/tenants/${of.slug}/${path}`;
const line = { account_code: 'TECHNOLOGY', amount: '1.00', side: 'debit', currency: 'USD' };
const post = (idempotency_key: string, signal?: AbortSignal) =>
  rest('POST', at('transactions'), { key, body: { ...line, idempotency_key }, ...(signal && { signal }) });
const isPosted = async (name: string) =>
  (await rest('GET', at(`transactions?idempotency_key=${name}`), { key })).body.data.transactions.length > 0;
const balance = () => rest('GET', at('accounts/code/TECHNOLOGY/balance?currency=USD'), { key });
const figure = (name: string) => metricOf(cluster, 'gateway', name);

/** A connection, and what is answered on it: the status, and what becomes of the connection. */
class Line {
  readonly socket: Socket;
  private text = '';
  readonly ended: Promise<unknown>;

  constructor(url: string) {
    this.socket = connect(Number(new URL(url).port), '127.0.0.1').on('data', (piece: Buffer) => (this.text += piece.toString()));
    this.ended = once(this.socket, 'end');
  }

  get answers(): string[] {
    return [...this.text.matchAll(/HTTP\/1\.1 (\d+) .*?^connection: (\S+)/gims)].map(([, status, connection]) => `${status} ${connection}`);
  }

  ask(method: string, path: string, body = '', more = ''): this {
    const head = `${method} ${path} HTTP/1.1\r\nHost: x\r\n${more}Content-Type: application/json\r\n`;
    this.socket.write(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    return this;
  }

  async answered(count: number): Promise<void> {
    await until(
      () => Promise.resolve(this.answers.length),
      (length) => length === count,
    );
  }
}

describe('while the ledger is stopped by SIGSTOP', () => {
  test('requests beyond the limit are rejected at once, and the others are answered when it goes on', async () => {
    const other = await cluster.tenant();
    const otherKey = await cluster.apiKey(other);
    await rest('GET', at('accounts', other), { key: otherKey });
    await post('flood-warm');
    await cluster.kill('ledger', 'SIGSTOP');
    let rejected = 0;
    const flood = Array.from({ length: 2 * maxInFlight }, async (_, number) => {
      const answer = await post(`flood-${number}`);
      if (answer.status === 503) rejected++;
      return answer;
    });
    await until(
      async () => rejected,
      (count) => count >= 1.5 * maxInFlight,
    );
    // One tenant has at most half, so another one still gets in.
    const waiting = await figure('http_requests_in_flight');
    expect(waiting).toBeLessThanOrEqual(maxInFlight / 2);
    const read = rest('GET', at('accounts', other), { key: otherKey });
    await until(
      () => figure('http_requests_in_flight'),
      (count) => count > waiting,
    );
    expect((await fetch(`${cluster.url}/healthz`)).status).toBe(200);
    await cluster.kill('ledger', 'SIGCONT');
    const answers = await Promise.all(flood);
    expect((await read).status).toBe(200);
    for (const { status, headers, body } of answers) {
      if (status === 503) expect([body.code, Number(headers.get('retry-after'))]).toEqual(['overloaded', expect.any(Number)]);
    }
    const [posted, shed] = [201, 503].map((status) => answers.findIndex((answer) => answer.status === status));
    expect([await isPosted(`flood-${posted}`), await isPosted(`flood-${shed}`)]).toEqual([true, false]);
    expect((await post(`flood-${shed}`)).status).toBe(201);
  });

  test('a client that leaves before its posting was begun has not posted', async () => {
    await cluster.kill('ledger', 'SIGSTOP');
    // Three calls are on their way at once; what comes then waits.
    const posted: Promise<Answer>[] = [];
    const held = async (postings: number) => {
      await until(
        () => figure('gateway_postings_in_flight'),
        (count) => count === postings,
      );
    };
    for (const number of [1, 2, 3]) {
      posted.push(post(`leave-${number}`));
      await held(number);
    }
    const leaving = new AbortController();
    const fourth = post('leave-4', leaving.signal).catch((error: Error) => error.name);
    await held(4);
    const left = await figure('http_requests_total{method="POST",route="/v1/tenants/:slug/transactions",status="0"');
    leaving.abort();
    expect(await fourth).toBe('AbortError');
    await until(
      () => figure('http_requests_total{method="POST",route="/v1/tenants/:slug/transactions",status="0"'),
      (count) => count > left,
    );
    await cluster.kill('ledger', 'SIGCONT');
    expect((await Promise.all(posted)).map(({ status }) => status)).toEqual([201, 201, 201]);
    await held(0);
    expect([await isPosted('leave-1'), await isPosted('leave-3'), await isPosted('leave-4')]).toEqual([true, true, false]);
  });

  test('a gateway that stops answers what is in flight, is not ready, takes nothing new, and ends well', async () => {
    await cluster.kill('ledger', 'SIGSTOP');
    const [idle, posting] = [new Line(cluster.url), new Line(cluster.url)];
    await idle.ask('GET', '/healthz').answered(1);
    const body = JSON.stringify({ ...line, idempotency_key: 'close-1' });
    posting.ask('POST', at('transactions'), body, `Authorization: Bearer ${key}\r\n`);
    await until(
      () => figure('gateway_postings_in_flight'),
      (count) => count === 1,
    );
    const stopped = cluster.kill('gateway', 'SIGTERM');
    const ready = await until(
      async () => {
        const answer = await fetch(`${cluster.opsUrl('gateway')}/readyz`);
        return { status: answer.status, body: (await answer.json()) as { dependencies: { gateway?: string } } };
      },
      // Before the signal arrives the ledger may be missing.
      ({ body }) => body.dependencies.gateway !== undefined,
    );
    expect(ready).toMatchObject({ status: 503, body: { status: 'unavailable', dependencies: { gateway: 'draining' } } });
    const takesNew = () =>
      fetch(`${cluster.url}/healthz`, { headers: { connection: 'close' } }).then(
        () => true,
        () => false,
      );
    await until(takesNew, (taken) => !taken);
    await idle.ended;
    await cluster.kill('ledger', 'SIGCONT');
    await posting.ended;
    await stopped;
    expect([idle.answers, posting.answers]).toEqual([['200 keep-alive'], ['201 close']]);
    expect(cluster.logs('gateway')).not.toContain('did not stop');
    await cluster.restart('gateway');
    expect(await isPosted('close-1')).toBe(true);
  });
});

test('a gateway that stops breaks off no posting of clients that post one after the other', async () => {
  const body = JSON.stringify({ ...line, amount: '0.01' });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  let answered = 0;
  /** Posts, on a new connection where one has ended, until nothing listens any more; how it went. */
  const postOn = async (): Promise<string[]> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const outcomes = new Set<string>();
    while (!outcomes.has('ECONNREFUSED')) {
      const posting = request(`${cluster.url}${at('transactions')}`, { method: 'POST', agent, headers }).end(body);
      const outcome = await once(posting, 'response').then(
        async ([answer]: IncomingMessage[]) => {
          await once(answer!.resume(), 'end');
          answered++;
          return String(answer!.statusCode);
        },
        ({ code, syscall }: NodeJS.ErrnoException) => (code === 'ECONNRESET' ? `${code} ${syscall}` : String(code)),
      );
      outcomes.add(outcome);
      if (outcome.startsWith('ECONNRESET')) break;
    }
    agent.destroy();
    return [...outcomes];
  };
  // Where this process itself stands still, its callers are no callers that post one after the other.
  let [lookedAt, stoodMs] = [performance.now(), 0];
  const watch = setInterval(() => {
    const now = performance.now();
    [lookedAt, stoodMs] = [now, Math.max(stoodMs, now - lookedAt)];
  }, 10);
  const posted = Promise.all(Array.from({ length: 20 }, postOn));
  await until(
    () => Promise.resolve(answered),
    (count) => count > 100,
  );
  try {
    await cluster.kill('gateway', 'SIGTERM');
    const outcomes = [...new Set((await posted).flat())];
    expect(outcomes).toContain('201');
    if (stoodMs < 100) expect(outcomes).toEqual(['201', 'ECONNREFUSED']);
  } finally {
    clearInterval(watch);
    await cluster.restart('gateway');
  }
});

test('a connection that is cut repeatedly during a reversal leaves one reversal, and the client does not notice', async () => {
  const proxy = await openProxy(Number(cluster.addresses.ledger[0]?.split(':')[1]));
  await cluster.restart('gateway', { LEDGER_ADDR: `127.0.0.1:${proxy.port}` });
  for (const verdict of ['cut', 'cut after'] as const) {
    const { transaction_id } = (await post(`cut ${verdict}`)).body.data.transaction;
    // The gateway asks more than once: it says that the outcome is open only when nothing it has sent can still be posted.
    let left = 3;
    proxy.watch = () => (left-- > 0 ? verdict : 'pass');
    const reversed = await rest('POST', at(`transactions/${transaction_id}/reverse`), { key });
    expect([verdict, reversed.status]).toEqual([verdict, 201]);
    const read = await rest('GET', at(`transactions/${transaction_id}`), { key });
    expect(read.body.data.transaction.reversed_by).toBe(reversed.body.data.transaction.transaction_id);
  }
  await cluster.restart('gateway', { LEDGER_ADDR: cluster.addresses.ledger[0] });
  await proxy.close();
});

test('reads that take every connection of the ledger leave it ready', async () => {
  // One tenant alone may not take them all.
  const second = await cluster.tenant();
  const secondKey = await cluster.apiKey(second);
  await withClient(cluster.databases.ledger.adminUrl, async (admin) => {
    await admin.query('begin; lock table accounts in access exclusive mode');
    // Each is given up after two seconds; so many wait for one of eight connections that nobody would get one within five.
    let asking = true;
    const reads = Array.from({ length: 30 }, async (_, place) => {
      while (asking)
        await (place % 2 === 0 ? rest('GET', at('accounts'), { key }) : rest('GET', at('accounts', second), { key: secondKey }));
    });
    try {
      const waiting = async () => {
        const { rows } = await admin.query(`select count(distinct pid) from pg_locks where ${waitingLocks}`);
        return Number(rows[0].count);
      };
      await until(waiting, (count) => count >= 8);
      // What was said of it before holds for a second.
      await pause(1_100);
      const ready = await until(
        () => rest('GET', '/readyz'),
        // A machine that stands still for the second that an answer may take is told from reads that take longer, again and again.
        ({ body }) => body.dependencies.ledger === 'ok',
      );
      expect(ready.status).toBe(200);
    } finally {
      asking = false;
      await admin.query('rollback');
      await Promise.all(reads);
    }
  });
});

describe('while the ledger is away', () => {
  test('postings, reversals and reads are 503, nothing is half done, and a retry with the same key finds out', async () => {
    const { transaction_id } = (await post('away-0')).body.data.transaction;
    const reverse = () => {
      return rest('POST', at(`transactions/${transaction_id}/reverse`), { key, body: { idempotency_key: 'away-0-back' } });
    };
    await cluster.kill('ledger');
    const read = await balance();
    expect([read.status, read.body.code, read.headers.get('retry-after')]).toEqual([503, 'unavailable', '1']);
    const posted = await post('away-1');
    expect([posted.status, posted.body.code, posted.headers.get('retry-after')]).toEqual([503, 'unavailable', '1']);
    const reversed = await reverse();
    expect([reversed.status, reversed.body.code, reversed.headers.get('retry-after')]).toEqual([503, 'unavailable', '1']);
    await cluster.restart('ledger');
    await until(
      () => post('away-1'),
      ({ status }) => status === 201 || status === 200,
    );
    // Reads have a connection of their own, which may be back a moment later.
    await until(
      () => balance(),
      ({ status }) => status === 200,
    );
    expect(await isPosted('away-1')).toBe(true);
    expect([(await reverse()).status, (await reverse()).status]).toEqual([201, 200]);
  });
});
