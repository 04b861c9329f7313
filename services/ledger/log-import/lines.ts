// Lines of an export of events, as an import reads them: events with all that their hashes are made of, and the end.
import { toUuid } from '../../platform/ids.ts';
import { sha256 } from '../../platform/digest.ts';
import type { Line } from '../../platform/ndjson.ts';
import { Refusal } from '../accounting.ts';
import { headerOf, type EventType, type LogRow } from '../log.ts';

/** An event of an export. */
export interface ImportedEvent {
  line: number;
  row: LogRow;
}

/** The last line of an export. */
export interface ExportEnd {
  line: number;
  count: number;
  sequence: number;
  /** Hex. */
  hash: string;
  /** A signed checkpoint of that size; empty: none. */
  checkpoint: string;
}

/** The refusal of an import for one of its lines. */
export function invalidLine(line: number, message: string): Refusal {
  return new Refusal('import_invalid', `line ${line}: ${message}`, { field: 'line', tag: 'import_invalid', value: String(line) });
}

const eventFields = ['sequence', 'type', 'header', 'payload', 'payload_hash', 'previous_hash', 'hash', 'redacted_payload'];
const endFields = ['end', 'count', 'sequence', 'hash', 'checkpoint'];

/** Reads a line, whose hashes are compared later. Throws a {@link Refusal} that names it. */
export function readLine({ number: line, bytes }: Line): ImportedEvent | ExportEnd {
  if (bytes === null) throw invalidLine(line, 'it is larger than 1 MiB');
  const record = parsed(line, bytes);
  const isEnd = Object.hasOwn(record, 'end');
  for (const field of Object.keys(record)) {
    if (!(isEnd ? endFields : eventFields).includes(field)) throw invalidLine(line, `${field} is not known here`);
  }
  return isEnd ? endOf(line, record) : { line, row: rowOf(line, record) };
}

type Fields = Record<string, unknown>;

function parsed(line: number, bytes: Buffer): Fields {
  let record: unknown;
  try {
    record = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw invalidLine(line, 'it is no JSON in UTF-8');
  }
  if (typeof record !== 'object' || record === null || Array.isArray(record)) throw invalidLine(line, 'it is no JSON object');
  return record as Fields;
}

function endOf(line: number, { end, count, sequence, hash, checkpoint = '' }: Fields): ExportEnd {
  const isRight = end === true && typeof count === 'number' && typeof sequence === 'number' && typeof hash === 'string';
  if (!isRight || typeof checkpoint !== 'string') throw invalidLine(line, 'it must be {"end": true, "count", "sequence", "hash"}');
  return { line, count, sequence, hash, checkpoint };
}

/** The event of a line. Throws unless each of its parts is written as an export writes it. */
function rowOf(line: number, record: Fields): LogRow {
  const { header, type, sequence } = record;
  if (typeof header !== 'string') throw invalidLine(line, 'header must be a text');
  let parts: unknown;
  try {
    parts = JSON.parse(header);
  } catch {
    throw invalidLine(line, 'header is no JSON');
  }
  const [tenantId, position, eventId, ofType, createdMs, actor, requestId] = Array.isArray(parts) ? (parts as unknown[]) : [];
  const [tenant, event] = [toUuid('tenant', String(tenantId)), toUuid('evt', String(eventId))];
  const payload = record['payload'] === null ? record['redacted_payload'] : record['payload'];
  const row: LogRow = {
    tenant: tenant ?? '',
    sequence: Number.isSafeInteger(position) ? BigInt(position as number) : 0n,
    eventId: event ?? '',
    type: String(ofType) as EventType,
    createdMs: Number(createdMs),
    actor: String(actor),
    requestId: String(requestId),
    payload: bytesOf(line, record['payload'] === null ? 'redacted_payload' : 'payload', payload, 'base64'),
    hash: bytesOf(line, 'hash', record['hash'], 'hex'),
  };
  if (tenant === null || event === null || headerOf(row) !== header)
    throw invalidLine(line, 'header must be [tenant_id, sequence, id, type, created_ms, actor, request_id] as an export writes it');
  if (type !== row.type || sequence !== Number(row.sequence)) throw invalidLine(line, 'type and sequence must be those of the header');
  const payloadHash = bytesOf(line, 'payload_hash', record['payload_hash'], 'hex');
  if (record['payload'] === null && row.type !== 'transaction.posted')
    throw invalidLine(line, 'payload may be null only where a transaction was redacted');
  if (record['payload'] === null) row.payloadHash = payloadHash;
  else if (!payloadHash.equals(sha256(row.payload))) throw invalidLine(line, 'payload_hash is not the SHA-256 of payload');
  if (record['payload'] !== null && record['redacted_payload'] !== undefined)
    throw invalidLine(line, 'redacted_payload must be left out where payload is not null');
  return row;
}

function bytesOf(line: number, field: string, text: unknown, encoding: 'hex' | 'base64'): Buffer {
  const bytes = Buffer.from(typeof text === 'string' ? text : '', encoding);
  // Node skips what is none of its digits.
  if (bytes.toString(encoding) !== text || (encoding === 'hex' && bytes.length !== 32))
    throw invalidLine(line, `${field} must be ${encoding === 'hex' ? '32 bytes in hex' : 'base64'}`);
  return bytes;
}
