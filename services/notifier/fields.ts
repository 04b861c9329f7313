// Validates fields of requests. Internal callers bypass the gateway, so everything is checked here again.
import { toUuid } from '../platform/ids.ts';
import { printable } from '../platform/printable.ts';
import { maxUrlLength, type Targets } from './addresses.ts';
import { Refusal, invalid } from './refusal.ts';
import { eventTypes, reservedHeaders, statuses } from './webhook.ts';

/** The UUID of a tenant's id. */
export function tenantOf(id: string): string {
  if (id === '') throw invalid('tenant_id', 'required', 'is required');
  const uuid = toUuid('tenant', id);
  if (uuid === null) throw invalid('tenant_id', 'id', 'is not a tenant’s id', id);
  return uuid;
}

/** The UUID of a delivery's id. */
export function deliveryOf(id: string): string {
  const uuid = toUuid('wh_delivery', id);
  if (uuid === null) throw new Refusal('invalid_delivery_id', 'Invalid delivery ID');
  return uuid;
}

/** UUIDs of the events of a filter; null: any event. */
export function eventIdsOf(ids: string[]): string[] | null {
  if (ids.length > 1_000) throw invalid('event_ids', 'max', 'has more than 1000 items');
  const uuids = ids.map((id, index) => {
    const uuid = toUuid('evt', id);
    if (uuid === null) throw invalid(`event_ids[${index}]`, 'id', 'is not an event’s id', id);
    return uuid;
  });
  return uuids.length === 0 ? null : uuids;
}

/** A target that may be connected to, as it was sent. */
export async function targetOf(targets: Targets, url: string): Promise<string> {
  if (url === '') throw invalid('url', 'required', 'is required');
  const read = targets.parse(url);
  // The part before an @ may be a password, which is not echoed.
  const echo = url.includes('@') ? '' : url;
  if (read === 'max') throw invalid('url', 'max', `is longer than ${maxUrlLength} characters`, echo);
  if (read === 'https') throw invalid('url', 'https', 'must be an https address', echo);
  if (read === 'credentials') throw invalid('url', 'url', 'must not contain a user or password: credentials go into headers');
  if (read === 'url') throw invalid('url', 'url', 'is not an address that can be delivered to', echo);
  if (!(await targets.isAllowed(read))) throw invalid('url', 'url', 'resolves to an address that is not public', url);
  return url;
}

/** Event types, each once, in the order in which they were sent. */
export function eventsOf(events: string[]): string[] {
  if (events.length === 0) throw invalid('events', 'min', 'needs at least one event type');
  const unknown = events.findIndex((each) => !(eventTypes as readonly string[]).includes(each));
  if (unknown >= 0) throw invalid(`events[${unknown}]`, 'oneof', `must be one of ${eventTypes.join(', ')}`, events[unknown] ?? '');
  return [...new Set(events)];
}

const maxHeaders = 10;
const maxHeaderName = 128;
const maxHeaderValue = 4096;

/** Headers of the tenant's own, value by name in the order in which they were sent; no value appears in a message. */
export function headersOf(headers: readonly { name: string; value?: string | undefined }[]): Record<string, string> {
  if (headers.length > maxHeaders) throw invalid('headers', 'max', `has more than ${maxHeaders} items`);
  const names = new Set<string>();
  for (const [index, { name, value = '' }] of headers.entries()) {
    const field = `headers[${index}]`;
    if (name === '') throw invalid(`${field}.name`, 'required', 'is required');
    if (name.length > maxHeaderName) throw invalid(`${field}.name`, 'max', `is longer than ${maxHeaderName} characters`);
    // A token of RFC 9110, section 5.6.2. Another text may be a value in the wrong place, and is not echoed.
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) throw invalid(`${field}.name`, 'code', 'is not the name of an HTTP header');
    const key = name.toLowerCase();
    if (reservedHeaders.has(key)) throw invalid(`${field}.name`, 'oneof', 'is a header that the ledger or the connection sets', name);
    if (names.has(key)) throw invalid(`${field}.name`, 'unique', 'is there twice', name);
    names.add(key);
    if (value === '') throw invalid(`${field}.value`, 'required', 'is required');
    if (value.length > maxHeaderValue) throw invalid(`${field}.value`, 'max', `is longer than ${maxHeaderValue} characters`);
    if (!/^[!-~]([ -~]*[!-~])?$/.test(value)) {
      throw invalid(`${field}.value`, 'printable', 'must be printable ASCII characters without a blank at either end');
    }
  }
  return Object.fromEntries(headers.map(({ name, value = '' }) => [name, value]));
}

/** A secret of the tenant's own; it appears in no message. */
export function secretOf(secret: string): string {
  const length = Array.from(secret).length;
  if (length < 16) throw invalid('secret', 'min', 'is shorter than 16 characters');
  if (length > 255) throw invalid('secret', 'max', 'is longer than 255 characters');
  if (!printable.test(secret)) throw invalid('secret', 'printable', 'must consist of printable characters');
  return secret;
}

/** The value as a list of one, or all values where none was sent. Throws for an unknown value. */
export function filterOf(field: 'event_type' | 'status', value: string | undefined): string[] {
  const words: readonly string[] = field === 'status' ? statuses : eventTypes;
  if (value === undefined) return [...words];
  if (!words.includes(value)) throw invalid(field, 'oneof', `must be one of ${words.join(', ')}`, value);
  return [value];
}

/** A whole number within bounds. */
export function integer(field: string, value: number, min: number, max: number): number {
  if (value < min) throw invalid(field, 'min', `is below ${min}`, String(value));
  if (value > max) throw invalid(field, 'max', `is above ${max}`, String(value));
  return value;
}

/** A time, milliseconds since the Unix epoch, or null where none was sent. */
export function timeOf(field: string, ms: bigint | undefined): number | null {
  if (ms === undefined) return null;
  // The years 0001 to 9999, which both PostgreSQL and ISO 8601 can write.
  if (ms < -62_135_596_800_000n || ms > 253_402_300_799_999n) throw invalid(field, 'datetime', 'is not a time', String(ms));
  return Number(ms);
}
