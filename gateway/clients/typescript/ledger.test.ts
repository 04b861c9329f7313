// The TypeScript client against a real deployment, through a proxy that cuts connections.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openProxy, type Proxy } from '../../../test/proxy.ts';
import { sharedCluster } from '../../../test/shared-cluster.ts';
import { newWallet, type Customer } from '../../../test/customer.ts';
import type { Cluster } from '../../../test/cluster.ts';
import { Ledger, LedgerError, fromMinor, sum, toMinor, type PostDoubleRequest, type StreamedEvent } from './ledger.ts';

let cluster: Cluster;
let customer: Customer;
let proxy: Proxy;
let ledger: Ledger;

beforeAll(async () => {
  cluster = await sharedCluster();
  customer = await newWallet(cluster);
  proxy = await openProxy(Number(new URL(cluster.url).port));
  ledger = new Ledger({ url: `http://127.0.0.1:${proxy.port}/`, tenant: customer.tenant.slug, key: customer.key });
});
afterAll(() => proxy.close());
afterEach(() => {
  proxy.watch = () => 'pass';
});

const deposit = (amount = '1.00'): PostDoubleRequest => ({
  description: 'Deposit',
  entries: [
    { account_code: 'SETTLEMENT-USD', side: 'debit', amount, currency: 'USD' },
    { account_code: 'CUSTOMER-WALLETS-USD', side: 'credit', amount, currency: 'USD' },
  ],
});

/** Cuts what these requests are answered, the first so many times; answers what was sent. */
function cutAnswers(pattern: RegExp, times: number): string[] {
  const sent: string[] = [];
  proxy.watch = (chunk) => {
    const text = chunk.toString();
    if (!pattern.test(text)) return 'pass';
    sent.push(text);
    return sent.length <= times ? 'cut after' : 'pass';
  };
  return sent;
}

const rejected = async (call: PromiseLike<unknown>): Promise<LedgerError> => {
  const error = await Promise.resolve(call).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof LedgerError)) throw new Error(`no LedgerError: ${String(error)}`);
  return error;
};

describe('a posting', () => {
  test('whose answers are lost is sent again with the same key and bytes, and posts once', async () => {
    const sent = cutAnswers(/^POST .*double-entry/, 2);
    let replayed: string | null = null;
    const { transaction } = await ledger.transactions.post(deposit('7.00'), {
      onResponse: ({ headers }) => (replayed = headers.get('idempotent-replayed')),
    });
    expect([sent.length, new Set(sent).size, replayed]).toEqual([3, 1, 'true']);
    const found = await ledger.transactions.list({ idempotency_key: transaction.idempotency_key });
    expect(found.transactions.map(({ transaction_id }) => transaction_id)).toEqual([transaction.transaction_id]);
    expect((await ledger.accounts.balance('CUSTOMER-WALLETS-USD', { currency: 'USD' })).balance.balance).toBe('7.00');
  });

  test('that never gets an answer says so, with the key that finds out', async () => {
    cutAnswers(/^POST .*double-entry/, 9);
    const error = await rejected(ledger.transactions.post(deposit('2.00'), { idempotencyKey: 'unknown-1', retries: 1 }));
    expect(error).toMatchObject({ status: 0, code: 'no_answer', idempotencyKey: 'unknown-1', isOutcomeUnknown: true });
    proxy.watch = () => 'pass';
    expect((await ledger.transactions.list({ idempotency_key: 'unknown-1' })).transactions).toHaveLength(1);
  });

  test('that is refused is not repeated, and the error has all that the API says', async () => {
    const sent = cutAnswers(/^POST .*double-entry/, 0);
    const wrong = deposit('2.00');
    wrong.entries[0]!.amount = '3.00';
    const error = await rejected(ledger.transactions.post(wrong));
    expect(error).toMatchObject({ status: 422, code: 'unbalanced', isOutcomeUnknown: false, message: expect.any(String) });
    expect([error.details?.field, error.details?.difference, typeof error.requestId]).toEqual(['entries', '1.00', 'string']);
    expect(sent).toHaveLength(1);
    const both = await rejected(ledger.transactions.post({ entries: [] }));
    expect(both.errors?.length).toBeGreaterThan(0);
  });

  test('can be tried: nothing is posted', async () => {
    const { transaction } = await ledger.transactions.post(deposit('5.00'), { dry_run: true });
    expect([transaction.transaction_id, transaction.amount]).toEqual([null, '5.00']);
  });

  test('that nobody may repeat is sent once: creating an account', async () => {
    const sent = cutAnswers(/^POST .*accounts HTTP/, 1);
    const error = await rejected(ledger.accounts.create({ account_code: 'PETTY-CASH', name: 'Petty cash', type: 'asset' }));
    expect([sent.length, error.code, error.isOutcomeUnknown]).toEqual([1, 'no_answer', true]);
  });
});

describe('a list', () => {
  test('is a page where it is awaited, and every item where it is iterated: by cursor, offset and sequence', async () => {
    for (let index = 0; index < 5; index += 1) await ledger.transactions.post(deposit('1.00'), { idempotencyKey: `list-${index}` });
    const page = await ledger.transactions.list({ limit: 2 });
    expect([page.transactions.length, page.pagination.has_more]).toEqual([2, true]);
    const all = await ledger.transactions.list({ limit: 2 }).all();
    expect(new Set(all.map(({ transaction_id }) => transaction_id)).size).toBe(all.length);
    expect(all.length).toBeGreaterThan(5);
    expect(await ledger.transactions.list({ limit: 2 }).all(3)).toEqual(all.slice(0, 3));
    const sequences: number[] = [];
    for await (const { sequence } of ledger.events.list({ limit: 20 })) sequences.push(sequence);
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    const lines = await ledger.reports.accountStatement({ account_code: 'SETTLEMENT-USD', currency: 'USD', limit: 2 }).all();
    expect(lines).toHaveLength(all.length);
    expect(await ledger.deliveries.list({ limit: 1 }).all()).toEqual([]);
  });

  test('that fails in the middle throws', async () => {
    const list = ledger.transactions.list({ limit: 1, retries: 0 });
    await expect(
      (async () => {
        for await (const _ of list) cutAnswers(/^GET /, 9);
      })(),
    ).rejects.toMatchObject({ code: 'no_answer' });
  });
});

test('a report comes as JSON or as a file, and a job can be waited for', async () => {
  const { report } = await ledger.reports.trialBalance({ currency: 'USD' });
  expect(report.lines.length).toBeGreaterThan(1);
  const file = await ledger.reports.trialBalance({ currency: 'USD', format: 'csv' });
  expect(await file.text()).toMatch(/^account_code,/);
  const { job } = await ledger.reports.startJournal({ format: 'csv' });
  expect(await ledger.jobs.wait(job.id)).toMatchObject({ status: 'succeeded' });
  expect((await (await ledger.jobs.result(job.id)).text()).split('\r\n').length).toBeGreaterThan(3);
});

test('an import sends lines and answers lines', async () => {
  const item = { op: 'double', idempotency_key: 'import-1', ...deposit('1.00') };
  const answer = await ledger.transactions.import(`${JSON.stringify(item)}\n${JSON.stringify(item)}\n`);
  const lines = (await answer.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.at(-1)).toMatchObject({ posted: 1, replayed: 1 });
});

describe('a login', () => {
  test('reads and posts with an access key of its own, which is got once and renewed where it ended', async () => {
    const { email, password } = customer.tenant.owner;
    const { token } = await new Ledger({ url: cluster.url }).auth.login({ email, password });
    let exchanges = 0;
    const counting: typeof fetch = (url, init) => {
      exchanges += (url as string).endsWith('/access') ? 1 : 0;
      return fetch(url, init);
    };
    const person = new Ledger({ url: cluster.url, tenant: customer.tenant.slug, token: () => token, fetch: counting });
    await Promise.all([person.accounts.list(), person.books.get(), person.accounts.tree({ depth: 1 })]);
    expect(exchanges).toBe(1);
    const { api_keys } = await person.keys.list();
    expect(api_keys).toHaveLength(1);
    expect((await person.user.get()).user.email).toBe(email);
    const ended = new Ledger({
      url: cluster.url,
      tenant: customer.tenant.slug,
      key: (expired) => (expired ? customer.key : 'lk_live_ended'),
    });
    expect((await ended.books.get()).books.status).toBe('active');
    expect(await rejected(new Ledger({ url: cluster.url, tenant: 'nobody-has-this', token }).keys.list())).toMatchObject({ status: 404 });
    expect(await rejected(new Ledger({ url: cluster.url, tenant: 'acme' }).books.get())).toMatchObject({ code: 'no_credential' });
  });
});

test('a call goes to no other address than its own', async () => {
  let followed = 0;
  const other = createServer((request, response) => {
    if (request.url === '/elsewhere') followed += 1;
    response.writeHead(308, { location: '/elsewhere' }).end();
  });
  await new Promise<void>((done) => other.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  const error = await rejected(new Ledger({ url, tenant: 'acme', key: customer.key }).transactions.post(deposit()));
  expect([error.status, error.message, followed]).toEqual([308, 'the server redirects to /elsewhere, which is not followed', 0]);
  other.close();
  for (const code of ['', '.', '..']) await expect(async () => ledger.accounts.get(code)).rejects.toThrow(TypeError);
});

test('the log is followed without a gap or a repetition over breaks, until it is left', async () => {
  const leaving = new AbortController();
  const { events } = await ledger.events.list({ after_sequence: 0, limit: 100 });
  const from = events.length - 2;
  const received: StreamedEvent[] = [];
  const breaks: unknown[] = [];
  const options = { after: from, types: ['transaction.posted', 'balance.updated'] as const, signal: leaving.signal };
  const following = (async () => {
    for await (const event of ledger.events.listen({ ...options, types: [...options.types], onBreak: (reason) => breaks.push(reason) })) {
      received.push(event);
      if (received.length === 2 || received.length === 7) proxy.cut();
      if (received.length === 12) leaving.abort();
    }
  })();
  for (let index = 0; index < 4; index += 1) await new Ledger({ ...ledger.options, url: cluster.url }).transactions.post(deposit());
  await following;
  expect(breaks.length).toBeGreaterThan(0);
  // Of each transaction its event and two balances.
  const ids = received.map(({ type, sequence, data }) => `${sequence} ${type} ${JSON.stringify(data['account_code'] ?? null)}`);
  expect(new Set(ids).size).toBe(12);
  expect(new Set(received.map(({ sequence }) => sequence)).size).toBe(4);
});

test('money is text and whole minor units', () => {
  expect(['12.5', '-0.01', '9007199254740993.99'].map((amount) => fromMinor(toMinor(amount)))).toEqual([
    '12.50',
    '-0.01',
    '9007199254740993.99',
  ]);
  expect(sum(['0.10', '0.20', '-0.30'])).toBe('0.00');
  for (const wrong of ['', '1.234', '1e3', '1,5', ' 1']) expect(() => toMinor(wrong)).toThrow(RangeError);
});
