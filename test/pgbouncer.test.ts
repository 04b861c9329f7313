// Identity, ledger and notifier behind a real PgBouncer in transaction mode, where they share few connections.
import { jest } from '@jest/globals';
import pg from 'pg';
import { withClient } from '../deploy/local/databases.ts';
import { openPool } from '../services/platform/postgres.ts';
import { openLog } from '../services/platform/telemetry.ts';
import { openOperator } from '../services/ledger/audit/operator.ts';
import { verify } from '../services/ledger/audit/verify.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { deposit, newWallet } from './customer.ts';
import { startReceiver } from './notifier.ts';
import { startOwnPostgres, type OwnPostgres } from './own-postgres.ts';
import { hasPgBouncer, startPgBouncer, type PgBouncer } from './pgbouncer.ts';
import { until } from './polling.ts';
import { text } from './sources.ts';

jest.setTimeout(180_000);

const poolSize = 6;
const logger = openLog('test', 'silent');
const [everyRole, plans, costs] = [...text('gateway/docs/operate/pgbouncer.md').matchAll(/```sql\n([^`]*)```/g)].map(
  (match) => match[1] ?? '',
);

/** What a service logs at its start where the role lacks its settings, or a pool needs what only a start can set. */
const refusalOf = async (url: string, settings: Record<string, string> = {}) => {
  const pool = openPool(url, { name: 'test', max: 1, logger, settings });
  const refusal: unknown = await pool.query('select 1').catch((error: unknown) => error);
  await pool.end();
  return (refusal as Error).message;
};

let server: OwnPostgres;
let bouncer: PgBouncer;
let cluster: Cluster;

(hasPgBouncer ? describe : describe.skip)('through PgBouncer in transaction mode', () => {
  beforeAll(async () => {
    server = await startOwnPostgres();
    cluster = await startCluster({
      server,
      replicas: { ledger: 2 },
      between: async ({ databases }) => {
        const urls = [databases.identity, databases.ledger, databases.notifier].map(({ serviceUrl }) => serviceUrl);
        bouncer = await startPgBouncer(urls, poolSize);
        // Its first connections do not have the settings of the roles yet.
        expect(await refusalOf(bouncer.through(urls[1]!))).toMatch(/^the connection has lost statement_timeout, .*, or set them/);
        for (const url of urls) await withClient(url, (client) => client.query(everyRole!));
        for (const url of urls.slice(1)) await withClient(url, (client) => client.query(plans!));
        await withClient(urls[1]!, (client) => client.query(costs!));
        await withClient(server.adminUrl, (client) => client.query(endSessions));
        const of = (service: 'identity' | 'ledger' | 'notifier') => ({ DATABASE_URL: bouncer.through(databases[service].serviceUrl) });
        return {
          identity: of('identity'),
          ledger: of('ledger'),
          'ledger-2': of('ledger'),
          notifier: { ...of('notifier'), WEBHOOK_RETRY_DELAYS: '0,0' },
        };
      },
    });
  });

  afterAll(async () => {
    await (cluster as Cluster | undefined)?.stop();
    await (bouncer as PgBouncer | undefined)?.stop();
    await server.end();
  });

  test('postings, holds and deliveries of several tenants share few connections, also where PostgreSQL ends these', async () => {
    const receiver = await startReceiver();
    const customers = await Promise.all(Array.from({ length: 4 }, () => newWallet(cluster)));
    for (const { post } of customers)
      expect((await post('webhooks', { url: receiver.url, events: ['transaction.posted'] })).status).toBe(201);
    const send = async (customer: (typeof customers)[number], key: string): Promise<string> => {
      for (;;) {
        const { status, body } = await customer.post('transactions/double-entry', deposit('1.00', { idempotency_key: key }));
        if (status < 300) return body.data.transaction.transaction_id;
        if (status !== 503) throw new Error(`${status} ${JSON.stringify(body)}`);
      }
    };
    const each = 60;
    const load = Promise.all(
      customers.map(async (customer) => {
        const keys = Array.from({ length: each }, (_, index) => `key-${index}`);
        const first = await Promise.all(keys.map((key) => send(customer, key)));
        expect(await Promise.all(keys.map((key) => send(customer, key)))).toEqual(first);
      }),
    );
    await withClient(server.adminUrl, (client) => client.query(endSessions));
    await load;
    const hold = await customers[0]!.post('holds', { ...deposit('1.00'), expires_in: 1 });
    expect(hold.status).toBe(201);
    const { hold_id: id } = hold.body.data.hold;
    await until(
      () => customers[0]!.get(`holds/${id}`),
      (data) => data?.hold.status === 'expired',
    );
    for (const customer of customers) {
      const { balance } = await customer.get('accounts/code/CUSTOMER-WALLETS-USD/balance?currency=USD');
      expect(balance.balance).toBe(`${each}.00`);
    }
    await until(
      () => Promise.resolve(new Set(receiver.received.map(({ headers }) => headers['x-webhook-id'])).size),
      (events) => events === customers.length * each,
    );
    await receiver.close();
    const { rows } = await withClient(server.adminUrl, (client) => client.query<{ role: string; count: number }>(sessions));
    for (const { role, count } of rows) expect([role, count <= poolSize]).toEqual([role, true]);
    const operator = await openOperator(cluster.databases.ledger.ownerUrl);
    const lines: string[] = [];
    expect((await verify(operator, {}, (line) => lines.push(line))).findings).toBe(0);
    await operator.end();
  });

  test('no connection keeps what a loop over all tenants may see', async () => {
    const url = bouncer.through(cluster.databases.ledger.serviceUrl);
    const clients = Array.from({ length: poolSize }, () => new pg.Client({ connectionString: url }));
    await cluster.kill('ledger', 'SIGTERM');
    await cluster.kill('ledger-2', 'SIGTERM');
    try {
      for (const client of clients) {
        await client.connect();
        // The transaction keeps its connection, so that each client gets another one.
        await client.query('begin');
        expect((await client.query('select from relay_marks')).rowCount).toBe(0);
        expect((await client.query('select from heads')).rowCount).toBe(0);
      }
    } finally {
      await Promise.all(clients.map((client) => client.end()));
      await cluster.restart('ledger');
    }
  });

  test('the auditor does not start, because its loops need settings of their own connections', async () => {
    const url = bouncer.through(cluster.databases.ledger.serviceUrl);
    expect(await refusalOf(url, { 'app.indexer': 'on' })).toBe('the connection has lost app.indexer: connect to PostgreSQL itself');
  });
});

const endSessions = `select pg_terminate_backend(pid) from pg_stat_activity where usename like '%\\_service'`;
const sessions = `select usename as role, count(*)::int as count from pg_stat_activity where usename like '%\\_service' group by 1`;
