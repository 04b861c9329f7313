// The shapes of what callers show: API keys, refresh tokens, scopes, addresses. Pure: no database, no network.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { crc32 } from 'node:zlib';

/** What a key may be allowed to do. */
const scopes = [
  'accounts:read',
  'accounts:write',
  'balances:read',
  'transactions:read',
  'transactions:write',
  'webhooks:manage',
  'reports:read',
] as const;

/** Where the first unknown scope stands, or -1. */
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
 * before it, so that scanners and this service tell a key from garbage without a look-up. `id`: the key's TypeID.
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

/** What is stored of a key or refresh token: SHA-256 as hex. Their 256 random bits need no slow hash. */
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

/**
 * What counts as one address for a limit: an IPv4 address, the /64 of an IPv6 address (one subscriber has at least that many), or the
 * text itself where it is no address. Some proxies name a port with it (RFC 7239, section 6), which is another one with each connection.
 */
export function limitedAddress(address: string): string {
  const [, host = address] = /^\[(.*)\](?::\d+)?$/.exec(address) ?? /^([0-9.]+):\d+$/.exec(address) ?? [];
  const text = host.replace(/^::ffff:(?=[0-9.]+$)/i, '').replace(/%.*$/, '');
  if (isIP(text) !== 6) return text.slice(0, 64);
  const [head = '', tail] = text.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined ? [] : tail.split(':');
  // A dotted end stands for two groups, and lies beyond the first four in any case.
  const length = left.length + right.length + (text.includes('.') ? 1 : 0);
  const groups = [...left, ...Array<string>(8 - length).fill('0'), ...right];
  const prefix = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${prefix.join(':')}::/64`;
}
