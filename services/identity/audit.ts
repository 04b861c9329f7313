// The audit logs: what was changed in a tenant, and a user's logins and changes of credentials. Each log is a hash chain.
import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { toId, uuidAt } from '../platform/ids.ts';

/** Where a request came from. */
export interface Origin {
  clientAddress: string;
  userAgent: string;
}

/** What is written about one change. */
export interface AuditChange {
  /** As `member.role_changed`. */
  type: string;
  /** Id of the user that made it; null where nobody was logged in. */
  actor: string | null;
  /** Id of what was changed. */
  subject: string | null;
  origin: Origin | undefined;
  /** Details, by name; never a secret. */
  data?: Record<string, string | number | boolean | null | string[]>;
}

/** An entry, in the form that is hashed and that REST answers. */
export interface AuditEntry {
  id: string;
  type: string;
  actor: string | null;
  subject: string | null;
  address: string | null;
  user_agent: string | null;
  created_at: string;
  data: Record<string, unknown>;
  sequence: number;
}

/** The log of a tenant or of a user (UUID). */
export type AuditLog = { tenant: string } | { user: string };

const noHash = '0'.repeat(64);
const maxUserAgent = 512;

/**
 * Appends an entry to a log, in the transaction of the change it tells of. The caller has locked the tenant's row; a user's row is locked here. For
 * a user that does not exist it writes nothing and takes as long. `nowMs`: milliseconds since the Unix epoch.
 */
export async function audit(em: EntityManager, log: AuditLog, change: AuditChange, nowMs: number): Promise<void> {
  const [table, column, owner] = 'tenant' in log ? ['tenant_audit', 'tenant_id', log.tenant] : ['user_audit', 'user_id', log.user];
  const isKnown = 'tenant' in log || (await lockUser(em, owner));
  const [last] = await em.execute<{ sequence: string; hash: string }[]>(
    `select sequence, hash from ${table} where ${column} = ? order by sequence desc limit 1`,
    [owner],
  );
  const id = uuidAt(nowMs);
  const entry: AuditEntry = {
    id: toId('audit', id),
    type: change.type,
    actor: change.actor,
    subject: change.subject,
    address: storable(change.origin?.clientAddress, 255),
    user_agent: storable(change.origin?.userAgent, maxUserAgent),
    created_at: new Date(nowMs).toISOString(),
    data: change.data ?? {},
    sequence: Number(last?.sequence ?? 0) + 1,
  };
  const previous = last?.hash ?? noHash;
  await em.execute(
    `insert into ${table} (${column}, sequence, id, type, actor, subject, address, user_agent, created_at, data, previous_hash, hash)
     select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? where ?::boolean`,
    [
      ...[owner, entry.sequence, id, entry.type, entry.actor, entry.subject, entry.address, entry.user_agent, entry.created_at],
      ...[canonicalJson(entry.data), previous, entryHash(previous, entry), isKnown],
    ],
  );
}

/** What is written about a user. */
export interface UserChange extends Pick<AuditChange, 'type' | 'origin' | 'data'> {
  /** Whether the user did it; false where nobody was logged in. */
  byUser: boolean;
}

/** Appends an entry about a user (UUID) to the log of that user, as {@link audit}. */
export async function auditUser(em: EntityManager, user: string, { byUser, ...change }: UserChange, nowMs: number): Promise<void> {
  const subject = toId('user', user);
  await audit(em, { user }, { ...change, actor: byUser ? subject : null, subject }, nowMs);
}

/** Locks a user, before its sessions where both are changed. Returns whether it exists. */
export async function lockUser(em: EntityManager, userId: string): Promise<boolean> {
  return (await em.execute<object[]>('select from users where id = ? for no key update', [userId])).length > 0;
}

/** The hash of an entry after the entry with the hash `previous` (hex): SHA-256 of that and the SHA-256 of the entry's canonical JSON. */
function entryHash(previous: string, entry: AuditEntry): string {
  const content = createHash('sha256').update(canonicalJson(entry)).digest();
  return createHash('sha256').update(Buffer.from(previous, 'hex')).update(content).digest('hex');
}

/** JSON with sorted members and no blanks (RFC 8785). Its numbers are integers. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join()}}`;
}

function storable(text: string | undefined, max: number): string | null {
  const clean = Array.from((text ?? '').replaceAll('\0', '').toWellFormed())
    .slice(0, max)
    .join('');
  return clean === '' ? null : clean;
}
