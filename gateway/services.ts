// The services that the routes call.
import type { Client } from '@connectrpc/connect';
import type { IdentityService } from '../proto/gen/identity/v1/identity_pb.js';
import type { VaultService } from '../proto/gen/identity/v1/vault_pb.js';
import type { AuditService } from '../proto/gen/ledger/v1/audit_pb.js';
import type { LedgerService, Posting, Transaction } from '../proto/gen/ledger/v1/ledger_pb.js';
import type { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import type { BooksTimes } from './books.ts';

/** The services behind the routes. */
export interface Services {
  identity: Client<typeof IdentityService>;
  /** Seals and opens personal data. */
  vault: Client<typeof VaultService>;
  ledger: Client<typeof LedgerService>;
  notifier: Client<typeof NotifierService>;
  /** Reports, jobs, exports. */
  auditor: Client<typeof AuditService>;
  /** Posts one transaction; throws a ConnectError. `response` is destroyed once the client is gone. */
  post: (posting: Posting, response?: { destroyed: boolean }) => Promise<{ transaction: Transaction; replayed: boolean }>;
  /** The ledger that writes a tenant's log. */
  writerOf: (tenantId: string) => Client<typeof LedgerService>;
  /** Reads times of requests in the time zone of a tenant's books. */
  times: BooksTimes;
  /** Aborted when the process begins to stop. */
  shutdown: AbortSignal;
}
