// The auditor's gRPC interface; each area adds its handlers.
import type { ConnectRouter, ServiceImpl } from '@connectrpc/connect';
import { AuditService } from '../../../proto/gen/ledger/v1/audit_pb.js';
import type { SharedPool } from '../../platform/shared-pool.ts';
import { withErrors } from '../rpc-errors.ts';
import { reportHandlers } from './reports-rpc.ts';
import type { JobKinds } from './job-kinds.ts';
import { jobHandlers } from './jobs-rpc.ts';
import { volumeHandlers } from './volume.ts';

/** What the handlers need. */
export interface AuditorParts {
  /** Connections of calls, shared by the tenants. */
  pool: SharedPool;
  /** What may be started as a job. */
  kinds: JobKinds;
  /** Called after a job was added. */
  started: () => void;
}

/** Some handlers of the service. They throw `Refusal` and, if too many calls wait, Overloaded. */
export type AuditHandlers = Partial<ServiceImpl<typeof AuditService>>;

/** The RPCs of the auditor. */
export function auditorRoutes(parts: AuditorParts): (router: ConnectRouter) => void {
  const handlers: AuditHandlers = { ...jobHandlers(parts), ...volumeHandlers(parts), ...reportHandlers(parts) };
  return (router) => router.service(AuditService, withErrors(AuditService, handlers));
}
