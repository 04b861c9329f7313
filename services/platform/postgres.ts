// PostgreSQL pools, pipelined statements, and transactions that see the rows of the tenants they name.
import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import pg from 'pg';
import type { Registry } from 'prom-client';
import { plainArray } from './arrays.ts';
import { measurePool } from './pool-metrics.ts';
import { isStaleConnection, retryStaleConnection } from './postgres-errors.ts';
import type { Logger } from './telemetry.ts';

// As a number int8 would lose digits beyond 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, (text) => BigInt(text));

export type Client = pg.PoolClient;

/** Where a transaction gets its connection from: a pool, or one tenant's share of it. */
export interface Connections {
  connect(): Promise<Client>;
  /** Setting that is on in each transaction, which lets it see rows of all tenants. */
  flag?: string;
}

export type Pool = pg.Pool & Connections;

/** What a pool needs in addition to its URL. */
export interface PoolOptions {
  /** Connections at most. */
  max: number;
  name: string;
  logger: Logger;
  /** Where its gauges go; none in tests and commands. */
  metrics?: Registry;
  /** Extra settings of each connection. */
  settings?: Record<string, string>;
  /** As of {@link Connections}: set in each transaction, so that a pooler gives it to no other connection. */
  flag?: 'app.relay' | 'app.due';
  /** For reads only: the server may be a standby. */
  mayBeStandby?: boolean;
  /** Milliseconds after which a connection with an unanswered statement is closed. */
  queryTimeoutMs?: number;
}

/** Milliseconds after which a connection with an unanswered statement is closed. TCP would notice a lost peer after 15 minutes. */
export const queryTimeoutMs = 15_000;

/** Milliseconds without traffic after which TCP probes whether the server is there. */
export const keepAliveMs = 10_000;

/**
 * The settings of every connection. A commit waits for the disk, and a stalled process loses its locks: after 10 s in a statement or an unread
 * answer, after 3 s in an idle transaction.
 */
export function connectionSettings(more: Record<string, string> = {}): Record<string, string> {
  return {
    synchronous_commit: 'on',
    statement_timeout: '10s',
    idle_in_transaction_session_timeout: '3s',
    lock_timeout: '2s',
    tcp_user_timeout: '10s',
    search_path: 'public',
    // The pool closes idle connections.
    idle_session_timeout: '0',
    // Repeatable read would not see what another transaction committed while this one waited for its lock.
    default_transaction_isolation: 'read committed',
    ...more,
  };
}

/** The settings as the server takes them at a connection's start; they win over those of the database and the role. */
export function connectionOptions(settings: Record<string, string>): string {
  return Object.entries(settings)
    .map(([key, value]) => `-c ${key}=${value.replaceAll(' ', '\\ ')}`)
    .join(' ');
}

/** A pool whose connections pipeline: statements that are sent without awaiting each other share one round trip. Settings: {@link connectionSettings}. */
export function openPool(url: string, options: PoolOptions): Pool {
  const settings = connectionSettings(options.settings);
  const pool = new pg.Pool({
    connectionString: url,
    max: options.max,
    application_name: options.name,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMs,
    pipeline: true,
    // With `pipeline` it closes the connection, and every other statement on it fails.
    query_timeout: options.queryTimeoutMs ?? queryTimeoutMs,
    connectionTimeoutMillis: 5000,
    idleTimeoutMillis: 60_000,
    verify: connectionCheck(settings, options.mayBeStandby),
    options: connectionOptions(settings),
  });
  // Without listeners a broken connection would end the process.
  pool.on('error', (error: Error & { client?: unknown }) => {
    // It holds the key that cancels the session's statements.
    delete error.client;
    options.logger.warn({ err: error }, 'idle connection lost');
  });
  if (options.metrics) measurePool(options.metrics, options.name, pool);
  pool.on('connect', (client) => client.on('error', (error) => options.logger.debug({ err: error }, 'connection lost')));
  return Object.assign(pool, options.flag !== undefined && { flag: options.flag });
}

/**
 * A check of a new connection. It throws transient errors: for a standby, as an address may lead to one during a failover, and where a pooler has
 * dropped these settings and the role does not have them.
 */
export function connectionCheck(
  settings: Record<string, string>,
  mayBeStandby = false,
): (client: pg.ClientBase, done: (error?: Error) => void) => void {
  return (client, done) => {
    stateOf(client, settings).then(({ isStandby, lost }) => {
      if (isStandby && !mayBeStandby) done(Object.assign(new Error('the server is a standby'), { code: '25006' }));
      else done(lost === null ? undefined : Object.assign(new Error(lost), { code: '08P01' }));
    }, done);
  };
}

/** Whether a connection leads to a standby, and which of its settings a pooler has dropped, as a message; null: none. */
export async function stateOf(
  client: Pick<pg.ClientBase, 'query'>,
  settings: Record<string, string>,
): Promise<{ isStandby: boolean; lost: string | null }> {
  // `set_config` returns a value as `current_setting` shows it, whatever its unit, and holds for this statement only.
  const { rows } = await client.query<{ isStandby: boolean; lost: string[] }>(
    `with now as materialized (
        select name, value, current_setting(name, true) as current from unnest($1::text[], $2::text[]) as wanted (name, value))
      select pg_is_in_recovery() as "isStandby",
        array(select name from now where current is distinct from set_config(name, value, true)) as lost`,
    [Object.keys(settings), Object.values(settings)],
  );
  const { isStandby, lost } = rows[0] as (typeof rows)[number];
  // With a setting of `app.`, which opens the rows of all tenants, the role's other connections would see them too.
  const more = lost.some((name) => name.startsWith('app.')) ? '' : ', or set them for the role';
  const message = `the connection has lost ${lost.join(', ')}: connect to PostgreSQL itself${more}`;
  return { isStandby, lost: lost.length > 0 ? message : null };
}

/**
 * Repairs a pool that Kysely uses, which returns a connection only after a commit or rollback that succeeded, and keeps all that are open: broken
 * connections return at once, and stale ones are closed when they return.
 */
export function repairKyselyPool(pool: Pool): void {
  const used = new Set<Client>();
  pool.on('acquire', (client) => used.add(client));
  pool.on('release', (_, client) => used.delete(client));
  const release = (client: Client) => {
    if (!used.has(client)) return;
    client.release(true);
    // Outside of transactions Kysely releases it as well, and a second release would throw.
    client.release = () => undefined;
  };
  pool.on('connect', (client) => {
    // Not before the statement's caller, who may release it.
    client.once('end', () => setImmediate(release, client));
    connectionOf(client).on('errorMessage', (error: unknown) => {
      if (!isStaleConnection(error)) return;
      const giveBack = client.release.bind(client);
      client.release = () => giveBack(true);
    });
  });
}

/** Sends the statements that `send` issues without awaiting them as one packet, and returns what it returns. */
export function sendTogether<Sent>(client: Client, send: () => Sent): Sent {
  const { stream } = connectionOf(client);
  stream.cork();
  try {
    return send();
  } finally {
    stream.uncork();
  }
}

/**
 * Waits for all answers of statements that were sent together, then throws the error that came first in the transaction. `Promise.all` could throw
 * "transaction is aborted" (25P02) of a later one.
 */
export async function allSettledOrThrow<const Queries extends readonly Promise<unknown>[]>(
  queries: Queries,
): Promise<{ -readonly [Index in keyof Queries]: Awaited<Queries[Index]> }> {
  const answers = await Promise.allSettled(queries);
  const errors = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as { code?: unknown }] : []));
  if (errors.length > 0) throw (errors.find(({ code }) => code !== '25P02') ?? errors[0]) as Error;
  return answers.map((answer) => (answer as PromiseFulfilledResult<unknown>).value) as {
    -readonly [Index in keyof Queries]: Awaited<Queries[Index]>;
  };
}

/** Closes a connection at once; statements in flight on it fail. */
export function destroyConnection(client: Client): void {
  connectionOf(client).stream.destroy();
}

function connectionOf(client: Client): EventEmitter & { stream: Socket } {
  return (client as unknown as { connection: EventEmitter & { stream: Socket } }).connection;
}

/** SQL for a time as milliseconds since the Unix epoch, float8. */
export const epochMs = (time: string): string => `floor(extract(epoch from ${time}) * 1000)::float8`;

/** A statement with its values, as `pg` takes it. */
export interface Statement {
  /** If given, the statement is prepared once per connection. */
  name?: string;
  text: string;
  values: unknown[];
}

/**
 * Runs statements in a read-only transaction that sees one tenant's rows (UUID), in one round trip. Throws PostgreSQL's error and closes the
 * connection; where only a prepared statement was stale, runs them again on another one.
 */
export function readTenant<Rows extends pg.QueryResultRow[][]>(
  pool: Connections,
  tenant: string,
  ...statements: Statement[]
): Promise<Rows> {
  return retryStaleConnection(async () => {
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
  });
}

/**
 * Runs one statement in a transaction with the pool's flag, in one round trip. Throws PostgreSQL's error and closes the connection; where only a
 * prepared statement was stale, runs it again on another one.
 */
export function queryFlagged<Row extends pg.QueryResultRow>(pool: Connections, statement: Statement): Promise<pg.QueryResult<Row>> {
  return retryStaleConnection(async () => {
    const [, answer] = await withClient(pool, (client) =>
      Promise.all(
        sendTogether(client, () => [client.query(flagged(pool, 'begin')), client.query<Row>(statement), client.query('commit')] as const),
      ),
    );
    return answer;
  });
}

function flagged({ flag }: Connections, begin: string): string {
  return flag === undefined ? begin : `${begin}; set local ${flag} = on`;
}

/** Runs `work` on a connection. If it throws, the connection is closed, because statements in flight leave it in an unknown state. */
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
 * Runs `work` in a transaction that sees the given tenants' rows (UUIDs); commits its result, or rolls back and throws its error. After a stale
 * connection it runs again on another, so it must change nothing but the database.
 */
export function inTransaction<Result>(pool: Connections, tenants: string[], work: (client: Client) => Promise<Result>): Promise<Result> {
  return transact(pool, 'begin', tenants, work);
}

/** The same, read-only: all that `work` reads is of one moment. */
export function inSnapshot<Result>(pool: Connections, tenants: string[], work: (client: Client) => Promise<Result>): Promise<Result> {
  return transact(pool, 'begin isolation level repeatable read read only', tenants, work);
}

function transact<Result>(pool: Connections, begin: string, tenants: string[], work: (client: Client) => Promise<Result>): Promise<Result> {
  return retryStaleConnection(async () => {
    const client = await pool.connect();
    let isBroken = false;
    try {
      await Promise.all([client.query(flagged(pool, begin)), client.query(setTenants(tenants))]);
      const result = await work(client);
      await client.query('commit');
      return result;
    } catch (error) {
      isBroken = isStaleConnection(error);
      await client.query('rollback').catch(() => {
        isBroken = true;
      });
      throw error;
    } finally {
      client.release(isBroken);
    }
  });
}

/** The statement that lets the rest of a transaction see the rows of these tenants (UUIDs) and no others. */
export function setTenants(tenants: string[]): Statement {
  return {
    name: 'set_tenants',
    text: `select set_config('app.tenant', $1, true), set_config('app.tenants', $2, true)`,
    values: tenants.length === 1 ? [tenants[0], ''] : ['', plainArray(tenants)],
  };
}

/** The row-level security of a table, as statements of a migration: its rows belong to the tenants of the transaction. */
export function tenantPolicy(table: string): string[] {
  // Sub-selects are evaluated once per statement, not per row. `is true` and `in (unnest)` are no index conditions, so the planner keeps using
  // the key's index. nullif: after a transaction its local setting is an empty text, not null.
  const own = `((tenant_id = (select nullif(current_setting('app.tenant', true), '')::uuid)) is true
    or tenant_id in (select unnest(nullif(current_setting('app.tenants', true), '')::uuid[])))`;
  return [
    `alter table ${table} enable row level security`,
    `alter table ${table} force row level security`,
    `create policy tenant on ${table} using (${own}) with check (${own})`,
  ];
}
