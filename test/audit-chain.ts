// Checks an audit log from what REST answers, with code of its own: nothing here is shared with the service that made the chain.
import { createHash } from 'node:crypto';
import type { AuditEntry } from '../proto/gen/identity/v1/identity_pb.js';

/** An entry as REST answers it. */
export interface Entry {
  type: string;
  actor: string | null;
  subject: string | null;
  data: Record<string, unknown>;
  sequence: number;
  hash: string;
  previous_hash: string;
  [more: string]: unknown;
}

const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value;

/** The sequences at which a log (newest first, the oldest of all last) does not fit what is before. */
export function chainFaults(log: Entry[]): number[] {
  let [previous, sequence] = ['0'.repeat(64), 0];
  return [...log].reverse().flatMap(({ hash, previous_hash, ...content }) => {
    const inner = createHash('sha256').update(JSON.stringify(content, sorted), 'utf8').digest('hex');
    const own = createHash('sha256')
      .update(Buffer.from(previous_hash + inner, 'hex'))
      .digest('hex');
    const fits = own === hash && previous_hash === previous && content.sequence === sequence + 1;
    [previous, sequence] = [hash, content.sequence];
    return fits ? [] : [content.sequence];
  });
}

/** An entry of gRPC as REST answers it. */
export function restEntry(entry: AuditEntry): Entry {
  return {
    id: entry.id,
    type: entry.type,
    actor: entry.actor === '' ? null : entry.actor,
    subject: entry.subject === '' ? null : entry.subject,
    address: entry.address === '' ? null : entry.address,
    user_agent: entry.userAgent === '' ? null : entry.userAgent,
    created_at: new Date(Number(entry.createdMs)).toISOString(),
    data: JSON.parse(entry.data) as Record<string, unknown>,
    sequence: Number(entry.sequence),
    hash: entry.hash,
    previous_hash: entry.previousHash,
  };
}
