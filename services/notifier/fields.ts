// Validates fields of requests. Internal callers bypass the gateway, so everything is checked here again.
import { toUuid } from '../platform/ids.ts';
import { printable } from '../platform/printable.ts';
import { maxUrlLength, type Targets } from './addresses.ts';
import { Refusal, invalid } from './refusal.ts';
import { eventTypes, statuses } from './webhook.ts';

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

/** A target that may be connected to, as it was sent. */
export async function targetOf(targets: Targets, url: string): Promise<string> {
  if (url === '') throw invalid('url', 'required', 'is required');
  const read = targets.parse(url);
  // The part before an @ may be a password, which is not echoed.
  const echo = url.includes('@') ? '' : url;
  if (read === 'max') throw invalid('url', 'max', `is longer than ${maxUrlLength} characters`, echo);
  if (read === 'https') throw invalid('url', 'https', 'must be an https address', echo);
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
