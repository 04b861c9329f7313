// The bounds of reads by both times, as requests name them.
import type { Client } from '../platform/postgres.ts';
import { invalid } from './fields.ts';
import { placesOf, type Bound } from './totals.ts';

/** What a request is to know: recorded until an instant (milliseconds since the Unix epoch) or a sequence; null: all. */
export type Known = { ms: number } | { sequence: bigint } | null;

/** Up to where a request reads. */
export interface AsOf {
  /** Milliseconds since the Unix epoch, inclusive; null: whenever it counts. */
  asOfMs: number | null;
  known: Known;
}

// The last millisecond of the year 9999.
const latestMs = 253_402_300_799_999n;

/** The bounds of a request; null where it names none. Throws {@link Refusal} naming the field. */
export function asOfOf(request: {
  asOfMs?: bigint | undefined;
  knownMs?: bigint | undefined;
  knownSequence?: bigint | undefined;
}): AsOf | null {
  const asOfMs = request.asOfMs === undefined ? null : boundMs('as_of', request.asOfMs);
  const known = knownOf(request);
  return asOfMs === null && known === null ? null : { asOfMs, known };
}

/** What a request is to know. Throws {@link Refusal} naming the field. */
export function knownOf({ knownMs, knownSequence }: { knownMs?: bigint | undefined; knownSequence?: bigint | undefined }): Known {
  if (knownMs !== undefined && knownSequence !== undefined) {
    throw invalid('known_at', 'oneof', String(knownMs), 'known_at and known_sequence must not be given together');
  }
  if (knownMs !== undefined) return { ms: boundMs('known_at', knownMs) };
  if (knownSequence === undefined) return null;
  if (knownSequence < 0n) throw invalid('known_sequence', 'min', String(knownSequence), 'known_sequence must not be below zero');
  return { sequence: knownSequence };
}

// Nothing counts before 1970, so an earlier bound is no mistake.
function boundMs(field: string, ms: bigint): number {
  if (ms > latestMs) throw invalid(field, 'datetime', String(ms), `${field} must be a time before the year 10000`);
  return Number(ms < 0n ? -1n : ms);
}

/** The last sequence that is known, at most the head's. As {@link placesOf}. */
export async function knownSequenceOf(client: Client, tenant: string, known: Known): Promise<bigint> {
  const { head, places } = await placesOf(client, tenant, known !== null && 'ms' in known ? [known.ms] : []);
  const sequence = places[0] ?? (known !== null && 'sequence' in known ? known.sequence : head);
  return sequence < head ? sequence : head;
}

/** The bound up to which totals are summed. As {@link placesOf}. */
export async function boundOf(client: Client, tenant: string, { asOfMs, known }: AsOf): Promise<Bound> {
  return { effectiveMs: asOfMs ?? Infinity, sequence: await knownSequenceOf(client, tenant, known) };
}
