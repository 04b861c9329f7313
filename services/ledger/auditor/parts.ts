// What the auditor's handlers have in common: their parts and their type.
import type { ServiceImpl } from '@connectrpc/connect';
import type { AuditService } from '../../../proto/gen/ledger/v1/audit_pb.js';
import type { SharedPool } from '../../platform/shared-pool.ts';
import type { Checkpoints } from '../proof/checkpoints.ts';
import type { JobKinds } from './job-kinds.ts';

/** What the handlers need. */
export interface AuditorParts {
  /** Connections of calls, shared by the tenants. */
  pool: SharedPool;
  /** Connections of reports that are answered at once. */
  reports: SharedPool;
  /** Connections of exports, each of which keeps one while it reads accounts. */
  exports: SharedPool;
  /** What may be started as a job. */
  kinds: JobKinds;
  /** What signs trees. */
  checkpoints: Checkpoints;
  /** Of a log that is imported. */
  maxImportBytes: number;
  /** Called after a job was added. */
  started: () => void;
}

/** Some handlers of the service. They throw `Refusal` and, if too many calls wait, Overloaded. */
export type AuditHandlers = Partial<ServiceImpl<typeof AuditService>>;
