// The bounds of reads by both times in queries.
import { Type } from 'typebox';
import { validationError } from './errors.ts';
import { echo } from './validation-messages.ts';
import { instant, whole } from './fields.ts';
import type { Services } from './services.ts';

/** A time in a query: a day of the books’ time zone, or RFC 3339. */
export function timeOfBooks(description: string, example = '2030-01-31'): typeof instant {
  return { ...instant, description, example } as typeof instant;
}

/** What a read is to know. */
export const known = {
  known_at: Type.Optional(
    timeOfBooks('Only what was recorded until then: a day of the books’ time zone (its last millisecond), or RFC 3339. All by default.'),
  ),
  known_sequence: Type.Optional(
    whole(0, Number.MAX_SAFE_INTEGER, {
      description: 'The same by `sequence`, instead of `known_at`: the answer is the same for ever.',
      example: 31,
    }),
  ),
};

/** Up to where a read counts, and what it is to know. */
export const asOf = {
  as_of: Type.Optional(
    timeOfBooks(
      'Only what counts (`effective_at`) until then: a day of the books’ time zone (its last millisecond), or RFC 3339. All by default.',
    ),
  ),
  ...known,
};

interface Query {
  as_of?: string;
  known_at?: string;
  known_sequence?: number;
}

interface Bounds {
  asOfMs: bigint | undefined;
  knownMs: bigint | undefined;
  knownSequence: bigint | undefined;
}

/** The bounds of a query as the ledger takes them. Throws `validation_failed` naming the field. */
export async function asOfRequest(times: Services['times'], tenantId: string, query: Query): Promise<Bounds> {
  const { as_of: at, known_at: knownAt, known_sequence: knownSequence } = query;
  if (knownAt !== undefined && knownSequence !== undefined) {
    const message = 'known_at and known_sequence must not be given together';
    throw validationError([{ field: 'known_at', tag: 'oneof', value: echo(knownAt), message }]);
  }
  return {
    asOfMs: await times.instant(tenantId, 'as_of', at, 'last'),
    knownMs: await times.instant(tenantId, 'known_at', knownAt, 'last'),
    knownSequence: knownSequence === undefined ? undefined : BigInt(knownSequence),
  };
}
