// Creates the database of each service and the role that owns it. The service's own `migrate` creates the service's role.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { scramVerifier } from '../../services/platform/scram.ts';
import { writeAtomically } from './children.ts';

/** A service's database, as owner and as the service. */
export interface ServiceDatabase {
  name: string;
  /** For `MIGRATION_DATABASE_URL`. */
  ownerUrl: string;
  /** For `DATABASE_URL`; its role exists after the first `migrate`. */
  serviceUrl: string;
  /** For the auditor, which reads the ledger's. */
  auditorUrl?: string;
}

/** Names and passwords of one service's database. */
export interface DatabasePlan {
  name: string;
  owner: { role: string; password: string };
  service: { role: string; password: string };
  auditor?: { role: string; password: string };
  /** A database to copy. */
  template?: string;
}

/** Creates the database and its owner where they are missing. `adminUrl`: a superuser, or a role that may create databases and roles. */
export async function createDatabase(adminUrl: string, plan: DatabasePlan): Promise<ServiceDatabase> {
  const urlOf = ({ role, password }: { role: string; password: string }) => {
    const url = new URL(adminUrl);
    url.username = encodeURIComponent(role);
    url.password = encodeURIComponent(password);
    url.pathname = `/${encodeURIComponent(plan.name)}`;
    return url.href;
  };
  const database = {
    name: plan.name,
    ownerUrl: urlOf(plan.owner),
    serviceUrl: urlOf(plan.service),
    ...(plan.auditor && { auditorUrl: urlOf(plan.auditor) }),
  };
  await withClient(adminUrl, async (client) => {
    const owner = pg.escapeIdentifier(plan.owner.role);
    const exists = async (query: string, value: string) => ((await client.query(query, [value])).rowCount ?? 0) > 0;
    if (!(await exists('select from pg_roles where rolname = $1', plan.owner.role))) {
      // The owner's `migrate` creates the service's role.
      const verifier = pg.escapeLiteral(scramVerifier(plan.owner.password));
      await client.query(`create role ${owner} login createrole password ${verifier}`).catch((error: pg.DatabaseError) => {
        // Another start has created it meanwhile.
        if (error.code !== '42710' && error.code !== '23505') throw error;
      });
    }
    if (await exists('select from pg_database where datname = $1', plan.name)) return;
    const { rows } = await client.query<{ super: boolean }>('select rolsuper as super from pg_roles where rolname = current_user');
    // Only a member of a role may give it a database.
    if (rows[0]?.super !== true) await client.query(`grant ${owner} to current_user`);
    const template = pg.escapeIdentifier(plan.template ?? 'template0');
    await client.query(`create database ${pg.escapeIdentifier(plan.name)} owner ${owner} encoding 'UTF8' template ${template}`);
  });
  return database;
}

/** Sets the passwords of all roles: the server may be older than the plan. The owner changes the others, which it has created. */
export async function setPasswords(adminUrl: string, plan: DatabasePlan, { ownerUrl }: ServiceDatabase): Promise<void> {
  for (const [url, each] of [
    [adminUrl, plan.owner],
    [ownerUrl, plan.service],
    [ownerUrl, plan.auditor],
  ] as const) {
    if (each === undefined) continue;
    const { role, password } = each;
    await withClient(url, async (client) => {
      const known = await client.query('select from pg_roles where rolname = $1', [role]);
      if (known.rowCount === 0) return;
      await client.query(`alter role ${pg.escapeIdentifier(role)} password ${pg.escapeLiteral(scramVerifier(password))}`);
    });
  }
}

/** Revokes the right of every role to connect, which PostgreSQL grants by default; `migrate` has granted it to the service's role. */
export async function revokePublicConnect({ name, ownerUrl }: ServiceDatabase): Promise<void> {
  await withClient(ownerUrl, (client) => client.query(`revoke connect, temporary on database ${pg.escapeIdentifier(name)} from public`));
}

/** Writes the URLs of the databases to a data directory, for the operator's commands. */
export function saveDatabases(dataDirectory: string, databases: Record<string, ServiceDatabase>): void {
  writeAtomically(join(dataDirectory, 'databases.json'), `${JSON.stringify(databases, null, 2)}\n`);
}

/** The databases of a data directory, by service; empty where there are none yet. */
export function savedDatabases(dataDirectory: string): Partial<Record<string, ServiceDatabase>> {
  try {
    return JSON.parse(readFileSync(join(dataDirectory, 'databases.json'), 'utf8')) as Record<string, ServiceDatabase>;
  } catch {
    return {};
  }
}

/** Runs `work` on a connection of its own and closes it. */
export async function withClient<Result>(url: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  // Without a listener a lost connection would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
