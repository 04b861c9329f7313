// The auditor's gRPC interface; each area adds its handlers.
import type { ConnectRouter } from '@connectrpc/connect';
import { AuditService } from '../../../proto/gen/ledger/v1/audit_pb.js';
import { proofHandlers } from '../proof/proofs-rpc.ts';
import { withErrors } from '../rpc-errors.ts';
import { reportHandlers } from './reports-rpc.ts';
import { exportHandlers } from './exports-rpc.ts';
import { importHandlers } from './import-rpc.ts';
import { jobHandlers } from './jobs-rpc.ts';
import type { AuditHandlers, AuditorParts } from './parts.ts';
import { volumeHandlers } from './volume.ts';

/** The RPCs of the auditor. */
export function auditorRoutes(parts: AuditorParts): (router: ConnectRouter) => void {
  const handlers: AuditHandlers = {
    ...jobHandlers(parts),
    ...reportHandlers(parts),
    ...volumeHandlers(parts),
    ...exportHandlers(parts),
    ...importHandlers(parts),
    ...proofHandlers(parts),
  };
  return (router) => router.service(AuditService, withErrors(AuditService, handlers));
}
