// MikroORM as this service uses it: entity managers that see the rows they ask for and no others.
import { MikroORM, PostgreSqlConnection, PostgreSqlDriver, isRaw, type EntityManager } from '@mikro-orm/postgresql';
import { CompiledQuery, type Kysely } from 'kysely';
import { connectionOptions, keepAliveMs, assertWritablePrimary, queryTimeoutMs, repairKyselyPool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { entities } from './entities.ts';

// MikroORM writes values into the text of its statements, and PostgreSQL logs the text of each that fails: two registrations at once left the hash of
// a password in its log. Here they are parameters, as everywhere else.
class BindingConnection extends PostgreSqlConnection {
  override async execute<Result>(
    ...[query, params = [], method = 'all', transaction]: Parameters<PostgreSqlConnection['execute']>
  ): Promise<Result> {
    await this.ensureConnection();
    const { sql, params: given } = typeof query === 'string' ? { sql: query, params } : isRaw(query) ? query : query.toRaw();
    const values: unknown[] = [];
    const text = this.bind(sql, given as readonly unknown[], values);
    const client = (transaction ?? this.getClient()) as Kysely<unknown>;
    const work = async () => this.transformRawResult<Result>(await client.executeQuery(CompiledQuery.raw(text, values)), method);
    return this.executeQuery(text, work);
  }

  // `?` stands for a value, `??` for a name, `\?` for itself.
  private bind(sql: string, params: readonly unknown[], values: unknown[]): string {
    let next = 0;
    return sql.replaceAll(/\\\?|\?\??/g, (mark) => {
      if (mark === '\\?') return '?';
      const value = params[next++];
      if (mark === '??') return this.platform.quoteIdentifier(value as string);
      if (isRaw(value)) return this.bind(value.sql, value.params, values);
      return `$${values.push(value)}`;
    });
  }
}

const BindingDriver: typeof PostgreSqlDriver = class extends PostgreSqlDriver {
  protected override readonly connection = new BindingConnection(this.config);
};

/** Opens MikroORM with a pool of its own: it reads times and arrays by parsers that the plain pool does not have. */
export async function openOrm(url: string, connections: number, logger: Logger): Promise<MikroORM> {
  return MikroORM.init({
    clientUrl: url,
    driver: BindingDriver,
    entities,
    pool: { min: 0, max: connections, idleTimeoutMillis: 60_000 },
    driverOptions: {
      // The whole address: of `clientUrl` it takes host, port, user, password and database, and passes over a `sslmode`.
      connectionString: url,
      application_name: 'identity',
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveMs,
      connectionTimeoutMillis: 5000,
      // Without `pipeline` a connection that is given up would stay in the pool.
      pipeline: true,
      query_timeout: queryTimeoutMs,
      options: connectionOptions(),
      verify: assertWritablePrimary,
      onPoolCreated: repairKyselyPool,
    },
    debug: false,
    logger: (message) => logger.warn(message),
    colors: false,
  });
}

/** Whose rows a transaction sees (UUIDs): one tenant's, to read and change; or a user's memberships and their tenants, to read. */
export type Sight = { tenant: string } | { user: string };

/** An entity manager of one use case. Without a sight it sees no row of any tenant; users and sessions are no tenant's. */
export function rows(orm: MikroORM, sight?: Sight): EntityManager {
  if (!sight) return orm.em.fork();
  const variables = 'tenant' in sight ? { 'app.tenants': `{${sight.tenant}}` } : { 'app.user_id': sight.user };
  return orm.em.fork({ session: { variables } });
}

/**
 * The database's clock, milliseconds since the Unix epoch, whole. Whatever is compared with it later is reckoned from it: replicas' own clocks
 * differ, and a key that was to end at once lived an hour longer where identity's was an hour ahead.
 */
export async function clockOf(em: EntityManager): Promise<number> {
  const [row] = await em.execute<[{ ms: number }]>('select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as ms');
  return row.ms;
}
