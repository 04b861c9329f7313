// Imports through REST: each line by itself, in order, reported as it is durable, and once however often it is sent.
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { toMinor } from '../services/platform/money.ts';
import { startCluster, type Cluster } from '../test/cluster.ts';
import { deposit, line, newWallet, type Customer } from '../test/customer.ts';
import { until } from '../test/polling.ts';

// The gateway and the ledger are stopped and started again, which a busy machine needs minutes for.
jest.setTimeout(180_000);

let cluster: Cluster;
let customer: Customer;
let slow: Upload;
let slowSince: number;
const wallet = 'CUSTOMER-WALLETS-USD';

beforeAll(async () => {
  cluster = await startCluster();
  customer = await newWallet(cluster);
  await customer.post('transactions/double-entry', deposit('1000.00'));
  // It goes on while the other tests run.
  slow = new Upload();
  await slow.write(items('slow-early', 1), 1);
  slowSince = performance.now();
});
afterAll(() => cluster.stop());

type Fields = Record<string, unknown>;
const item = (idempotency_key: string, amount = '0.01', more: Fields = {}): string =>
  JSON.stringify({ op: 'double', idempotency_key, ...deposit(amount), ...more });
const items = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, index) => item(`${prefix}-${index + 1}`));
const version = async (of = customer) => (await of.get(`accounts/code/${wallet}/balance?currency=USD`)).balance.version as number;
const headersOf = (of: Customer, more: Record<string, string> = {}) => ({
  authorization: `Bearer ${of.key}`,
  'content-type': 'application/x-ndjson',
  ...more,
});
/** The lines of an answer that has ended. */
const parsed = (text: string): Fields[] =>
  text
    .trimEnd()
    .split('\n')
    .map((each) => JSON.parse(each) as Fields);

/** Sends a whole import and answers its lines. */
async function send(lines: string[], query = '', of = customer): Promise<Fields[]> {
  const path = of.at(`transactions/import${query}`);
  const body = lines.join('\n');
  const answer = await fetch(cluster.url + path, { method: 'POST', headers: headersOf(of), ...(body !== '' && { body }) });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson; charset=utf-8']);
  return parsed(await answer.text());
}

/** An import that stays open, and what it has been answered so far. */
class Upload {
  readonly request: ClientRequest;
  text = '';
  readonly ended: Promise<unknown>;

  constructor(query = '?results=all', of = customer) {
    this.request = request(cluster.url + of.at(`transactions/import${query}`), { method: 'POST', headers: headersOf(of) });
    // A server that stops, or an answer that ends early, closes the connection under it.
    this.request.on('error', () => undefined);
    this.ended = once(this.request, 'response').then(async ([answer]) => {
      (answer as IncomingMessage).on('data', (piece: Buffer) => (this.text += piece.toString())).on('error', () => undefined);
      await once(answer as IncomingMessage, 'close');
    });
  }

  /** Writes lines, and waits until so many lines have been answered. */
  async write(lines: string[], answered: number): Promise<void> {
    this.request.write(lines.map((each) => `${each}\n`).join(''));
    await until(
      () => Promise.resolve(this.text.split('\n').length - 1),
      (count) => count >= answered,
    );
  }
}

describe('an import', () => {
  test('posts each line by itself, in their order, and says what failed', async () => {
    const { balance } = (await customer.get(`accounts/code/${wallet}/balance?currency=USD`)).balance;
    const out = JSON.stringify({
      op: 'double',
      idempotency_key: 'all-out',
      entries: [line(wallet, 'debit', '5000.00'), line('SETTLEMENT-USD', 'credit', '5000.00')],
    });
    const lines = [
      item('mixed-1', '4000.00'),
      out,
      item('mixed-1', '4000.00'),
      '',
      '  \t\r',
      item('mixed-1', '3.00'),
      '{"op":',
      '5',
      '{"op":"pay"}',
      `{"op":"single","idempotency_key":"long","description":"${'x'.repeat(1 << 20)}"}`,
      JSON.stringify({ op: 'single', ...line('MARKETING', 'debit') }),
      JSON.stringify({ op: 'single', idempotency_key: 'zero', ...line('MARKETING', 'debit', '0') }),
      Buffer.from(JSON.stringify({ op: 'single', idempotency_key: 'é', ...line('MARKETING', 'debit') }), 'utf8').toString(),
    ];
    const report = await send(lines, '?results=all');
    const told = report
      .slice(0, -1)
      .map(({ line: number, status, code, details }) => [number, status, code, (details as Fields | undefined)?.['field']]);
    expect(toMinor(balance)).toBeGreaterThanOrEqual(100_000n);
    expect(told).toEqual([
      [1, 201, undefined, undefined],
      [2, 201, undefined, undefined],
      [3, 200, undefined, undefined],
      [6, 422, 'idempotency_key_reused', 'idempotency_key'],
      [7, 400, 'invalid_json', undefined],
      [8, 400, 'validation_failed', 'body'],
      [9, 400, 'validation_failed', 'op'],
      [10, 413, 'payload_too_large', undefined],
      [11, 400, 'validation_failed', 'idempotency_key'],
      [12, 400, 'validation_failed', 'amount'],
      [13, 201, undefined, undefined],
    ]);
    expect(report.at(-1)).toEqual({ line: 13, posted: 3, replayed: 1, failed: 7, done: true });
    const { transaction_id } = report[0] as { transaction_id: string };
    expect((await customer.get(`transactions/${transaction_id}`)).transaction.idempotency_key).toBe('mixed-1');
    const failed = report.filter(({ status }) => Number(status) >= 400);
    expect(await send(lines)).toEqual([...failed, { line: 13, posted: 0, replayed: 4, failed: 7, done: true }]);
  });

  test('reports its progress each 1,000 lines, and the end of an empty one', async () => {
    expect(await send([])).toEqual([{ line: 0, posted: 0, replayed: 0, failed: 0, done: true }]);
    const lines = items('progress', 2500);
    lines.splice(999, 1, '');
    const before = await version();
    expect(await send([...lines, '', ''])).toEqual([
      { line: 1000, posted: 999, replayed: 0, failed: 0 },
      { line: 2000, posted: 1999, replayed: 0, failed: 0 },
      { line: 2501, posted: 2499, replayed: 0, failed: 0, done: true },
    ]);
    expect((await version()) - before).toBe(2499);
  });

  test('stops after an error where it is told to', async () => {
    const lines = items('stop', 1200);
    lines[600] = item('stop-bad', '0');
    const report = await send(lines, '?stop_on_error=true');
    expect(report.slice(-2)).toMatchObject([
      { line: 601, status: 400 },
      { line: 601, posted: 600, failed: 1, done: true },
    ]);
    // One that the ledger refuses ends its chunk.
    lines[600] = JSON.stringify({ op: 'single', idempotency_key: 'stop-ledger', ...line('NOPE', 'debit') });
    const [refused, end] = await send(lines, '?stop_on_error=true');
    expect([refused, end]).toMatchObject([
      { line: 601, code: 'account_not_found' },
      { replayed: 600, failed: 1, done: true },
    ]);
    expect(Number(end!['line'])).toBeLessThanOrEqual(601 + 250);
  });

  test('a dry run of it posts nothing', async () => {
    const before = await version();
    const report = await send([...items('tried', 3), item('tried-4', '0')], '?dry_run=true&results=all');
    expect(report.map(({ status, transaction_id, posted }) => [status, transaction_id, posted])).toEqual([
      ...Array.from({ length: 3 }, () => [200, null, undefined]),
      [400, undefined, undefined],
      [undefined, undefined, 3],
    ]);
    expect(await version()).toBe(before);
  });

  test('reports lines while the client still sends', async () => {
    const upload = new Upload();
    await upload.write(items('slow', 2), 2);
    await upload.write(items('slow-more', 1), 3);
    expect(parsed(upload.text).map(({ line: number, status }) => [number, status])).toEqual([
      [1, 201],
      [2, 201],
      [3, 201],
    ]);
    upload.request.end();
    await upload.ended;
    expect(parsed(upload.text).at(-1)).toMatchObject({ line: 3, posted: 3, done: true });
  });
});

describe('an import that is cut', () => {
  test('and sent again posts each line once', async () => {
    const lines = items('cut', 3000);
    const before = await version();
    const upload = new Upload();
    await upload.write(lines.slice(0, 1700), 600);
    upload.request.destroy();
    await upload.ended.catch(() => undefined);
    const reported = parsed(upload.text.slice(0, upload.text.lastIndexOf('\n'))).findLast(({ status }) => status === 201);
    // From the last line that was reported on, then everything.
    const rest = await send(lines.slice(Number(reported!['line'])));
    expect(rest.at(-1)).toMatchObject({ failed: 0, done: true });
    expect(await send(lines)).toEqual([
      { line: 1000, posted: 0, replayed: 1000, failed: 0 },
      { line: 2000, posted: 0, replayed: 2000, failed: 0 },
      { line: 3000, posted: 0, replayed: 3000, failed: 0 },
      { line: 3000, posted: 0, replayed: 3000, failed: 0, done: true },
    ]);
    expect((await version()) - before).toBe(3000);
  });

  test('by the end of its key ends with the line to go on from', async () => {
    const { tenant } = customer;
    const made = await cluster.rest('POST', `/v1/tenants/${tenant.id}/api-keys`, {
      key: tenant.owner.token,
      body: { name: 'short', scopes: ['transactions:write'] },
    });
    const { id, key } = made.body.data.api_key;
    const upload = new Upload('?results=all', { ...customer, key });
    await upload.write(items('revoked', 1), 1);
    await cluster.rest('DELETE', `/v1/tenants/${tenant.id}/api-keys/${id}`, { key: tenant.owner.token });
    let sent = 1;
    while (!upload.text.includes('"done"')) {
      upload.request.write(`${item(`revoked-${(sent += 1)}`)}\n`);
      await pause(100);
    }
    const end = parsed(upload.text).at(-1);
    expect(end).toMatchObject({ done: false, code: 'unauthenticated', posted: end!['line'], failed: 0 });
    expect(sent).toBeLessThan(80);
    await upload.ended;
  });

  test('by a ledger that does not answer goes on when it is back, and ends with the line to go on from when it is not', async () => {
    const lines = items('outage', 900);
    const upload = new Upload();
    await upload.write(lines.slice(0, 100), 100);
    await cluster.kill('ledger', 'SIGSTOP');
    upload.request.write(`${lines.slice(100, 300).join('\n')}\n`);
    await pause(2_000);
    await cluster.kill('ledger', 'SIGCONT');
    await upload.write([], 300);
    await cluster.kill('ledger', 'SIGSTOP');
    upload.request.write(`${lines.slice(300).join('\n')}\n`);
    await upload.ended;
    await cluster.kill('ledger', 'SIGCONT');
    const end = parsed(upload.text).at(-1);
    expect(end).toMatchObject({ line: 300, posted: 300, done: false, code: 'unavailable' });
    await until(
      async () => (await send(lines.slice(300))).at(-1),
      (last) => last!['done'] === true,
    );
    expect((await send(lines)).at(-1)).toEqual({ line: 900, posted: 0, replayed: 900, failed: 0, done: true });
  });
});

test('a client that does not read stops its own import, and nothing else', async () => {
  const upload = request(cluster.url + customer.at('transactions/import'), { method: 'POST', headers: headersOf(customer) });
  upload.on('error', () => undefined);
  // Each of these lines has a report a hundred times its size: taken all, they would fill the gateway's memory.
  const piece = '5\n'.repeat(32_768);
  let isBlocked = false;
  for (let sent = 0; sent < 500 && !isBlocked; sent++) {
    if (upload.write(piece)) continue;
    const waiting = new AbortController();
    const drained = once(upload, 'drain', waiting).then(
      () => false,
      () => true,
    );
    isBlocked = await Promise.race([drained, pause(5_000, true, { signal: waiting.signal, ref: false })]);
    waiting.abort();
  }
  expect(isBlocked).toBe(true);
  expect((await customer.post('transactions/double-entry', deposit('1.00'))).status).toBe(201);
  upload.destroy();
});

describe('an import is refused', () => {
  test.each([
    ['application/json', {}, 415, 'the body must be application/x-ndjson in UTF-8'],
    ['application/x-www-form-urlencoded', {}, 415, 'the body must be application/x-ndjson in UTF-8'],
    ['application/x-ndjson', { 'content-encoding': 'gzip' }, 415, 'the body must not be compressed'],
    ['application/x-ndjson', { 'idempotency-key': 'k' }, 400, 'Request validation failed'],
  ] as const)('as %s with %j', async (type, more, status, error) => {
    const headers = { ...headersOf(customer, more), 'content-type': type };
    const answer = await fetch(cluster.url + customer.at('transactions/import'), { method: 'POST', headers, body: item('never') });
    expect([answer.status, ((await answer.json()) as Fields)['error']]).toEqual([status, error]);
  });

  test.each([
    ['?results=some', 'results', 'oneof'],
    ['?stop_on_error=yes', 'stop_on_error', 'type'],
    ['?atomic=true', 'atomic', 'unknown'],
  ])('%s', async (query, field, tag) => {
    const answer = await fetch(cluster.url + customer.at(`transactions/import${query}`), {
      method: 'POST',
      headers: headersOf(customer),
      body: item('never'),
    });
    const { details } = (await answer.json()) as { details: Fields };
    expect([answer.status, details['field'], details['tag']]).toEqual([400, field, tag]);
  });
});

test('an upload may take longer than other requests', async () => {
  await until(
    () => Promise.resolve(performance.now() - slowSince),
    (ms) => ms > 40_000,
  );
  await slow.write(items('slow-late', 1), 2);
  slow.request.end();
  await slow.ended;
  expect(parsed(slow.text).at(-1)).toMatchObject({ line: 2, posted: 2, done: true });
});

test('an import that a stopping gateway ends is reported up to its last line', async () => {
  const lines = items('shutdown', 500);
  const upload = new Upload();
  await upload.write(lines.slice(0, 400), 400);
  upload.request.write(lines[400]!.slice(0, 30));
  await Promise.all([cluster.restart('gateway'), upload.ended]);
  expect(parsed(upload.text).at(-1)).toMatchObject({ line: 400, posted: 400, replayed: 0, failed: 0, done: false });
  expect((await send(lines)).at(-1)).toEqual({ line: 500, posted: 100, replayed: 400, failed: 0, done: true });
});
