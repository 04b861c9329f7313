// A database of its own for each service, and the role that owns it. The service's role is made by the service's own `migrate`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { scramVerifier } from '../../services/platform/scram.ts';
import { writeWhole } from './children.ts';

/** A service's database, as owner and as the service. */
export interface ServiceDatabase {
  name: string;
  /** For `MIGRATION_DATABASE_URL`. */
  ownerUrl: string;
  /** For `DATABASE_URL`; its role exists after the first `migrate`. */
  serviceUrl: string;
}

/** Names and passwords of one service's database. */
export interface DatabasePlan {
  name: string;
  owner: { role: string; password: string };
  service: { role: string; password: string };
  /** A database whose content the new one starts with. */
  template?: string;
}

/** Makes the database and its owner where they are missing. `adminUrl`: a superuser, or a role that may create databases and roles. */
export async function createDatabase(adminUrl: string, plan: DatabasePlan): Promise<ServiceDatabase> {
  const at = (role: string, password: string) => {
    const url = new URL(adminUrl);
    url.username = encodeURIComponent(role);
    url.password = encodeURIComponent(password);
    url.pathname = `/${encodeURIComponent(plan.name)}`;
    return url.href;
  };
  const database = {
    name: plan.name,
    ownerUrl: at(plan.owner.role, plan.owner.password),
    serviceUrl: at(plan.service.role, plan.service.password),
  };
  await withClient(adminUrl, async (client) => {
    const owner = pg.escapeIdentifier(plan.owner.role);
    const exists = async (query: string, value: string) => ((await client.query(query, [value])).rowCount ?? 0) > 0;
    if (!(await exists('select from pg_roles where rolname = $1', plan.owner.role))) {
      // createrole: the owner's `migrate` makes the service's role.
      const verifier = pg.escapeLiteral(scramVerifier(plan.owner.password));
      await client.query(`create role ${owner} login createrole password ${verifier}`).catch(unlessMade);
    }
    if (await exists('select from pg_database where datname = $1', plan.name)) return;
    const { rows } = await client.query<{ super: boolean }>('select rolsuper as super from pg_roles where rolname = current_user');
    // Only a member of a role may give it a database; a superuser is one of every role.
    if (rows[0]?.super !== true) await client.query(`grant ${owner} to current_user`);
    const template = pg.escapeIdentifier(plan.template ?? 'template0');
    await client.query(`create database ${pg.escapeIdentifier(plan.name)} owner ${owner} encoding 'UTF8' template ${template}`);
  });
  return database;
}

/**
 * Gives the two roles the passwords of the plan where the server knows others: the server was kept and the generated passwords were not.
 */
export async function matchPasswords(adminUrl: string, plan: DatabasePlan, database: ServiceDatabase): Promise<void> {
  const set = (role: { role: string; password: string }) =>
    `alter role ${pg.escapeIdentifier(role.role)} password ${pg.escapeLiteral(scramVerifier(role.password))}`;
  if (await isRefused(database.ownerUrl)) await withClient(adminUrl, (client) => client.query(set(plan.owner)));
  await withClient(database.ownerUrl, async (client) => {
    const known = await client.query('select from pg_roles where rolname = $1', [plan.service.role]);
    // The owner has made this role and may change it, also where the administrator is no superuser.
    if ((known.rowCount ?? 0) > 0 && (await isRefused(database.serviceUrl))) await client.query(set(plan.service));
  });
}

/**
 * Lets nobody but its owner and the service's role, which must be there, connect to a database: PostgreSQL lets everybody. Others who were granted
 * it by name keep it.
 */
export async function closeToOthers({ name, ownerUrl, serviceUrl }: ServiceDatabase): Promise<void> {
  const database = pg.escapeIdentifier(name);
  const role = pg.escapeIdentifier(decodeURIComponent(new URL(serviceUrl).username));
  const change = `revoke connect, temporary on database ${database} from public; grant connect on database ${database} to ${role}`;
  await withClient(ownerUrl, (client) => client.query(change));
}

/** Notes in a data directory where its databases are, for the operator's commands. */
export function keepDatabases(dataDirectory: string, databases: Record<string, ServiceDatabase>): void {
  writeWhole(join(dataDirectory, 'databases.json'), `${JSON.stringify(databases, null, 2)}\n`);
}

/** The databases of a data directory, by service; empty where there are none yet. */
export function keptDatabases(dataDirectory: string): Partial<Record<string, ServiceDatabase>> {
  try {
    return JSON.parse(readFileSync(join(dataDirectory, 'databases.json'), 'utf8')) as Record<string, ServiceDatabase>;
  } catch {
    return {};
  }
}

/** Runs `work` on a connection of its own and closes it. */
export async function withClient<Result>(url: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  // The query in flight rejects as well; without a listener a lost connection would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Two starts at once: the other one has made it meanwhile. */
function unlessMade(error: pg.DatabaseError): void {
  if (error.code !== '42710' && error.code !== '23505') throw error;
}

async function isRefused(url: string): Promise<boolean> {
  try {
    await withClient(url, () => Promise.resolve());
    return false;
  } catch (error) {
    if ((error as pg.DatabaseError).code === '28P01') return true;
    throw error;
  }
}
