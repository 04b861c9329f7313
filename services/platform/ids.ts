// Identifiers: TypeIDs (a prefix and 26 characters of Crockford base32 over a UUIDv7) on every wire, `uuid` in the database.
// https://github.com/jetify-com/typeid/tree/main/spec
import { randomFillSync, randomInt } from 'node:crypto';
import { fromUUIDBytes, toUUIDBytes, type TypeId } from 'typeid-js';
import { v7 } from 'uuid';

/** The kind of thing that an identifier names. */
export type Prefix =
  'tenant' | 'user' | 'key' | 'txn' | 'acc' | 'evt' | 'hold' | 'limit' | 'period' | 'wh_delivery' | 'inv' | 'audit' | 'job' | 'subj';

// The library also accepts upper case: a second spelling of one id would be a second fingerprint of one request.
const suffix = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

// Random bytes for 256 identifiers: a call for each is slow.
const randomness = Buffer.allocUnsafe(16 * 256);
let drawn = randomness.length;

function draw(): Buffer {
  if (drawn === randomness.length) {
    randomFillSync(randomness);
    drawn = 0;
  }
  drawn += 16;
  return randomness.subarray(drawn - 16, drawn);
}

// One buffer for all: the library's own text form is slow.
const bits = Buffer.alloc(16);

/** A new UUIDv7, ordered by time to the millisecond. */
export function newUuid(): string {
  v7({ random: draw() }, bits);
  return uuidText(bits);
}

let last = { ms: NaN, ordinal: 0 };

/**
 * A new UUIDv7 of a time, milliseconds since the Unix epoch, for lists in the order of their ids: those that this process makes in a row for one
 * millisecond are in order as well. They reveal no count.
 */
export function uuidAt(ms: number): string {
  last = { ms, ordinal: last.ms === ms ? last.ordinal + 1 : randomInt(2 ** 30) };
  v7({ msecs: ms, seq: last.ordinal, random: draw() }, bits);
  return uuidText(bits);
}

/** A new identifier, ordered by time. */
export function newId(prefix: Prefix): string {
  v7({ random: draw() }, bits);
  return fromUUIDBytes(prefix, bits);
}

/** The UUID of an identifier, or null where the text is not one of this prefix; any 128 bits are well-formed. */
export function toUuid(prefix: Prefix, id: string): string | null {
  if (!id.startsWith(`${prefix}_`) || !suffix.test(id.slice(prefix.length + 1))) return null;
  bits.set(toUUIDBytes(id as TypeId<Prefix>));
  return uuidText(bits);
}

const text = Buffer.alloc(36, '-');
const figures = Buffer.from('0123456789abcdef');
/** The value of a hexadecimal digit by its character code. */
const digits = new Uint8Array(128);
for (const [value, code] of figures.entries()) digits[code] = value;

/** The text of a UUID's 16 bytes. */
export function uuidText(bytes: Buffer): string {
  for (let from = 0, to = 0; from < 16; from++) {
    if (from === 4 || from === 6 || from === 8 || from === 10) to++;
    text[to++] = figures[(bytes[from] as number) >> 4] as number;
    text[to++] = figures[(bytes[from] as number) & 15] as number;
  }
  return text.toString('latin1');
}

/** The identifier of a UUID. */
export function toId(prefix: Prefix, uuid: string): string {
  writeUuid(bits, 0, uuid);
  return fromUUIDBytes(prefix, bits);
}

/** Writes the 16 bytes of a UUID at an offset. Its digits must be lower case. Without an intermediate text, which every posting would allocate. */
export function writeUuid(bytes: Buffer, offset: number, uuid: string): void {
  for (let index = 0; index < 36; index += 2) {
    if (index === 8 || index === 13 || index === 18 || index === 23) index++;
    bytes[offset++] = ((digits[uuid.charCodeAt(index)] as number) << 4) | (digits[uuid.charCodeAt(index + 1)] as number);
  }
}

const tenantUuids = new Map<string, string>();
const tenantIds = new Map<string, string>();

/** The UUID of a tenant's identifier, or null; cached, because each posting needs one of a few. */
export function tenantUuid(id: string): string | null {
  const uuid = tenantUuids.get(id) ?? toUuid('tenant', id);
  if (uuid !== null) cache(tenantUuids, id, uuid);
  return uuid;
}

/** The identifier of a tenant's UUID; cached. */
export function tenantId(uuid: string): string {
  const id = tenantIds.get(uuid) ?? toId('tenant', uuid);
  cache(tenantIds, uuid, id);
  return id;
}

function cache(known: Map<string, string>, key: string, value: string): void {
  if (known.has(key)) return;
  if (known.size >= 10_000) known.clear();
  known.set(key, value);
}
