// The RPCs of proofs: checkpoints, inclusion, consistency, tiles and keys of a tenant's log.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { GetProofRequest, ProofSchema } from '../../../proto/gen/ledger/v1/audit_pb.js';
import { sha256 } from '../../platform/digest.ts';
import { readTenant, type Connections } from '../../platform/postgres.ts';
import { Refusal } from '../accounting.ts';
import type { AuditHandlers, AuditorParts } from '../auditor/parts.ts';
import { eventColumns, type EventRow } from '../events.ts';
import { checkedId, invalid, tenantOf } from '../fields.ts';
import { genesisHash, headerOf } from '../log.ts';
import { newestCheckpoint, type Checkpoint, type Checkpoints } from './checkpoints.ts';
import { consistencyProof, inclusionProof } from './merkle.ts';
import { readEntries, readOnly, readTile, storedSubtrees } from './stored-tiles.ts';
import { levelWidth, tileWidth } from './tiles.ts';

/** Handlers of proofs. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function proofHandlers({ pool, checkpoints }: Pick<AuditorParts, 'pool' | 'checkpoints'>): AuditHandlers {
  return {
    async getProof(request, { signal }) {
      const tenant = tenantOf(request);
      const event = eventOf(request);
      return { proof: await prove(checkpoints, pool.of(tenant, signal), tenant, event) };
    },
    async getCheckpoint(request, { signal }) {
      const tenant = tenantOf(request);
      return { checkpoint: (await newestOf(checkpoints, pool.of(tenant, signal), tenant)).note };
    },
    async getTile(request, { signal }) {
      const tenant = tenantOf(request);
      const { level, width } = request;
      const position = Number(request.position);
      const connections = pool.of(tenant, signal);
      const { size } = await newestOf(checkpoints, connections, tenant);
      const isThere = position >= 0 && width >= 1 && width <= tileWidth && position * tileWidth + width <= levelWidth(level ?? 0, size);
      if (!isThere) throw new Refusal('tile_not_found', 'there is no such tile below the newest checkpoint');
      const query = readOnly(connections, tenant);
      const hashes = await (level === undefined ? readEntries(query, tenant, position) : readTile(query, tenant, { level, position }));
      if (hashes.length < 32 * width) throw new Error(`the tree of ${tenant} lacks tile ${level ?? 'entries'}/${position}`);
      const asked = hashes.subarray(0, 32 * width);
      return { bytes: level === undefined ? withLengths(asked) : asked };
    },
    async getConsistency(request, { signal }) {
      const tenant = tenantOf(request);
      const [old, size] = [Number(request.oldSize), Number(request.newSize)];
      const connections = pool.of(tenant, signal);
      if (old < 1) throw invalid('old', 'min', String(old), 'old must be at least 1');
      if (old > size) throw invalid('old', 'max', String(old), `old must be at most new, ${size}`);
      const { size: signed } = await newestOf(checkpoints, connections, tenant);
      if (size > signed) throw invalid('new', 'max', String(size), `new must be at most the size of the newest checkpoint, ${signed}`);
      return { path: await consistencyProof(old, size, storedSubtrees(readOnly(connections, tenant), tenant)) };
    },
    async listCheckpointKeys(request, { signal }) {
      const tenant = tenantOf(request);
      const keys = await checkpoints.keysOf(pool.of(tenant, signal), tenant);
      return { keys: keys.map(({ vkey, retiredMs }) => ({ vkey, ...(retiredMs !== undefined && { retiredMs: BigInt(retiredMs) }) })) };
    },
  };
}

/** Which event a request names, as a condition on the log with its value. */
function eventOf({ event }: GetProofRequest): { where: string; value: unknown; missing: Refusal } {
  if (event.case === 'transactionId') {
    const value = checkedId('transaction_id', 'txn', event.value);
    const where = 'l.sequence = (select sequence from transactions where tenant_id = $1 and id = $2)';
    return { where, value, missing: new Refusal('transaction_not_found', 'transaction not found') };
  }
  const value = event.case === 'sequence' ? event.value : 0n;
  if (value < 1n) throw invalid('sequence', 'min', String(value), 'sequence must be at least 1');
  return { where: 'l.sequence = $2', value, missing: new Refusal('event_not_found', 'event not found') };
}

interface ProvedEvent extends EventRow {
  previous_hash: Buffer | null;
  /** Of the payload that was posted, where it was redacted. */
  redacted_hash: Buffer | null;
}

async function prove(
  checkpoints: Checkpoints,
  connections: Connections,
  tenant: string,
  { where, value, missing }: ReturnType<typeof eventOf>,
): Promise<MessageInitShape<typeof ProofSchema>> {
  const [[event], [newest]] = await readTenant<[ProvedEvent[], Checkpoint[]]>(
    connections,
    tenant,
    {
      name: where.includes('transactions') ? 'proved_transaction' : 'proved_event',
      text: `select ${eventColumns}, (select hash from log where tenant_id = $1 and sequence = l.sequence - 1) as previous_hash,
          (select payload_hash from redactions where tenant_id = $1 and sequence = l.sequence) as redacted_hash
        from log l where tenant_id = $1 and ${where}`,
      values: [tenant, value],
    },
    newestCheckpoint(tenant),
  );
  if (!event) throw missing;
  const { event_id: eventId, created_ms: createdMs, request_id: requestId, redacted_hash: redacted, payload } = event;
  const sequence = Number(event.sequence);
  const checkpoint = newest && newest.size >= sequence ? newest : await covered(checkpoints, connections, tenant, sequence);
  if (!checkpoint) throw missing;
  const path = await inclusionProof(sequence - 1, checkpoint.size, storedSubtrees(readOnly(connections, tenant), tenant));
  return {
    sequence: event.sequence,
    header: headerOf({ ...event, tenant, eventId, createdMs, requestId }),
    ...(redacted === null && { payload }),
    payloadHash: redacted ?? sha256(payload),
    previousHash: event.previous_hash ?? genesisHash,
    hash: event.hash,
    path,
    checkpoint: checkpoint.note,
  };
}

/** The newest checkpoint; makes the first. */
async function newestOf(checkpoints: Checkpoints, connections: Connections, tenant: string): Promise<Checkpoint> {
  const [[newest]] = await readTenant<[Checkpoint[]]>(connections, tenant, newestCheckpoint(tenant));
  const checkpoint = newest ?? (await covered(checkpoints, connections, tenant, 1));
  if (!checkpoint) throw new Refusal('event_not_found', 'the log is empty, and has no checkpoint');
  return checkpoint;
}

/** As {@link Checkpoints.cover}. Throws {@link Refusal} `unavailable` also where the directory of checkpoints is full or away. */
async function covered(...[checkpoints, ...wanted]: [Checkpoints, ...Parameters<Checkpoints['cover']>]): Promise<Checkpoint | null> {
  try {
    return await checkpoints.cover(...wanted);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    throw new Refusal('unavailable', 'no checkpoint can be kept at the moment, so none is signed');
  }
}

/** Hashes of 32 bytes, each after its length, two bytes. */
function withLengths(hashes: Buffer): Buffer {
  const bytes = Buffer.alloc((hashes.length / 32) * 34);
  for (let index = 0; index < hashes.length / 32; index++) {
    bytes.writeUInt16BE(32, 34 * index);
    bytes.set(hashes.subarray(32 * index, 32 * (index + 1)), 34 * index + 2);
  }
  return bytes;
}
