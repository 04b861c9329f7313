// What every service knows about PostgreSQL: pools, and transactions that see the rows of the tenants they name.
import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import pg from 'pg';
import { plainArray } from './arrays.ts';
import { isStaleConnection, retryStaleConnection } from './stale-connection.ts';
import { isServerError } from './postgres-errors.ts';
import type { Logger } from './telemetry.ts';

// int8 beyond 2^53 would lose digits as a number, and as a string somebody would parse it as one.
pg.types.setTypeParser(pg.types.builtins.INT8, (text) => BigInt(text));

export type Pool = pg.Pool;
export type Client = pg.PoolClient;

/** Where a transaction gets its connection from: a pool, or what a tenant's call may have of one. */
export interface Connections {
  connect(): Promise<Client>;
}

/** What a pool needs beyond its address. */
export interface PoolOptions {
  /** Connections at most. */
  max: number;
  name: string;
  logger: Logger;
  /** Extra `-c` settings of each connection. */
  settings?: Record<string, string>;
  /** Milliseconds after which an unanswered statement's connection is given up. */
  queryTimeoutMs?: number;
}

/**
 * Milliseconds after which an unanswered statement's connection is given up: the server itself would have given the statement up before. A
 * connection that was forgotten on the way (by a firewall, by a machine that lost power) is never answered and never closed, and TCP notices
 * after a quarter of an hour; what hung on it hung as long, and held its claims meanwhile.
 */
export const patienceMs = 15_000;

/** An idle connection whose other side is gone is noticed after so many milliseconds and ten seconds of probes, not after two hours. */
export const keepAliveMs = 10_000;

/** A setting of each connection that tells whether its settings have come to the server. */
const marker = 'app.settings';

/**
 * The settings of every connection of a service, as the server takes them: each gives up on a statement after 10 s and on an idle open transaction
 * after 3 s, and on a client that takes no more of an answer after 10 s, so that a stalled process loses its locks; and a commit waits for the disk, and values read as they were written, whatever the database
 * or the role says.
 */
export function connectionOptions(more: Record<string, string> = {}): string {
  const settings = {
    [marker]: 'on',
    synchronous_commit: 'on',
    statement_timeout: '10s',
    idle_in_transaction_session_timeout: '3s',
    lock_timeout: '2s',
    // Which ones are idle is the pool's business: with a limit of a second logins and reads failed now and then.
    idle_session_timeout: '0',
    // The others see nothing while an answer is being written: a ledger that was cut off then held a tenant's head until TCP gave up, after minutes.
    tcp_user_timeout: '10s',
    // What a database or a role may say otherwise, and texts and statements here take for granted. (With fewer digits a time of the log was wrong by
    // hours, which nothing mends; without nulls in arrays nothing of a delivery could be recorded.)
    extra_float_digits: '1',
    array_nulls: 'on',
    row_security: 'on',
    search_path: 'public',
    // In another style the client reads each time as null.
    datestyle: 'ISO',
    // What was committed while a lock was waited for is seen.
    default_transaction_isolation: 'read\\ committed',
    ...more,
  };
  return Object.entries(settings)
    .map(([key, value]) => `-c ${key}=${value}`)
    .join(' ');
}

/** Has no transaction of a connection end by its length, which {@link connectionOptions} can't say: PostgreSQL 15 and 16 know no such setting. */
export const noTransactionTimeout = `select set_config('transaction_timeout', '0', false) where current_setting('transaction_timeout', true) is not null`;

/**
 * A pool whose connections pipeline: statements sent without awaiting each other travel in one round trip. Each has the
 * {@link connectionOptions}, and is given up when a statement is not answered.
 */
export function openPool(url: string, options: PoolOptions): Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: options.max,
    application_name: options.name,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMs,
    pipeline: true,
    // With `pipeline` it closes the connection, which fails whatever else was sent on it.
    query_timeout: options.queryTimeoutMs ?? patienceMs,
    connectionTimeoutMillis: 5000,
    idleTimeoutMillis: 60_000,
    verify: assertWritablePrimary,
    options: connectionOptions(options.settings),
  });
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
  pool.on('error', (error: Error & { client?: unknown }) => {
    // 8 kB of the driver's, among them what cancels a session's statements.
    delete error.client;
    options.logger.warn({ err: error }, 'idle connection lost');
  });
  // The same for one that breaks while it is in use: its statements fail, and their callers are told.
  pool.on('connect', (client) => client.on('error', (error) => options.logger.debug({ err: error }, 'connection lost')));
  evictIdle(pool);
  detectFailover(pool, options.logger);
  return pool;
}

// By `host:port`: the server that a connection led to last, which was this process's how-manieth, and its connections to it.
const servers = new Map<string, { startedAt: string; since: number; clients: Set<Client> }>();
let connections = 0;

/**
 * Gives up all connections of this process to a server once a new one shows that its address leads to another: after a failover the server that was
 * first before may go on answering those that are open, for hours, with balances and keys that are long changed, and take postings that the other one
 * will never have. Whoever has something under way there is told as of any connection that breaks.
 */
export function detectFailover(pool: Pool, logger: Logger): void {
  pool.on('connect', (client) => {
    const number = ++connections;
    // Each server has its own, also one that was copied from the other. A standby takes nobody's place.
    const text = 'select extract(epoch from pg_postmaster_start_time())::text as at where not pg_is_in_recovery()';
    client.query<{ at: string }>(text).then(
      ({ rows }) => rows[0] && noteServer(client, number, rows[0].at, logger),
      // Whoever wanted the connection is told.
      () => undefined,
    );
  });
}

function noteServer(client: Client, number: number, startedAt: string, logger: Logger): void {
  const { host, port } = client as Client & { host: string; port: number };
  const address = `${host}:${port}`;
  let server = servers.get(address);
  if (server?.startedAt !== startedAt) {
    // Its answer has come late: it is one of those to the server before.
    if (server && number < server.since) {
      destroyConnection(client);
      return;
    }
    if (server && server.clients.size > 0) {
      logger.warn({ connections: server.clients.size }, 'the address leads to another server: connections to the one before are given up');
      for (const each of server.clients) destroyConnection(each);
    }
    server = { startedAt, since: number, clients: new Set() };
    servers.set(address, server);
  }
  const { clients } = server;
  clients.add(client);
  client.once('end', () => clients.delete(client));
}

/** What a connection must say of itself: `settings` and `triggers` of {@link connectionProblem}. */
export const connectionChecks = `current_setting('${marker}', true) as settings, current_setting('session_replication_role') as triggers`;

/** Why nothing may be done over a connection, in words; undefined: it may be. */
export function connectionProblem({ settings, triggers }: { settings: string | null; triggers: string }): string | undefined {
  // No statement would have an end, a commit might not wait for the disk, and a relay would find nothing to do. PgBouncer loses them with
  // `ignore_startup_parameters = options`, and `options` in the address take their place.
  if (settings !== 'on') return 'the settings of a connection are lost: it must lead to PostgreSQL itself, and have no options';
  // A tool that moved the database may have left it behind; only a superuser's connection could say otherwise.
  if (triggers === 'replica')
    return 'session_replication_role is replica, by the role, the database or the server: no trigger and no foreign key would hold';
  return undefined;
}

/**
 * Refuses a new connection that leads to a standby or to a pooler: while the servers change places an address may lead to the one that was first before,
 * what is read there is old, and a connection lasts. And has its transactions end by no limit of a database or a role.
 */
export function assertWritablePrimary(client: Client, done: (error?: Error) => void): void {
  client
    .query<{ standby: boolean; settings: string | null; triggers: string }>(
      `select pg_is_in_recovery() as standby, ${connectionChecks}, (${noTransactionTimeout})`,
    )
    .then(({ rows }) => {
      const about = rows[0] as (typeof rows)[number];
      const fault = connectionProblem(about);
      if (about.standby) done(Object.assign(new Error('the server is a standby'), { code: '25006' }));
      else done(fault === undefined ? undefined : Object.assign(new Error(fault), { code: '08P01' }));
    }, done);
}

/**
 * Gives up the idle connections with one that was lost without a word of the server: what took it has mostly taken them, and each would be
 * found out by a patience of its own (a ledger whose connections were forgotten was of no use for half a minute).
 */
function evictIdle(pool: Pool): void {
  const idle = new Set<Client>();
  pool.on('acquire', (client) => idle.delete(client));
  pool.on('remove', (client) => idle.delete(client));
  pool.on('release', (error: unknown, client) => {
    if (!error) {
      idle.add(client);
      return;
    }
    // Who gives a connection up for a statement that the server refused, or for a server that is a standby, still has one that stands.
    if (isServerError(error) || isStaleConnection(error) || (error === true && !streamOf(client).destroyed)) return;
    for (const each of [...idle]) {
      // As the pool is told of any idle connection that breaks: it hands it to nobody from now on.
      each.emit('error', new Error('given up with another connection'));
      destroyConnection(each);
    }
  });
}

/**
 * Frees the place of a connection that breaks in one of Kysely's pools: it gives that of a transaction back only after a commit or rollback that
 * succeeded. One that broke in between, or at `begin`, would keep its place for good: after as many as the pool has places nothing would be answered
 * any more, and the pool could not be closed.
 */
export function releaseBroken(pool: Pool): void {
  const lent = new Set<Client>();
  pool.on('acquire', (client) => lent.add(client));
  pool.on('release', (_, client) => lent.delete(client));
  const release = (client: Client) => {
    if (!lent.has(client)) return;
    client.release(true);
    // Outside of transactions Kysely does it all the same, and a second time would throw.
    client.release = () => undefined;
  };
  // First whoever asked something over it is told, and may give it back himself: who verifies a connection that nobody waits for any more has the
  // pool's own function, and a second call of that ended the process.
  pool.on('connect', (client) => client.once('end', () => setImmediate(release, client)));
}

/**
 * Closes a connection of one of Kysely's pools that is outdated, once it is given back: Kysely keeps all that stand. While a database says
 * `default_transaction_read_only` new connections learn it and keep it: a third of identity's writes were refused until it was started again.
 */
export function closeStale(pool: Pool): void {
  pool.on('connect', (client) => {
    connectionOf(client).on('errorMessage', (error: unknown) => {
      if (!isStaleConnection(error)) return;
      const release = client.release.bind(client);
      client.release = () => release(true);
    });
  });
}

/**
 * Sends several statements as one packet: each `client.query` alone is a system call here and a wake-up there. `send` only calls `query`; its
 * promises are awaited by the caller.
 */
export function sendTogether<Sent>(client: Client, send: () => Sent): Sent {
  const stream = streamOf(client);
  stream.cork();
  try {
    return send();
  } finally {
    stream.uncork();
  }
}

/**
 * Waits for every answer of statements that were sent together, then throws the error that began it: those behind it only say that their
 * transaction is aborted, and may say so first (`Promise.all` would throw whatever comes first).
 */
export async function allSettledOrThrow<const Queries extends readonly Promise<unknown>[]>(
  queries: Queries,
): Promise<{ -readonly [Place in keyof Queries]: Awaited<Queries[Place]> }> {
  const answers = await Promise.allSettled(queries);
  const errors = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as { code?: unknown }] : []));
  if (errors.length > 0) throw (errors.find(({ code }) => code !== '25P02') ?? errors[0]) as Error;
  return answers.map((answer) => (answer as PromiseFulfilledResult<unknown>).value) as {
    -readonly [Place in keyof Queries]: Awaited<Queries[Place]>;
  };
}

/** Closes a connection, as one that breaks: whatever was asked over it fails. */
export function destroyConnection(client: Client): void {
  streamOf(client).destroy();
}

function streamOf(client: Client): Socket {
  return connectionOf(client).stream;
}

function connectionOf(client: Client): EventEmitter & { stream: Socket } {
  return (client as unknown as { connection: EventEmitter & { stream: Socket } }).connection;
}

/** Milliseconds since the Unix epoch of an expression of times, in SQL, as float8. */
export const epochMs = (time: string): string => `floor(extract(epoch from ${time}) * 1000)::float8`;

/** A statement with its values, as `pg` takes it. */
export interface Statement {
  /** Given, the statement is prepared once a connection. */
  name?: string;
  text: string;
  values: unknown[];
}

/**
 * Runs statements in a read-only transaction that sees one tenant's rows, all in one round trip. Throws what PostgreSQL answers; the
 * connection is then closed, not reused. Where it was only outdated, they are run again on another.
 */
export function readTenant<Rows extends pg.QueryResultRow[][]>(
  pool: Connections,
  tenant: string,
  ...statements: Statement[]
): Promise<Rows> {
  return retryStaleConnection(() => readOnce<Rows>(pool, tenant, statements));
}

async function readOnce<Rows extends pg.QueryResultRow[][]>(pool: Connections, tenant: string, statements: Statement[]): Promise<Rows> {
  const answers = await withClient(pool, (client) =>
    Promise.all(
      sendTogether(client, () => [
        client.query('begin isolation level repeatable read read only'),
        client.query(setTenants([tenant])),
        ...statements.map((statement) => client.query(statement)),
        client.query('commit'),
      ]),
    ),
  );
  return answers.slice(2, -1).map((answer) => answer.rows as unknown[]) as Rows;
}

/**
 * Runs `work`, whose statements, begin and commit included, travel together: sent without awaiting each other they make one round trip. Where it throws,
 * a commit that was sent behind what failed has rolled back; the connection is then closed, whatever its state.
 */
export async function withClient<Result>(pool: Connections, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = await pool.connect();
  try {
    const result = await work(client);
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/**
 * Runs `work` in a transaction that sees the given tenants' rows (UUIDs); commits its result or rolls back what it threw. `set_config` is
 * local to the transaction, so the next user of a pooled connection sees nothing of it. Where a connection was outdated, `work` is begun again
 * on another: it changes nothing but the database.
 */
export function inTransaction<Result>(pool: Connections, tenants: string[], work: (client: Client) => Promise<Result>): Promise<Result> {
  return retryStaleConnection(() => transactOnce(pool, tenants, work));
}

async function transactOnce<Result>(pool: Connections, tenants: string[], work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = await pool.connect();
  let broken = false;
  try {
    await Promise.all([client.query('begin'), client.query(setTenants(tenants))]);
    const result = await work(client);
    await client.query('commit');
    return result;
  } catch (error) {
    broken = isStaleConnection(error);
    await client.query('rollback').catch(() => {
      broken = true;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

/** The statement that lets the rest of a transaction see the rows of these tenants (UUIDs), and of no others. */
export function setTenants(tenants: string[]): Statement {
  return {
    name: 'set_tenants',
    text: `select set_config('app.tenant', $1, true), set_config('app.tenants', $2, true)`,
    values: tenants.length === 1 ? [tenants[0], ''] : ['', plainArray(tenants)],
  };
}

/** The policy that ties a table's rows to the tenants of the transaction, as statements of a migration. */
export function tenantPolicy(table: string): string[] {
  // Each sub-select is evaluated once a statement: without it the text is parsed again for each row (100 tenants: 630 postings/s, with it
  // 4,200). One tenant is compared, several are looked up in a hash: `= any (array)` walks the array for each row (28 µs a balance with 32
  // tenants; so, 9). nullif: a setting that was local to an earlier transaction of the session is left as an empty text, not as null.
  // Neither half can be an index condition: as one, the unknown array made every index look ten times as dear, and the planner took the
  // smallest one instead of the one with the whole key (50 ms for 64 keys; so, 0.2 ms).
  const own = `((tenant_id = (select nullif(current_setting('app.tenant', true), '')::uuid)) is true
    or tenant_id in (select unnest(nullif(current_setting('app.tenants', true), '')::uuid[])))`;
  return [
    `alter table ${table} enable row level security`,
    `alter table ${table} force row level security`,
    `create policy tenant on ${table} using (${own}) with check (${own})`,
  ];
}
