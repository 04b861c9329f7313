// Checks the fields of a request. gRPC is an interface of its own, so nothing relies on the gateway's checks.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { cursorRule, decodeCursor, uuidPosition, type CursorScope } from '../platform/cursor.ts';
import { withoutPort } from '../platform/forwarded.ts';
import { toUuid, type Prefix } from '../platform/ids.ts';
import { Refusal } from './refusal.ts';

/** The error for an invalid field; `value` is what was sent, empty for a secret. */
export function invalid(field: string, tag: string, message: string, value = ''): Refusal {
  return new Refusal('validation_failed', `${field} ${message}`, { field, tag, value });
}

function storable(field: string, value: string): void {
  // PostgreSQL stores neither; an unpaired surrogate can come through JSON.
  if (value.includes('\0') || !value.isWellFormed()) throw invalid(field, 'unicode', 'has a character that is not text');
}

function codePoints(value: string): number {
  return Array.from(value).length;
}

/** Text of 1 to `max` code points. */
export function text(field: string, value: string, max: number): string {
  if (value === '') throw invalid(field, 'required', 'is required');
  storable(field, value);
  if (codePoints(value) > max) throw invalid(field, 'max', `is longer than ${max} characters`, value.slice(0, max));
  return value;
}

/** Text that may be absent or empty, as it was sent. */
export function optionalText(field: string, value: string | undefined, max: number): string | null {
  return value === undefined || value === '' ? (value ?? null) : text(field, value, max);
}

/** An email address: something at a host, without blanks; in Unicode form NFC, so that two ways to type a letter are one address. */
export function email(field: string, value: string): string {
  const address = text(field, value.normalize('NFC'), 254);
  if (!/^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u.test(address)) throw invalid(field, 'email', 'is not an email address', address);
  return address;
}

/** A new password, of at least 8 characters as they were typed, normalized as {@link password} does; it appears in no message. */
export function newPassword(field: string, value: string): string {
  const normalized = password(field, value);
  if (codePoints(value) < 8) throw invalid(field, 'min', 'is shorter than 8 characters');
  return normalized;
}

/**
 * A password in NFC (RFC 8265, section 4.2), because keyboards encode one letter differently. The limit is on the length as typed. It appears in no
 * message.
 */
export function password(field: string, value: string): string {
  if (value === '') throw invalid(field, 'required', 'is required');
  storable(field, value);
  if (codePoints(value) > 128) throw invalid(field, 'max', 'is longer than 128 characters');
  return value.normalize('NFC');
}

// IPv6 ranges that end in an IPv4 address: mapped, and NAT64.
const embeddedIpv4Ranges = ['::ffff:0:0/96', '64:ff9b::/96'].map((range) => ipaddr.IPv6.parseCIDR(range));

/**
 * The key of a client for limits: an IPv4 address (also one that is mapped into IPv6, or translated by NAT64: RFC 6052), the /64 of another IPv6
 * address (one subscriber has at least that), or the text itself where it is no address. A port is cut off: it differs by connection.
 */
export function clientAddress(value: string): string {
  const address = withoutPort(optionalText('client_address', value, 255) ?? '').replace(/%.*$/, '');
  if (isIP(address) !== 6) return address.slice(0, 64);
  // Normalized by URL first, because ipaddr.js takes some dotted addresses for mapped ones that are not.
  const ipv6 = ipaddr.IPv6.parse(new URL(`http://[${address}]`).hostname.slice(1, -1));
  if (embeddedIpv4Ranges.some((range) => ipv6.match(range))) return ipv6.toByteArray().slice(12).join('.');
  const prefix = ipv6.parts.slice(0, 4).map((part) => part.toString(16));
  return `${prefix.join(':')}::/64`;
}

/** Six digits of a second factor, or a recovery code, without the blanks and hyphens that make it readable. It appears in no message. */
export function totpCode(field: string, value: string): string {
  if (value === '') throw invalid(field, 'required', 'is required');
  if (codePoints(value) > 64) throw invalid(field, 'max', 'is longer than 64 characters');
  return value.replaceAll(/[\s-]/g, '').toLowerCase();
}

/** A secret that is looked up; it appears in no message. */
export function secret(field: string, value: string): string {
  if (value === '') throw invalid(field, 'required', 'is required');
  return value;
}

/** One of the given words. */
export function oneOf(field: string, value: string, words: readonly string[]): string {
  if (value === '') throw invalid(field, 'required', 'is required');
  if (!words.includes(value)) throw invalid(field, 'oneof', `must be one of ${words.join(', ')}`, value.slice(0, 255));
  return value;
}

/** A tenant's slug. */
export function slug(field: string, value: string): string {
  if (value === '') throw invalid(field, 'required', 'is required');
  if (value.length < 3 || value.length > 63 || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(value)) {
    throw invalid(field, 'slug', 'must be 3 to 63 lower-case letters and digits with single hyphens between', value.slice(0, 255));
  }
  return value;
}

/** A whole number within bounds. */
export function integer(field: string, value: number, min: number, max: number): number {
  if (value < min) throw invalid(field, 'min', `is below ${min}`, String(value));
  if (value > max) throw invalid(field, 'max', `is above ${max}`, String(value));
  return value;
}

/** Which page of a list. */
export interface PageRequest {
  /** 0: 50. */
  limit: number;
  /** Empty for the first page. */
  cursor: string;
}

/** How many items a page has: 0 means 50. */
export function pageSize(limit: number): number {
  return limit === 0 ? 50 : integer('limit', limit, 1, 100);
}

/** The position after which a page begins; null for the first page. */
export function afterCursor(scope: CursorScope, cursor: string, pattern = uuidPosition): string | null {
  if (cursor === '') return null;
  const position = decodeCursor(scope, cursor, pattern);
  if (position === null) throw invalid('cursor', 'cursor', cursorRule, cursor.slice(0, 255));
  return position;
}

/** The UUID of an identifier. For a malformed one it throws what `otherwise` returns. */
export function uuidOf(prefix: Prefix, id: string, otherwise: () => Refusal): string {
  const uuid = toUuid(prefix, id);
  if (uuid === null) throw otherwise();
  return uuid;
}

/** The error for a user that does not exist: its token is valid. */
export function unknownUser(): Refusal {
  return new Refusal('unauthenticated', 'unknown user');
}

/** The UUID of the user of a call. Throws `unauthenticated` for a malformed identifier. */
export function userUuid(id: string): string {
  return uuidOf('user', id, unknownUser);
}
