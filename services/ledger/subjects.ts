// The erasure of subjects of personal data, which identity asks for after it has deleted their keys.
import { create, toBinary } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import { SubjectErasedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import type { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { inTransaction, type Connections } from '../platform/postgres.ts';
import { writeEvents } from './accounts.ts';
import type { AuditContext } from './chart.ts';
import { checkedId, checkedText, tenantOf } from './fields.ts';
import { append, lockHead, type Head } from './log.ts';
import { auditContextOf, withTraceparent } from './mapping.ts';
import type { TenantCalls } from './tenant-calls.ts';

/** Handlers of subjects. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function subjectHandlers({ changed }: TenantCalls): Partial<ServiceImpl<typeof LedgerService>> {
  return {
    async eraseSubject(request, context) {
      const tenant = tenantOf(request);
      const subject = { id: request.subjectId, uuid: checkedId('subject_id', 'subj', request.subjectId) };
      const reason = checkedText('reason', request.reason, { max: 1000 });
      const auditContext = auditContextOf(withTraceparent({ ...request, traceparent: '' }, context));
      return { sequence: await changed(tenant, context, (own) => eraseSubject(own, tenant, subject, reason, auditContext)) };
    },
  };
}

/** Appends `subject.erased`, once for each subject, and returns its position. */
function eraseSubject(
  pool: Connections,
  tenant: string,
  { id: subjectId, uuid }: { id: string; uuid: string },
  reason: string,
  context: AuditContext,
): Promise<bigint> {
  return inTransaction(pool, [tenant], async (client) => {
    // Nothing of the subject may have been posted.
    const { head, nowMs } = (await lockHead(client, tenant, true)) as { head: Head; nowMs: number };
    const { rows } = await client.query<{ sequence: bigint }>({
      name: 'erased_subject',
      text: 'select sequence from erased_subjects where tenant_id = $1 and subject_id = $2',
      values: [tenant, uuid],
    });
    if (rows[0]) return rows[0].sequence;
    const payload = toBinary(SubjectErasedSchema, create(SubjectErasedSchema, { subjectId, reason }));
    const row = append(head, { type: 'subject.erased', ...context, payload }, nowMs);
    await client.query({
      name: 'erase_subject',
      text: 'insert into erased_subjects (tenant_id, subject_id, sequence) values ($1, $2, $3)',
      values: [tenant, uuid, row.sequence],
    });
    await writeEvents(client, [row], head, nowMs);
    return row.sequence;
  });
}
