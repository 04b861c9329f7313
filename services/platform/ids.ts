// Identifiers: TypeIDs (a prefix and 26 characters of Crockford base32 over a UUIDv7) on every wire, `uuid` in the database.
// https://github.com/jetify-com/typeid/tree/main/spec
import { randomFillSync, randomInt } from 'node:crypto';
import { fromUUIDBytes, toUUIDBytes, type TypeId } from 'typeid-js';
import { v7 } from 'uuid';

/** What an identifier names. */
export type Prefix = 'tenant' | 'user' | 'key' | 'txn' | 'acc' | 'evt' | 'wh_delivery';

// The library also takes upper case; a second spelling of one id would be a second fingerprint of one request.
const suffix = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

// Drawn in bulk: a call for 16 bytes was one of the ten dearest lines of a posting.
const randomness = Buffer.allocUnsafe(16 * 256);
let drawn = randomness.length;

const bits = Buffer.alloc(16);

// Into bytes that are there, and only then made a text: the library's own text took four times as long.
function drawBits(): void {
  if (drawn === randomness.length) {
    randomFillSync(randomness);
    drawn = 0;
  }
  drawn += 16;
  // Stryker disable next-line ObjectLiteral: the library's own bytes are as random, only slower
  v7({ random: randomness.subarray(drawn - 16, drawn) }, bits);
}

/** A new UUIDv7: ordered by time, by the millisecond. */
export function newUuid(): string {
  drawBits();
  return uuidText(bits);
}

let last = { ms: NaN, ordinal: 0 };

/**
 * A new UUIDv7 of a time, milliseconds since the Unix epoch, for what is listed in the order of its ids: those that one process makes of a
 * millisecond are in order, too, until it makes one of another. They tell nobody how many there are.
 */
export function uuidAt(ms: number): string {
  last = { ms, ordinal: last.ms === ms ? last.ordinal + 1 : randomInt(2 ** 30) };
  return v7({ msecs: ms, seq: last.ordinal });
}

/** A new identifier, ordered by time. */
export function newId(prefix: Prefix): string {
  drawBits();
  return fromUUIDBytes(prefix, bits);
}

/**
 * The UUID of an identifier, or null where the text is not one of this prefix. Any 128 bits will do: what nobody has made is unknown, and not
 * malformed.
 */
export function toUuid(prefix: Prefix, id: string): string | null {
  if (!id.startsWith(`${prefix}_`) || !suffix.test(id.slice(prefix.length + 1))) return null;
  bits.set(toUUIDBytes(id as TypeId<Prefix>));
  return uuidText(bits);
}

/** The text of a UUID's 16 bytes. */
export function uuidText(bytes: Buffer): string {
  const digits = bytes.toString('hex');
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`;
}

/** The identifier of a UUID. */
export function toId(prefix: Prefix, uuid: string): string {
  writeUuid(bits, 0, uuid);
  return fromUUIDBytes(prefix, bits);
}

/**
 * Writes the 16 bytes of a UUID, whose digits are in lower case. Digit by digit: a copy without the dashes was a twentieth of all that a busy
 * ledger allocated.
 */
export function writeUuid(bytes: Buffer, at: number, uuid: string): void {
  for (let place = 0; place < 36; place += 2) {
    if (uuid.charCodeAt(place) === 45) place++;
    bytes[at++] = (digitOf(uuid.charCodeAt(place)) << 4) | digitOf(uuid.charCodeAt(place + 1));
  }
}

// The codes of letters are above those of figures.
function digitOf(code: number): number {
  return code > 96 ? code - 87 : code - 48;
}

const tenantUuids = new Map<string, string>();
const tenantIds = new Map<string, string>();

/** The UUID of a tenant's identifier, or null; remembered, because each posting asks for the same few again. */
export function tenantUuid(id: string): string | null {
  const uuid = tenantUuids.get(id) ?? toUuid('tenant', id);
  // Stryker disable next-line all: what is remembered changes no answer
  if (uuid !== null) remember(tenantUuids, id, uuid);
  return uuid;
}

/** The identifier of a tenant's UUID, remembered as {@link tenantUuid}. */
export function tenantId(uuid: string): string {
  const id = tenantIds.get(uuid) ?? toId('tenant', uuid);
  // Stryker disable next-line all: what is remembered changes no answer
  remember(tenantIds, uuid, id);
  return id;
}

// Stryker disable all: what is remembered, and how much of it, changes no answer
function remember(known: Map<string, string>, key: string, value: string): void {
  if (known.has(key)) return;
  if (known.size >= 10_000) known.clear();
  known.set(key, value);
}
