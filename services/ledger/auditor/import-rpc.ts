// The RPC that imports a log: takes its bytes, and starts the job that checks and writes them.
import { Code } from '@connectrpc/connect';
import type { ImportLogRequest, LogToImport } from '../../../proto/gen/ledger/v1/audit_pb.js';
import { refuse } from '../../platform/errors.ts';
import { readTenant, type Connections } from '../../platform/postgres.ts';
import { Refusal } from '../accounting.ts';
import { invalid, tenantOf } from '../fields.ts';
import { auditContextOf } from '../mapping.ts';
import { importJob, type ImportParameters } from './import-job.ts';
import type { AuditHandlers, AuditorParts } from './parts.ts';
import { startWithUpload } from './uploads.ts';

/** The handler of imports. */
export function importHandlers({ pool, started }: AuditorParts): AuditHandlers {
  return {
    async importLog(requests, { signal }) {
      const messages = requests[Symbol.asyncIterator]();
      const start = await startOf(messages);
      const tenant = tenantOf(start);
      const context = auditContextOf({ ...start, traceparent: '' });
      const connections = pool.of(tenant, signal);
      await mustBeEmpty(connections, tenant);
      const parameters: ImportParameters = { actor: context.actor, requestId: context.requestId };
      const wanted = { kind: 'import', scope: importJob.scope, parameters: JSON.stringify(parameters) };
      const job = await startWithUpload(connections, tenant, wanted, context, bytesOf(messages));
      started();
      return { job };
    },
  };
}

async function startOf(messages: AsyncIterator<ImportLogRequest>): Promise<LogToImport> {
  const first = await messages.next();
  const part = first.done === true ? undefined : first.value.part;
  if (part?.case !== 'start') throw invalid('start', 'required', '', 'start must be the first message');
  return part.value;
}

async function* bytesOf(messages: AsyncIterator<ImportLogRequest>): AsyncGenerator<Uint8Array> {
  for (let next = await messages.next(); next.done !== true; next = await messages.next()) {
    const { part } = next.value;
    if (part.case !== 'bytes') throw invalid('bytes', 'required', '', 'each message after the first must have bytes');
    yield part.value;
  }
}

async function mustBeEmpty(connections: Connections, tenant: string): Promise<void> {
  const [rows] = await readTenant<[{ isOn: boolean; isEmpty: boolean }[]]>(connections, tenant, {
    name: 'may_import',
    text: `select exists (select from enabled where feature = 'proof') as "isOn",
      not exists (select from heads where tenant_id = $1 and sequence > 0) as "isEmpty"`,
    values: [tenant],
  });
  if (rows[0]?.isOn !== true)
    throw refuse(Code.Unimplemented, { reason: 'route_not_found', message: 'not available until proof are enabled' });
  if (!rows[0].isEmpty) throw new Refusal('books_not_empty', 'the tenant has events already');
}
