// The formats of API keys, refresh tokens and scopes. Pure: no database, no network.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { scopes } from '../platform/roles.ts';

/** The index of the first unknown scope, or -1. */
export function unknownScope(given: string[]): number {
  return given.findIndex((scope) => !scopes.some((known) => known === scope));
}

/** Scopes without repetitions, in the order in which they first appear. */
export function foldScopes(given: string[]): string[] {
  return [...new Set(given)];
}

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; rest > 0n; rest /= 62n) text = (digits[Number(rest % 62n)] ?? '') + text;
  return text.padStart(length, '0');
}

// 62^43 is the first power of 62 above 2^256.
function secret(): string {
  return base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
}

// 62^6 is the first power of 62 above 2^32.
function checksum(text: string): string {
  return base62(BigInt(crc32(text)), 6);
}

/**
 * The text of a new key: `lk_live_<26 characters of its id>_<43 base62 of 256 random bits><6 base62 of CRC32>`, the checksum over all
 * before it, so that secret scanners and this service recognize a key without a look-up. `id`: the key's TypeID.
 */
export function newKeyText(id: string): string {
  const text = `lk_live_${id.slice('key_'.length)}_${secret()}`;
  return text + checksum(text);
}

const keyShape = /^lk_live_([0-7][0-9a-hjkmnp-tv-z]{25})_[0-9A-Za-z]{43}([0-9A-Za-z]{6})$/;

/** The TypeID within a key's text, or null where shape or checksum is wrong. */
export function idOfKeyText(text: string): string | null {
  const found = keyShape.exec(text);
  if (found?.[2] !== checksum(text.slice(0, -6))) return null;
  return `key_${found[1] ?? ''}`;
}

/** The stored hash of a key or refresh token: SHA-256 as hex. Their 256 random bits need no slow hash. */
export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Whether two hashes of {@link hashOf} are equal, in constant time. */
export function sameHash(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

/** A new refresh token: 256 random bits. */
export function newRefreshToken(): string {
  return `lrt_${secret()}`;
}

/** A new token for a mail or a browser, used once: 256 random bits. */
export function newToken(): string {
  return secret();
}
