// Checks hash chains in the browser: of the log of events, and of the team's audit log.
import type { AuditEntry, Event } from '../../clients/typescript/ledger.ts';

type Linked = Pick<Event, 'sequence' | 'hash' | 'previous_hash'>;

/** The first sequence that leaves a gap or does not name the hash of the event before; undefined: all fit. Oldest first. */
export function brokenLink(events: readonly Linked[]): number | undefined {
  return events.find((event, index) => {
    const before = events[index - 1];
    return before && (event.sequence !== before.sequence + 1 || event.previous_hash !== before.hash);
  })?.sequence;
}

const bytesOf = (hex: string): Uint8Array<ArrayBuffer> => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
const hexOf = (bytes: ArrayBuffer): string => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
const sha256 = async (bytes: Uint8Array<ArrayBuffer>): Promise<string> => hexOf(await crypto.subtle.digest('SHA-256', bytes));

const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value;

/** The first sequence whose hash is not that of its content and the entry before; undefined: all are. Newest first, as the API lists them. */
export async function forgedEntry(entries: readonly AuditEntry[]): Promise<number | undefined> {
  let previous: string | undefined;
  for (const { hash, previous_hash: named, ...content } of entries.toReversed()) {
    const inner = await sha256(new TextEncoder().encode(JSON.stringify(content, sorted)));
    const own = await sha256(bytesOf(named + inner));
    if (own !== hash || (previous !== undefined && previous !== named)) return content.sequence;
    previous = hash;
  }
  return undefined;
}
