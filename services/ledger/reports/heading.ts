// What every report begins with: the books' settings, the state of the log that it reads, and its parameters in full.
import { epochMs } from '../../platform/postgres.ts';
import type { Snapshot } from '../auditor/snapshot.ts';
import { defaultSettings, type BooksSettings } from '../books.ts';
import { invalid } from '../fields.ts';
import { placesOf } from '../totals.ts';
import { instant, resolved, type Asked } from './parameters.ts';
import type { AsRecorded, Parameters } from './report.ts';

/** The beginning of a report. */
export interface Heading {
  parameters: Parameters;
  asRecorded: AsRecorded;
  timeZone: string;
  books: BooksSettings;
}

/** Resolves a report's parameters at a snapshot. `nowMs`: where it ends if it names no time. Throws {@link Refusal} naming the field. */
export async function readHeading({ client, tenant, head }: Snapshot, asked: Asked, nowMs: number): Promise<Heading> {
  const { rows } = await client.query<{ record: string }>('select record from books where tenant_id = $1', [tenant]);
  const books = rows[0] ? (JSON.parse(rows[0].record) as BooksSettings) : defaultSettings;
  const { timezone: timeZone } = books;
  const { groupBy } = asked;
  if (groupBy?.of === 'transaction' && !books.indexed_metadata.includes(groupBy.key)) {
    const message = 'group_by must name a key of indexed_metadata of the books';
    throw invalid('group_by', 'oneof', `transaction.${groupBy.key}`, message);
  }
  const isAsKnown = asked.knownAt !== null || asked.knownSequence !== null;
  let sequence = asked.knownSequence ?? head.sequence;
  if (asked.knownAt !== null) {
    const { places } = await placesOf(client, tenant, [instant('known_at', asked.knownAt, 'last', timeZone)]);
    sequence = places[0] as bigint;
  }
  const asRecorded = await recordedAt({ client, tenant, head }, sequence);
  const knownMs = isAsKnown ? asRecorded.atMs : null;
  return { parameters: resolved(asked, { timeZone, nowMs, knownSequence: asRecorded.sequence, knownMs }), asRecorded, timeZone, books };
}

async function recordedAt({ client, tenant, head }: Snapshot, sequence: bigint): Promise<AsRecorded> {
  if (sequence >= head.sequence && head.sequence > 0n) return head;
  if (sequence < 1n || head.sequence === 0n) return { sequence: 0n, hash: null, atMs: null };
  const { rows } = await client.query<AsRecorded>(
    `select sequence, hash, ${epochMs('created_at')} as "atMs" from log where tenant_id = $1 and sequence = $2`,
    [tenant, sequence],
  );
  return rows[0] as AsRecorded;
}
