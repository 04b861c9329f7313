// Bytes that are sent for a job, stored part by part until it has ended. The job waits under a lease of its sender.
import type { Job } from '../../../proto/gen/ledger/v1/audit_pb.js';
import { toUuid, newUuid } from '../../platform/ids.ts';
import { inTransaction, readTenant, type Connections } from '../../platform/postgres.ts';
import { Refusal } from '../accounting.ts';
import type { AuditContext } from '../chart.ts';
import { getJob, startJob, type WantedJob } from './jobs.ts';

const partBytes = 1 << 20;
// A sender that does not end its upload in time has left: the job runs without it, and fails.
const leaseMs = 120_000;
// A slow sender keeps its lease.
const maxWaitMs = 20_000;

/** What the parameters of a job are until all of its bytes have arrived. */
const unfinished = '';

/** Starts a job with bytes that are sent, and returns it once all have arrived. Where `bytes` throws, nothing of it is left. */
export async function startWithUpload(
  connections: Connections,
  tenant: string,
  wanted: WantedJob,
  context: AuditContext,
  bytes: AsyncIterable<Uint8Array>,
): Promise<Job> {
  const lease = { leaseId: newUuid(), leaseMs };
  const job = await startJob(connections, tenant, { ...wanted, parameters: unfinished }, context, lease);
  const upload = new Upload(connections, { tenant, id: toUuid('job', job.id) ?? '', leaseId: lease.leaseId });
  try {
    for await (const part of bytes) await upload.add(part);
    await upload.end(wanted.parameters);
  } catch (error) {
    await upload.drop().catch(() => undefined);
    throw error;
  }
  return getJob(connections, tenant, toUuid('job', job.id) ?? '');
}

/** The bytes of a running job. `read` runs a statement in a transaction of its tenant. Throws a Refusal where not all have arrived. */
export async function* readUpload(read: ReadPart, job: { tenant: string; id: string; parameters: string }): AsyncGenerator<Buffer> {
  if (job.parameters === unfinished) throw new Refusal('import_invalid', 'the file was cut: its end did not arrive');
  for (let position = 0; ; position++) {
    const bytes = await read({ name: 'upload_part', text: selectPart, values: [job.tenant, job.id, position] });
    if (!bytes) return;
    yield bytes;
  }
}

/** Reads the bytes of one row, or nothing. */
export type ReadPart = (statement: { name: string; text: string; values: unknown[] }) => Promise<Buffer | undefined>;

const selectPart = 'select bytes from uploads where tenant_id = $1 and id = $2 and position = $3';

/** Reads each part in a transaction of its own. */
export const readAlone =
  (connections: Connections, tenant: string): ReadPart =>
  async (statement) => {
    const [rows] = await readTenant<[{ bytes: Buffer }[]]>(connections, tenant, statement);
    return rows[0]?.bytes;
  };

const isMine = `tenant_id = $1 and id = $2 and lease_id = $3 and status = 'running'`;

class Upload {
  private readonly connections: Connections;
  private readonly tenant: string;
  private readonly key: unknown[];
  private parts: Uint8Array[] = [];
  private bytes = 0;
  private position = 0;
  private storedMs = performance.now();

  constructor(connections: Connections, { tenant, id, leaseId }: { tenant: string; id: string; leaseId: string }) {
    this.connections = connections;
    this.tenant = tenant;
    this.key = [tenant, id, leaseId];
  }

  async add(part: Uint8Array): Promise<void> {
    this.parts.push(part);
    this.bytes += part.length;
    if (this.bytes >= partBytes || performance.now() - this.storedMs > maxWaitMs) await this.store();
  }

  /** Lets the job run. */
  async end(parameters: string): Promise<void> {
    if (this.bytes > 0) await this.store();
    await this.change(
      `update jobs set status = 'queued', parameters = $4, lease_id = null, leased_until = null where ${isMine}`,
      parameters,
    );
  }

  async drop(): Promise<void> {
    await this.change(
      `with dropped as (delete from jobs where ${isMine} returning id) delete from uploads where tenant_id = $1 and id in (select id from dropped)`,
    );
  }

  private async store(): Promise<void> {
    await this.change(
      `with mine as (update jobs set leased_until = clock_timestamp() + interval '${leaseMs} milliseconds' where ${isMine} returning id)
        insert into uploads (tenant_id, id, position, bytes) select $1, id, $4, $5 from mine`,
      this.position++,
      Buffer.concat(this.parts),
    );
    [this.parts, this.bytes, this.storedMs] = [[], 0, performance.now()];
  }

  private async change(text: string, ...values: unknown[]): Promise<void> {
    const { rowCount } = await inTransaction(this.connections, [this.tenant], (client) =>
      client.query({ text, values: [...this.key, ...values] }),
    );
    if (rowCount === 0) throw new Refusal('job_not_found', 'the job was cancelled while its bytes arrived');
  }
}
