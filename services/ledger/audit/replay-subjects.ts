// Rows of a replay about subjects of personal data: whose data transactions have, and who was erased.
import { fromBinary } from '@bufbuild/protobuf';
import { SubjectErasedSchema, type TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import type { LogRow } from '../log.ts';
import type { AddedRows, Report, Row } from './rows.ts';

/** Subjects of one tenant. Keeps the erased ones in memory. */
export class ReplayedSubjects {
  private readonly erased = new Set<string>();

  /** Adds the subjects of a posting. */
  post(row: LogRow, { personal }: TransactionPosted, added: AddedRows, problem: Report): void {
    const ids = new Set(personal.map(({ subjectId }) => subjectId));
    if (ids.size < personal.length || personal.length > 4) problem('has personal data of one subject twice, or of more than four');
    for (const id of ids) added.subject_transactions.push(rowOf(row, id, problem));
  }

  /** Adds the erasure of a subject. */
  erase(row: LogRow, added: AddedRows, problem: Report): void {
    const { subjectId } = fromBinary(SubjectErasedSchema, row.payload);
    if (this.erased.has(subjectId)) return problem(`erases ${subjectId}, who was erased before`);
    this.erased.add(subjectId);
    added.erased_subjects.push(rowOf(row, subjectId, problem));
  }
}

function rowOf({ tenant, sequence }: LogRow, id: string, problem: Report): Row {
  const subject = toUuid('subj', id);
  if (subject === null) problem(`names the subject ${id}, which is no identifier`);
  return { tenant_id: tenant, subject_id: subject, sequence: sequence.toString() };
}
