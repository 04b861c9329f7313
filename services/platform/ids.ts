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

function draw(): Buffer {
  if (drawn === randomness.length) {
    randomFillSync(randomness);
    drawn = 0;
  }
  drawn += 16;
  return randomness.subarray(drawn - 16, drawn);
}

// Into bytes that are there, and only then made a text: the library's own text took four times as long.
function drawBits(): void {
  // Stryker disable next-line ObjectLiteral: the library's own bytes are as random, only slower
  v7({ random: draw() }, bits);
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
  v7({ msecs: ms, seq: last.ordinal, random: draw() }, bits);
  return uuidText(bits);
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

const dashed = Buffer.alloc(36, '-');
const figures = Buffer.from('0123456789abcdef');
/** What the code of a figure of a UUID is worth. */
const digits = new Uint8Array(128);
for (const [worth, code] of figures.entries()) digits[code] = worth;

/** The text of a UUID's 16 bytes. */
export function uuidText(bytes: Buffer): string {
  for (let at = 0, to = 0; at < 16; at++) {
    if (at === 4 || at === 6 || at === 8 || at === 10) to++;
    dashed[to++] = figures[(bytes[at] as number) >> 4] as number;
    dashed[to++] = figures[(bytes[at] as number) & 15] as number;
  }
  return dashed.toString('latin1');
}

/** The identifier of a UUID. */
export function toId(prefix: Prefix, uuid: string): string {
  writeUuid(bits, 0, uuid);
  return fromUUIDBytes(prefix, bits);
}

/**
 * Writes the 16 bytes of a UUID, whose digits must be in lower case: others would be written as 0. Digit by digit: a copy without the dashes was a twentieth of all that a busy
 * ledger allocated. By a table: figures and letters told apart by a comparison, which is guessed wrong every other time, took 160 ns instead of 55.
 */
export function writeUuid(bytes: Buffer, at: number, uuid: string): void {
  for (let place = 0; place < 36; place += 2) {
    if (place === 8 || place === 13 || place === 18 || place === 23) place++;
    bytes[at++] = ((digits[uuid.charCodeAt(place)] as number) << 4) | (digits[uuid.charCodeAt(place + 1)] as number);
  }
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
