// The job that imports a whole log: checks the bytes that were sent, then writes them in one transaction.
import { fromBinary } from '@bufbuild/protobuf';
import { LogImportedSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../../platform/ids.ts';
import { inTransaction, readTenant } from '../../platform/postgres.ts';
import { invalid } from '../fields.ts';
import { checkLog } from '../log-import/check.ts';
import { writeLog } from '../log-import/write.ts';
import type { JobKind, RunningJob } from './job-kinds.ts';
import { readAlone, readUpload, type ReadPart } from './uploads.ts';

/** What a job keeps of the call that has started it. */
export interface ImportParameters {
  actor: string;
  requestId: string;
}

// Between two statements of the transaction that writes.
const idleMs = 60_000;

/** Imports of logs. */
export const importJob: JobKind = {
  scope: 'transactions:write',
  check: () => {
    throw invalid('kind', 'oneof', 'import', 'kind import has an RPC of its own, ImportLog');
  },
  async run(job) {
    const { tenant, id, connections, signal } = job;
    // A run before may have ended after its commit.
    if (!(await written(job))) {
      const open = (read: ReadPart) => () => readUpload(read, job);
      const checked = await checkLog(open(readAlone(connections, tenant)), (events) => {
        signal.throwIfAborted();
        job.progress(events, 0);
      });
      const importer = { ...(JSON.parse(job.parameters) as ImportParameters), eventId: id };
      await inTransaction(connections, [tenant], async (client) => {
        await client.query(`select set_config('idle_in_transaction_session_timeout', $1, true)`, [String(idleMs)]);
        const read: ReadPart = async (statement) => (await client.query<{ bytes: Buffer }>(statement)).rows[0]?.bytes;
        await writeLog(client, { tenant, open: open(read), checked, importer }, (events) => {
          signal.throwIfAborted();
          job.progress(events, checked.size);
        });
      });
    }
    const imported = await written(job);
    if (!imported) throw new Error('a log that was written is not there');
    await job.write(Buffer.from(`${JSON.stringify(imported)}\n`));
    job.progress(imported.size, imported.size);
    return 'application/json';
  },
};

/** What this job has written; null: nothing yet. */
async function written({ tenant, id, connections }: RunningJob) {
  const [rows] = await readTenant<[{ payload: Buffer }[]]>(connections, tenant, {
    name: 'imported_log',
    text: 'select payload from log where tenant_id = $1 and sequence = 1 and event_id = $2',
    values: [tenant, id],
  });
  if (!rows[0]) return null;
  const { tenantId, size, root } = fromBinary(LogImportedSchema, rows[0].payload);
  return { tenant_id: toId('tenant', tenant), source_tenant_id: tenantId, size: Number(size), root: Buffer.from(root).toString('hex') };
}
