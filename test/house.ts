import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createDatabase, dropDatabases, withClient, type DatabasePlan, type ServiceDatabase } from '../deploy/local/databases.ts';
import { currentRun } from './run.ts';

/** Services that have a database. */
export type Service = 'identity' | 'ledger';

/** A database that no other test sees. */
export interface FreshDatabase extends ServiceDatabase {
  /** A superuser's address of the same database (or that of the role given by `MIGRATION_DATABASE_URL`). */
  adminUrl: string;
  drop(): Promise<void>;
}

/**
 * A new database for one test file, with its owner's role; `migrated`: also the service's schema and role (copied from a template that is
 * migrated once a run, so it takes some 100 ms).
 */
export async function freshDatabase(service: Service, { migrated = false } = {}): Promise<FreshDatabase> {
  const run = currentRun();
  const plan = planOf(service, `${service}_${randomBytes(4).toString('hex')}`);
  if (migrated) plan.template = await migratedTemplate(service);
  const database = await createDatabase(run.adminUrl, plan);
  const adminUrl = new URL(run.adminUrl);
  adminUrl.pathname = `/${plan.name}`;
  return { ...database, adminUrl: adminUrl.href, drop: () => dropDatabases(run.adminUrl, [plan.name], []) };
}

function planOf(service: Service, name: string): DatabasePlan {
  const { prefix, password } = currentRun();
  return {
    name: `${prefix}${name}`,
    owner: { role: `${prefix}${service}_owner`, password },
    service: { role: `${prefix}${service}_service`, password },
  };
}

async function migratedTemplate(service: Service): Promise<string> {
  const { adminUrl, prefix } = currentRun();
  const plan = planOf(service, `${service}_template`);
  await withClient(adminUrl, async (client) => {
    // Two workers may ask for it at once. The lock ends with the connection.
    await client.query('select pg_advisory_lock(hashtext($1))', [plan.name]);
    const ready = `${prefix}${service}_migrated`;
    const found = await client.query('select from pg_database where datname = $1', [ready]);
    if ((found.rowCount ?? 0) > 0) return;
    const database = await createDatabase(adminUrl, plan);
    const migrate = spawnSync(process.execPath, [`services/${service}/main.ts`, 'migrate'], {
      env: { PATH: process.env['PATH'], DATABASE_URL: database.serviceUrl, MIGRATION_DATABASE_URL: database.ownerUrl },
      encoding: 'utf8',
    });
    if (migrate.status !== 0) throw new Error(`migrating ${service} failed: ${migrate.stdout}${migrate.stderr}`);
    // The name says that it is whole.
    await client.query(`alter database "${plan.name}" rename to "${ready}"`);
  });
  return `${prefix}${service}_migrated`;
}
