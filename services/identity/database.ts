// MikroORM with bound parameters, and entity managers that see the rows of their scope only.
import { MikroORM, PostgreSqlConnection, PostgreSqlDriver, isRaw, type EntityManager } from '@mikro-orm/postgresql';
import { CompiledQuery, type Kysely } from 'kysely';
import type { Registry } from 'prom-client';
import { measurePool } from '../platform/pool-metrics.ts';
import {
  connectionCheck,
  connectionOptions,
  connectionSettings,
  keepAliveMs,
  queryTimeoutMs,
  repairKyselyPool,
  type Pool,
} from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { entities } from './entities.ts';

const applicationName = 'identity records';

// MikroORM writes values into the statement's text, and PostgreSQL logs the text of failed statements, password hashes included. Parameters are not
// logged.
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

  // `?` is a value, `??` a name, `\?` a question mark.
  private bind(sql: string, params: readonly unknown[], values: unknown[]): string {
    let next = 0;
    return sql.replaceAll(/\\\?|\?\??/g, (token) => {
      if (token === '\\?') return '?';
      const value = params[next++];
      if (token === '??') return this.platform.quoteIdentifier(value as string);
      if (isRaw(value)) return this.bind(value.sql, value.params, values);
      return `$${values.push(value)}`;
    });
  }
}

const BindingDriver: typeof PostgreSqlDriver = class extends PostgreSqlDriver {
  protected override readonly connection = new BindingConnection(this.config);
};

/** Opens MikroORM with a pool of its own, because it parses times and arrays differently from the plain pool. */
export async function openOrm(url: string, connections: number, logger: Logger, metrics?: Registry): Promise<MikroORM> {
  return MikroORM.init({
    clientUrl: url,
    driver: BindingDriver,
    entities,
    pool: { min: 0, max: connections, idleTimeoutMillis: 60_000 },
    driverOptions: {
      // `clientUrl` alone would lose `sslmode`.
      connectionString: url,
      application_name: applicationName,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveMs,
      connectionTimeoutMillis: 5000,
      // Without `pipeline` a destroyed connection stays in the pool.
      pipeline: true,
      query_timeout: queryTimeoutMs,
      options: connectionOptions(connectionSettings()),
      verify: connectionCheck(connectionSettings()),
      onPoolCreated: (pool: Pool) => {
        repairKyselyPool(pool);
        if (metrics) measurePool(metrics, applicationName, pool);
      },
    },
    debug: false,
    logger: (message) => logger.warn(message),
    colors: false,
  });
}

/** The rows that a transaction sees (UUIDs): one tenant's, to read and change; or a user's memberships and their tenants, to read. */
export type RowScope = { tenant: string } | { user: string };

/** An entity manager for one use case. Without a scope it sees no tenant's rows; users and sessions belong to no tenant. */
export function entityManager(orm: MikroORM, scope?: RowScope): EntityManager {
  if (!scope) return orm.em.fork();
  const variables = 'tenant' in scope ? { 'app.tenants': `{${scope.tenant}}` } : { 'app.user_id': scope.user };
  return orm.em.fork({ session: { variables } });
}

/** Lets a transaction read and change the rows of these tenants (UUIDs), and of no others. */
export async function setTenants(em: EntityManager, tenants: string[]): Promise<void> {
  await em.execute(`select set_config('app.tenants', ?, true)`, [`{${tenants.join()}}`]);
}

/** The database's clock, whole milliseconds since the Unix epoch. Replicas' own clocks differ, and would end keys at other times. */
export async function databaseNow(em: EntityManager): Promise<number> {
  const [row] = await em.execute<[{ ms: number }]>('select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as ms');
  return row.ms;
}
