// Shared by the operator's commands: the owner's connection, the tenants and their logs in chunks.
import pg from 'pg';
import { toId } from '../../platform/ids.ts';
import { errorMessage } from '../../platform/lifetime.ts';
import { connectionOptions, connectionSettings } from '../../platform/postgres.ts';
import { checkConnection } from '../../platform/postgres-start.ts';
import { BadSetting } from '../../platform/settings.ts';
import type { LogRow } from '../log.ts';
import { Findings } from './findings.ts';
import { tenantTables } from './projections.ts';
import { InvalidTime } from './rows.ts';

/** Events per chunk; each has at most some 100 KiB. */
const chunkEvents = 500;

const variable = 'MIGRATION_DATABASE_URL';

/**
 * Opens the owner's connection, without time-outs; the caller ends it. Throws {@link BadSetting} for an address without a ledger and for a
 * role that does not see every tenant's rows, and what {@link checkConnection} throws.
 */
export async function openOperator(url: string): Promise<pg.Client> {
  const settings = connectionSettings({
    statement_timeout: '0',
    idle_in_transaction_session_timeout: '0',
    lock_timeout: '0',
    tcp_user_timeout: '0',
    jit: 'off',
    // So that an interrupted command releases its locks before its statement ends.
    client_connection_check_interval: '1s',
  });
  const options = connectionOptions(settings);
  const client = new pg.Client({ connectionString: url, application_name: 'ledger operator', connectionTimeoutMillis: 10_000, options });
  // The query in flight, or the next one, rejects as well; without a listener a lost connection would crash the process.
  client.on('error', () => undefined);
  await client.connect().catch((error: unknown) => {
    throw new BadSetting(variable, `names a database that can't be reached: ${errorMessage(error)}`);
  });
  try {
    await checkConnection(variable, client, settings);
    await checkIsLedger(client);
    await checkSeesAllTenants(client);
  } catch (error) {
    await client.end();
    throw error;
  }
  return client;
}

async function checkIsLedger(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ is_ledger: boolean }>(`select to_regclass('public.relay_marks') is not null as is_ledger`);
  if (rows[0]?.is_ledger !== true) throw new BadSetting(variable, 'names a database without a ledger: name another, or run migrate first');
}

// Row-level security binds the owner too. It sees all rows by the policies `operator`, which name the role that ran the migrations; after a
// restore on another server another role may own the tables.
async function checkSeesAllTenants(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ role: string; tables: string; wanted: string | null }>(
    `select current_user as role, string_agg(distinct c.relname::text, ', ') as tables, string_agg(distinct wanted.rolname::text, ' or ') as wanted
      from pg_class c left join pg_policy p on p.polrelid = c.oid and p.polname = 'operator'
        left join pg_roles wanted on wanted.oid = any(p.polroles)
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and row_security_active(c.oid)
        and not exists (select from unnest(p.polroles) as granted (role) where granted.role = 0 or pg_has_role(granted.role, 'usage'))
      having count(*) > 0`,
  );
  if (!rows[0]) return;
  const { role, tables, wanted } = rows[0];
  const advice = wanted === null ? 'the policy operator, which lets a role, is missing' : `give ${wanted}, the role of the policy operator`;
  throw new BadSetting(variable, `is of the role ${role}, which does not see every tenant's ${tables}: ${advice}`);
}

/** Called after events were read, with how many. */
export type Progress = (events: number) => void;

/** What was done to each tenant, and how many findings there were. */
export interface Audited {
  tenants: number;
  findings: number;
  /** Tenants of which something was repaired; what, was reported. */
  repaired: number;
}

/**
 * Works on every tenant, or on one (UUID), but for deleted ones, in a transaction each, which sees its rows alone and changes nothing if there is a
 * finding. `work` returns what it repaired, which is reported after the commit. A value that PostgreSQL rejects, or an invalid time, is a finding.
 * Throws any other error.
 */
export async function auditTenants(
  client: pg.ClientBase,
  { only, begin }: { only: string | undefined; begin: string },
  report: (line: string) => void,
  work: (tenant: string, findings: Findings) => Promise<string[]>,
): Promise<Audited> {
  const audited: Audited = { tenants: 0, findings: 0, repaired: 0 };
  for await (const tenant of only === undefined ? tenantsOf(client) : [only]) {
    if (await endOfDeleted(client, tenant)) continue;
    const reportOf = (line: string) => report(`${toId('tenant', tenant)}: ${line}`);
    const findings = new Findings(reportOf);
    let repairs: string[] = [];
    await inTenantTransaction(client, tenant, begin, findings, async () => {
      repairs = await work(tenant, findings);
    });
    audited.tenants += 1;
    audited.findings += findings.count;
    if (findings.count > 0 || repairs.length === 0) continue;
    audited.repaired += 1;
    for (const line of repairs) reportOf(`repaired: ${line}`);
  }
  return audited;
}

/** The last event of a tenant whose deletion has begun; null for any other, also for one that has a head. */
export async function endOfDeleted(client: pg.ClientBase, tenant: string): Promise<Pick<LogRow, 'sequence' | 'hash'> | null> {
  const { rows } = await client.query<{ sequence: string; hash: Buffer }>(
    `select last_sequence::text as sequence, last_hash as hash from deleted_tenants d where tenant_id = $1
      and not exists (select from heads where tenant_id = d.tenant_id)`,
    [tenant],
  );
  return rows[0] ? { sequence: BigInt(rows[0].sequence), hash: rows[0].hash } : null;
}

/** Every tenant with a row in any table (UUIDs, ascending). */
async function* tenantsOf(client: pg.ClientBase): AsyncIterable<string> {
  // One step at a time along each primary key, all of which begin with the tenant.
  let last = '00000000-0000-0000-0000-000000000000';
  for (let operator = '>='; ; operator = '>') {
    const next = tenantTables.map((name) => `(select tenant_id from ${name} where tenant_id ${operator} $1 order by tenant_id limit 1)`);
    const { rows } = await client.query<{ tenant_id: string }>(`${next.join(' union ')} order by tenant_id limit 1`, [last]);
    if (!rows[0]) return;
    last = rows[0].tenant_id;
    yield last;
  }
}

/** A tenant's next events after a sequence, oldest first, at most 500. Values that may never be null are empty where they are. */
export async function logChunk(client: pg.ClientBase, tenant: string, after: bigint): Promise<LogRow[]> {
  const { rows } = await client.query<Omit<LogRow, 'sequence' | 'createdMs'> & { sequence: string; createdMs: string }>({
    name: 'log_chunk',
    text: `select tenant_id as tenant, sequence::text, coalesce(event_id, '00000000-0000-0000-0000-000000000000') as "eventId", type,
        (extract(epoch from created_at) * 1000)::text as "createdMs", actor, request_id as "requestId", coalesce(payload, '') as payload,
        coalesce(hash, '') as hash, payload_hash as "payloadHash"
      from log left join redactions using (tenant_id, sequence)
      where tenant_id = $1 and sequence > $2 order by log.sequence limit ${chunkEvents}`,
    values: [tenant, after],
  });
  return rows.map((row) => ({ ...row, sequence: BigInt(row.sequence), createdMs: Number(row.createdMs) }));
}

/** A tenant's events after a sequence in chunks, as {@link logChunk}. */
export async function* logChunks(client: pg.ClientBase, tenant: string, after = 0n): AsyncIterable<LogRow[]> {
  for (let last = after; ;) {
    const rows = await logChunk(client, tenant, last);
    if (rows.length === 0) return;
    yield rows;
    last = rows.at(-1)?.sequence ?? last;
  }
}

/** Checks the tenant's published offset against its head. The relay looks only at open offsets, and at events after them. */
export async function checkPublishedOffset(client: pg.ClientBase, tenant: string, findings: Findings): Promise<void> {
  const { rows } = await client.query<{ published: string | null; open: boolean | null; head: string | null }>(
    `select m.sequence::text as published, m.open_until is not null as open, h.sequence::text as head
      from (select * from relay_marks where tenant_id = $1) m full join (select * from heads where tenant_id = $1) h using (tenant_id)`,
    [tenant],
  );
  const { published = null, open = null, head = null } = rows[0] ?? {};
  if (published === null) {
    if (head !== null) findings.add('relay_marks is missing: nothing looks for events that are not published');
  } else if (head === null) {
    findings.add(`relay_marks is at ${published}, and there is no head`);
  } else if (BigInt(published) > BigInt(head)) {
    findings.add(`relay_marks is at ${published}, beyond the head at ${head}: what comes between would not be published`);
  } else if (BigInt(published) < BigInt(head) && open === false) {
    findings.add(
      `relay_marks is closed at ${published}, before the head at ${head}: nothing looks for what comes between until a ledger starts`,
    );
  }
}

/** Begins a transaction that reads one snapshot and writes nothing but temporary tables. */
export const snapshot = 'begin isolation level repeatable read read only';

/** Runs `work` in a transaction that sees one tenant's rows (UUID), and is rolled back if there is a finding. What the tables can't hold is one. */
export async function inTenantTransaction(
  client: pg.ClientBase,
  tenant: string,
  begin: string,
  findings: Findings,
  work: () => Promise<void>,
): Promise<void> {
  await client.query(begin);
  try {
    await client.query(`select set_config('app.tenants', $1, true)`, [`{${tenant}}`]);
    await work();
    await client.query(findings.count === 0 ? 'commit' : 'rollback');
  } catch (error) {
    // After a lost connection this fails too, but the first error is the one to report.
    await client.query('rollback').catch(() => undefined);
    // Classes 22 and 23: data exceptions and constraints.
    const isDataError = error instanceof InvalidTime || (error instanceof pg.DatabaseError && /^2[23]/.test(error.code ?? ''));
    if (!isDataError) throw error;
    findings.add(`the tables can't hold what the log says: ${error.message}`);
  }
}
