// Reads the audit logs, newest entry first.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import type { AuditEntrySchema } from '../../proto/gen/identity/v1/identity_pb.js';
import { cutPage, sequencePosition, type CursorScope, type Page } from '../platform/cursor.ts';
import { toId } from '../platform/ids.ts';
import { epochMs } from '../platform/postgres.ts';
import { entityManager } from './database.ts';
import * as field from './fields.ts';
import { readTenant, type TenantCall, tenantUuid } from './tenant-changes.ts';
import { userById } from './users.ts';

/** An entry as gRPC answers it. */
export type AuditMessage = MessageInitShape<typeof AuditEntrySchema>;

/** The log of a tenant, for owners and admins. Throws `validation_failed` and as {@link readTenant}. */
export async function listAudit(orm: MikroORM, given: TenantCall & field.PageRequest): Promise<Page<AuditMessage>> {
  const tenantId = tenantUuid(given.tenantId);
  const read = pageOf(['audit', tenantId], given);
  return readTenant(orm, given, { role: 'admin', whileReadOnly: true }, (em) => read(em, 'tenant_audit', 'tenant_id'));
}

/** The log of a user. Throws `validation_failed`, `unauthenticated`. */
export async function listUserAudit(orm: MikroORM, given: { userId: string } & field.PageRequest): Promise<Page<AuditMessage>> {
  const { id } = await userById(orm, given.userId);
  return pageOf(['user audit', id], given)(entityManager(orm), 'user_audit', 'user_id');
}

interface Row {
  id: string;
  type: string;
  actor: string | null;
  subject: string | null;
  address: string | null;
  user_agent: string | null;
  created: number;
  data: string;
  sequence: string | bigint;
  hash: string;
  previous_hash: string;
}

function pageOf(scope: CursorScope, { limit, cursor }: field.PageRequest) {
  const size = field.pageSize(limit);
  const before = field.afterCursor(scope, cursor, sequencePosition);
  return async (em: EntityManager, table: string, column: string): Promise<Page<AuditMessage>> => {
    const rows = await em.execute<Row[]>(
      `select id, type, actor, subject, address, user_agent, ${epochMs('created_at')} as created, data, sequence, hash, previous_hash
       from ${table} where ${column} = ? and sequence < ? order by sequence desc limit ?`,
      [scope[1], before ?? '9223372036854775807', size + 1],
    );
    const page = cutPage(rows, size, scope, (row) => String(row.sequence));
    return { ...page, rows: page.rows.map(message) };
  };
}

function message({ id, type, actor, subject, address, created, data, sequence, hash, ...row }: Row): AuditMessage {
  return {
    id: toId('audit', id),
    type,
    actor: actor ?? '',
    subject: subject ?? '',
    address: address ?? '',
    userAgent: row.user_agent ?? '',
    createdMs: BigInt(created),
    data,
    sequence: BigInt(sequence),
    hash,
    previousHash: row.previous_hash,
  };
}
