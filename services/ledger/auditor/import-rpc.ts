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
export function importHandlers({ pool, maxImportBytes, started }: AuditorParts): AuditHandlers {
  return {
    async importLog(requests, { signal }) {
      const messages = requests[Symbol.asyncIterator]();
      const start = await startOf(messages);
      const tenant = tenantOf(start);
      const context = auditContextOf({ ...start, traceparent: '' });
      await mustBeReady(pool.of(tenant, signal), tenant);
      const parameters: ImportParameters = { actor: context.actor, requestId: context.requestId };
      const wanted = { kind: 'import', scope: importJob.scope, parameters: JSON.stringify(parameters) };
      // Without the signal: what a caller who has left had sent is still to be dropped.
      const connections = pool.of(tenant, new AbortController().signal);
      const job = await startWithUpload(connections, tenant, wanted, context, bytesOf(messages, maxImportBytes, signal));
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

async function* bytesOf(messages: AsyncIterator<ImportLogRequest>, max: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  // The messages of a caller who has left neither end nor fail.
  const left = new Promise<never>((_, reject) => {
    const leave = () => reject(new Error('the caller has left'));
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
  });
  left.catch(() => undefined);
  const following = () => Promise.race([messages.next(), left]);
  let bytes = 0;
  for (let next = await following(); next.done !== true; next = await following()) {
    const { part } = next.value;
    if (part.case !== 'bytes') throw invalid('bytes', 'required', '', 'each message after the first must have bytes');
    bytes += part.value.length;
    if (bytes > max) throw new Refusal('import_invalid', `the file is larger than ${max / 2 ** 30} GiB, which IMPORT_MAX_GIB sets`);
    yield part.value;
  }
}

async function mustBeReady(connections: Connections, tenant: string): Promise<void> {
  const [rows] = await readTenant<[{ isOn: boolean; isEmpty: boolean; isBusy: boolean }[]]>(connections, tenant, {
    name: 'may_import',
    text: `select exists (select from enabled where feature = 'proof') as "isOn",
      not exists (select from heads where tenant_id = $1 and sequence > 0) as "isEmpty",
      exists (select from jobs where tenant_id = $1 and kind = 'import' and status in ('queued', 'running')) as "isBusy"`,
    values: [tenant],
  });
  if (rows[0]?.isOn !== true)
    throw refuse(Code.Unimplemented, { reason: 'route_not_found', message: 'not available until proof are enabled' });
  if (!rows[0].isEmpty) throw new Refusal('books_not_empty', 'the tenant has events already');
  // What was sent for it waits in the database.
  if (rows[0].isBusy) throw new Refusal('overloaded', 'an import of the tenant has not ended: wait for it, or cancel it');
}
