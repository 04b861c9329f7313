// What clients see while parts of the cluster are killed, stalled and restarted under them: nothing lost, nothing doubled.
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { createClient, type Client } from '@connectrpc/connect';
import pg from 'pg';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller, refusalOf, type Caller } from '../services/platform/caller.ts';
import { withLongDeadline } from './polling.ts';
import { startCluster, type Cluster, type Tenant } from './cluster.ts';

// Some of these start the cluster again and again, or ask it for much, which a busy machine needs minutes for.
jest.setTimeout(180_000);

let cluster: Cluster;
let books: pg.Client;
let caller: Caller;
let ledgers: Client<typeof LedgerService>;
let tenant: Tenant;
let key: string;
let path: string;
let tenantUuid: string;

beforeAll(async () => {
  cluster = await startCluster({ ledgers: 2 });
  tenant = await cluster.tenant();
  caller = openCaller({ addresses: cluster.addresses.ledger, token: cluster.internalToken, maxMessageBytes: 1 << 20 });
  ledgers = createClient(LedgerService, withLongDeadline(caller));
  key = await cluster.apiKey(tenant);
  path = `/v1/tenants/${tenant.slug}`;
  await cluster.rest('POST', `${path}/accounts/setup`, { key, body: { business_type: 'wallet' } });
  books = new pg.Client({ connectionString: cluster.databases.ledger.adminUrl });
  await books.connect();
  const { rows } = await books.query<{ tenant_id: string }>('select tenant_id from heads');
  tenantUuid = (rows[0] as { tenant_id: string }).tenant_id;
});

afterAll(async () => {
  caller.close();
  await books.end();
  await cluster.stop();
});

function deposit(idempotencyKey: string | undefined, amount = '1.00') {
  return {
    ...(idempotencyKey !== undefined && { idempotency_key: idempotencyKey }),
    entries: [
      { account_code: 'SETTLEMENT-NGN', amount, side: 'debit', currency: 'NGN' },
      { account_code: 'CUSTOMER-WALLETS-NGN', amount, side: 'credit', currency: 'NGN' },
    ],
  };
}

interface Entry {
  account_code: string;
  amount: string;
  side: string;
  currency: string;
}

/** Posts to whichever replica has fewer calls in flight, which of many at once are both: the gateway keeps to one of them for a tenant. */
async function postStraight({ idempotency_key: idempotencyKey, entries }: { idempotency_key?: string; entries: Entry[] }) {
  const lines = entries.map(({ account_code: accountCode, ...entry }) => ({ accountCode, ...entry }));
  const about = { tenantId: tenant.id, actor: 'test', requestId: 'test', idempotencyKey: idempotencyKey ?? '' };
  const posting = { ...about, entries: lines, timeoutMs: 45_000 };
  const posted = await ledgers.postTransaction({ posting }).catch((error: unknown) => refusalOf(error)?.reason ?? String(error));
  if (typeof posted === 'string') return { said: posted };
  return { said: posted.replayed ? 'replayed' : 'posted', id: posted.transaction?.transactionId };
}

/** The replica that the gateway sends the tenant's postings to. */
async function home(): Promise<string> {
  const posted = async (name: string) => {
    const text = await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text();
    return Number(/^ledger_postings_total\{.*outcome="posted".*\} (\d+)$/m.exec(text)?.[1] ?? 0);
  };
  const names = ['ledger', 'ledger-2'];
  const before = await Promise.all(names.map(posted));
  for (let turn = 0; turn < 5; turn++) await post(deposit(undefined));
  const after = await Promise.all(names.map(posted));
  const grown = after.map((count, place) => count - before[place]!);
  expect(grown.toSorted()).toEqual([0, 5]);
  return names[grown.indexOf(5)]!;
}

/** The same once it is one: a replica that has just come back gets them again when the gateway has found it. */
async function steadyHome(): Promise<string> {
  for (let name = ''; ; await pause(100)) {
    name = await home().catch(() => '');
    if (name !== '') return name;
  }
}

const post = (body: unknown) => cluster.rest('POST', `${path}/transactions/double-entry`, { key, body });

/** Eight clients that post one deposit after another until told to end; each repeats with the same key on 5xx and lost connections. */
function clients(prefix: string) {
  const answered = new Map<string, string>();
  let repeats = 0;
  let ended = false;
  const work = Promise.all(
    Array.from({ length: 8 }, async (_, client) => {
      for (let turn = 0; !ended; turn++) {
        const name = `${prefix}-${client}-${turn}`;
        for (;;) {
          const answer = await post(deposit(name)).catch(() => undefined);
          if (answer && answer.status < 300) {
            answered.set(name, answer.body.data.transaction.transaction_id as string);
            break;
          }
          if (answer && answer.status < 500) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
          repeats++;
          await pause(100);
        }
      }
    }),
  );
  return {
    answered,
    repeats: () => repeats,
    /** Resolves when so many postings have been answered from now on. */
    async progress(more: number) {
      const goal = answered.size + more;
      while (answered.size < goal) await Promise.race([pause(20), work]);
    },
    async end() {
      ended = true;
      await work;
      return answered;
    },
  };
}

/** Every answered posting is there, once, under the id that was answered; nothing else is; and the books balance. */
async function accountsFor(prefix: string, answered: Map<string, string>): Promise<void> {
  const { rows } = await books.query<{ idempotency_key: string; id: string }>(
    `select idempotency_key, id from transactions where tenant_id = $1 and idempotency_key like $2`,
    [tenantUuid, `${prefix}-%`],
  );
  expect(new Set(rows.map((row) => row.idempotency_key))).toEqual(new Set(answered.keys()));
  expect(rows).toHaveLength(answered.size);
  const sums = await books.query<{ difference: string; entries: string; versions: string }>(
    `select (select sum(debits - credits) from balances where tenant_id = $1)::text as difference,
       (select count(*) from entries where tenant_id = $1)::text as entries,
       (select sum(version) from balances where tenant_id = $1)::text as versions`,
    [tenantUuid],
  );
  expect(sums.rows[0]?.difference).toBe('0');
  expect(sums.rows[0]?.entries).toBe(sums.rows[0]?.versions);
  const gaps = await books.query(
    `select from (select sequence, lag(sequence, 1, 0::bigint) over (order by sequence) as before from log where tenant_id = $1) l
     where sequence <> before + 1`,
    [tenantUuid],
  );
  expect(gaps.rowCount).toBe(0);
}

test('one key sent at once to two replicas posts once, and everybody gets the same transaction', async () => {
  const straight = Array.from({ length: 30 }, () => postStraight(deposit('race')));
  const through = Array.from({ length: 10 }, () => post(deposit('race')));
  const answers = [
    ...(await Promise.all(straight)),
    ...(await Promise.all(through)).map(({ status, headers, body }) => {
      const replayed = status === 200 && headers.get('idempotent-replayed') === 'true';
      return {
        said: status === 201 ? 'posted' : replayed ? 'replayed' : String(status),
        id: body.data.transaction.transaction_id as string,
      };
    }),
  ];
  expect(answers.filter(({ said }) => said === 'posted')).toHaveLength(1);
  expect(answers.filter(({ said }) => said === 'replayed')).toHaveLength(39);
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
});

test('one key with different bodies at once posts one of them and refuses the others, on two replicas too', async () => {
  const answers = await Promise.all(Array.from({ length: 20 }, (_, turn) => post(deposit('clash', `${turn + 1}.00`))));
  expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1);
  expect(answers.filter((answer) => answer.status === 422 && answer.body.code === 'idempotency_key_reused')).toHaveLength(19);
  const straight = await Promise.all(Array.from({ length: 20 }, (_, turn) => postStraight(deposit('clash-2', `${turn + 1}.00`))));
  expect(straight.filter(({ said }) => said === 'posted')).toHaveLength(1);
  expect(straight.filter(({ said }) => said === 'idempotency_key_reused')).toHaveLength(19);
});

test('two hundred crossing postings over two replicas all post, and the sums are exact', async () => {
  const balance = async (code: string) =>
    Number((await cluster.rest('GET', `${path}/accounts/code/${code}/balance?currency=USD`, { key })).body.data.balance.balance);
  const transfer = (from: string, to: string) => ({
    idempotency_key: `crossing-${crypto.randomUUID()}`,
    entries: [
      { account_code: to, amount: '1.00', side: 'debit', currency: 'USD' },
      { account_code: from, amount: '1.00', side: 'credit', currency: 'USD' },
    ],
  });
  const [a, b] = ['SETTLEMENT-USD', 'OPERATING-CASH'] as const;
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, turn) => postStraight(turn % 4 === 0 ? transfer(a, b) : transfer(b, a))),
  );
  expect(answers.map(({ said }) => said).filter((said) => said !== 'posted')).toEqual([]);
  expect([await balance(a), await balance(b)]).toEqual([100, -100]);
});

test('a tenant’s postings all go to one replica, and to the other one when it is away', async () => {
  const first = await home();
  await cluster.kill(first);
  expect((await post(deposit(undefined))).status).toBe(201);
  await cluster.restart(first);
  // It has them again.
  for (let again = ''; again !== first; again = await home().catch(() => '')) await pause(100);
});

test('a ledger killed under load costs no posting and doubles none', async () => {
  const name = await steadyHome();
  const load = clients('kill');
  await load.progress(50);
  await cluster.kill(name);
  await load.progress(50);
  await cluster.restart(name);
  await load.progress(50);
  await accountsFor('kill', await load.end());
});

test('a ledger that stalls for ten seconds and wakes loses nothing and doubles nothing, beside a healthy one', async () => {
  const name = await steadyHome();
  const load = clients('stall');
  await load.progress(50);
  await cluster.kill(name, 'SIGSTOP');
  await load.progress(20);
  await pause(10_000);
  await cluster.kill(name, 'SIGCONT');
  await load.progress(100);
  await accountsFor('stall', await load.end());
});

test('a gateway killed under load leaves each posting posted once', async () => {
  const load = clients('gateway');
  await load.progress(50);
  await cluster.kill('gateway');
  await cluster.restart('gateway');
  await load.progress(50);
  expect(load.repeats()).toBeGreaterThan(0);
  await accountsFor('gateway', await load.end());
});

test('PostgreSQL cutting every connection under load costs no posting and doubles none', async () => {
  const load = clients('cut');
  await load.progress(50);
  for (let turn = 0; turn < 5; turn++) {
    await books.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name like 'ledger%'`,
    );
    await load.progress(20);
  }
  await accountsFor('cut', await load.end());
});

test('with identity away a key that was not verified a moment ago is told to wait, and works when identity is back', async () => {
  await cluster.kill('identity');
  const status = async () => (await cluster.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key })).status;
  for (let seen = await status(); seen !== 503; seen = await status()) {
    expect(seen).toBe(200);
    await pause(100);
  }
  const answer = await cluster.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key });
  expect([answer.status, answer.body.code, Number(answer.headers.get('retry-after')) > 0]).toEqual([503, 'unavailable', true]);
  await cluster.restart('identity');
  for (let seen = await status(); seen !== 200; seen = await status()) await pause(100);
});

test('a revoked key stops within five seconds', async () => {
  const owner = await cluster.signUp();
  const tenant = await cluster.tenant({ person: owner });
  const revoked = await cluster.apiKey(tenant);
  const read = () => cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts`, { key: revoked });
  expect((await read()).status).toBe(200);
  const listed = await cluster.rest('GET', `/v1/tenants/${tenant.id}/api-keys`, { key: owner.token });
  const id = listed.body.data.api_keys[0].id as string;
  expect((await cluster.rest('DELETE', `/v1/tenants/${tenant.id}/api-keys/${id}`, { key: owner.token })).status).toBe(200);
  const since = performance.now();
  for (let status = 200; status !== 401; await pause(50)) {
    const asked = performance.now();
    ({ status } = await read());
    // Of what was asked for, not of what a busy machine answers: as long as it is taken.
    if (status === 200) expect(asked - since).toBeLessThan(5_000);
  }
});
