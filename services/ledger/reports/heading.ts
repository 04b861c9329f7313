// What every report begins with: the books' settings, the state of the log that it reads, and its parameters in full.
import { epochMs } from '../../platform/postgres.ts';
import type { Snapshot } from '../auditor/snapshot.ts';
import { defaultSettings, type BooksSettings } from '../books.ts';
import { Refusal } from '../accounting.ts';
import { invalid } from '../fields.ts';
import { readyKeys } from '../metadata-indexes.ts';
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

/** Resolves a report's parameters at a snapshot. `nowMs`: where it ends if it names no time. Throws {@link Refusal} naming the field, also `index_building`. */
export async function readHeading({ client, tenant, head }: Snapshot, asked: Asked, nowMs: number): Promise<Heading> {
  const { rows } = await client.query<{ record: string | null; ready: string[] | null; frozen: boolean }>(
    `select record, ready, exists (select from freezes where tenant_id = $1) as frozen
      from (select) one left join (select record, array(${readyKeys}) as ready from books where tenant_id = $1) own on true`,
    [tenant],
  );
  const { record = null, ready, frozen = false } = rows[0] ?? {};
  const books = record === null ? defaultSettings : (JSON.parse(record) as BooksSettings);
  const { timezone: timeZone } = books;
  if (asked.groupBy?.of === 'transaction') assertIndexed(asked.groupBy.key, books, ready ?? []);
  const isAsKnown = asked.knownAt !== null || asked.knownSequence !== null;
  let sequence = asked.knownSequence ?? head.sequence;
  if (asked.knownAt !== null) {
    const { places } = await placesOf(client, tenant, [instant('known_at', asked.knownAt, 'last', timeZone)]);
    sequence = places[0] as bigint;
  }
  const asRecorded = { ...(await recordedAt({ client, tenant, head }, sequence)), frozen };
  const knownMs = isAsKnown ? asRecorded.atMs : null;
  // The clock of the ledger may be ahead: what it has just recorded counts.
  const endMs = Math.max(nowMs, head.atMs ?? 0);
  return {
    parameters: resolved(asked, { timeZone, nowMs: endMs, knownSequence: asRecorded.sequence, knownMs }),
    asRecorded,
    timeZone,
    books,
  };
}

function assertIndexed(key: string, { indexed_metadata: declared }: BooksSettings, ready: string[]): void {
  const value = `transaction.${key}`;
  if (!declared.includes(key)) throw invalid('group_by', 'oneof', value, 'group_by must name a key of indexed_metadata of the books');
  if (ready.includes(key)) return;
  const message = `the index of ${key} is being built: try again later`;
  throw new Refusal('index_building', message, { field: 'group_by', tag: 'index_building', value });
}

async function recordedAt({ client, tenant, head }: Snapshot, sequence: bigint): Promise<Omit<AsRecorded, 'frozen'>> {
  if (sequence >= head.sequence && head.sequence > 0n) return head;
  if (sequence < 1n || head.sequence === 0n) return { sequence: 0n, hash: null, atMs: null };
  const { rows } = await client.query<Omit<AsRecorded, 'frozen'>>(
    `select sequence, hash, ${epochMs('created_at')} as "atMs" from log where tenant_id = $1 and sequence = $2`,
    [tenant, sequence],
  );
  return rows[0] as Omit<AsRecorded, 'frozen'>;
}
