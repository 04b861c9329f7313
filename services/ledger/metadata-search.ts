// Searches of transactions by texts of their metadata under keys that the books index.
import { readTenant, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import type { BooksSettings } from './books.ts';
import { invalid } from './fields.ts';
import { readyKeys } from './metadata-indexes.ts';
import { QueryParameters, type LogRange } from './time-range.ts';

/** Transactions with one of these texts, or one with one of these beginnings, under a key. */
export interface MetadataFilter {
  key: string;
  values: string[];
  prefixes: string[];
}

// Up to so many texts with a prefix are read and sorted; where there are more, the newest transactions are examined one by one.
const maxSorted = 4_000;

// A log that the auditor indexes in one step is not waited for.
const shortLog = 500;

/**
 * Checks that what a search needs is indexed, and returns those of the filters whose prefixes fit few texts. Throws {@link Refusal}:
 * `validation_failed` with the tag `oneof` for a key that is not declared, and `index_building`.
 */
export async function checkIndexes(
  pool: Connections,
  tenant: string,
  { metadata = [], words }: { metadata?: MetadataFilter[] | undefined; words?: string[] | undefined },
): Promise<MetadataFilter[]> {
  if (metadata.length === 0 && words === undefined) return [];
  const withPrefixes = metadata.filter(({ prefixes }) => prefixes.length > 0);
  const query = new QueryParameters(tenant);
  const counts = withPrefixes.map((each) => `(select count(*) from (${textsOf(query, each)} limit ${maxSorted + 1}) as found)`);
  const [rows] = await readTenant<[IndexesRow[]]>(pool, tenant, {
    text: `select (select record from books where tenant_id = $1) as record,
      (select array(${readyKeys}) from books where tenant_id = $1) as ready,
      not exists (select from heads where tenant_id = $1 and sequence > ${shortLog}) or exists (
        select from search_indexes where tenant_id = $1 and name = '' and caught_up) as "hasWords",
      array[${counts.join()}]::bigint[] as counts`,
    values: query.values,
  });
  const { record, ready, hasWords, counts: found } = rows[0] as IndexesRow;
  const declared = record === null ? [] : (JSON.parse(record) as BooksSettings).indexed_metadata;
  for (const { key } of metadata) {
    const field = `metadata.${key}`;
    if (!declared.includes(key)) {
      throw invalid(field, 'oneof', key, `${field} is not indexed: indexed_metadata of the books has ${declared.join(', ') || 'no key'}`);
    }
    if (ready?.includes(key) !== true) throw building(field, key);
  }
  if (words !== undefined && !hasWords) throw building('q', 'q');
  return withPrefixes.filter((_, index) => Number(found[index]) <= maxSorted);
}

interface IndexesRow {
  record: string | null;
  ready: string[] | null;
  /** Words of what was posted long ago are indexed. */
  hasWords: boolean;
  counts: bigint[];
}

function building(field: string, value: string): Refusal {
  return new Refusal('index_building', `the index of ${field} is being built: try again later`, { field, tag: 'index_building', value });
}

/** A statement that reads the newest positions of a filter. One with prefixes must be one of {@link checkIndexes}. */
export function newestWithMetadata(query: QueryParameters, filter: MetadataFilter, range: LogRange, count: string): string {
  const kept = range.keep('m.sequence').map((condition) => ` and ${condition}`);
  if (filter.prefixes.length > 0) {
    // One transaction has one text of a key.
    return `select m.sequence from (${textsOf(query, filter)}) as m where true${kept.join('')} order by m.sequence desc limit ${count}`;
  }
  return `select e.sequence from unnest(${query.value(filter.values)}::text[]) as wanted (value) cross join lateral (
      select m.sequence from transaction_metadata m where m.tenant_id = $1 and m.key = ${query.value(filter.key)} and m.value = wanted.value${kept.join('')}
      order by m.sequence desc limit ${count}) as e
    order by e.sequence desc limit ${count}`;
}

/** How many positions of a filter with prefixes end its search. */
export const allSorted = maxSorted + 1;

/** Whether the transaction `t` fits. */
export function hasMetadata(query: QueryParameters, { key, values, prefixes }: MetadataFilter): string {
  const fits = [
    ...(values.length > 0 ? [`m.value = any(${query.value(values)}::text[])`] : []),
    ...prefixes.map((prefix) => hasPrefix(query, prefix)),
  ].join(' or ');
  return `(select ${fits} from transaction_metadata m where m.tenant_id = $1 and m.sequence = t.sequence and m.key = ${query.value(key)})`;
}

/** Positions of all texts that fit. */
function textsOf(query: QueryParameters, { key, values, prefixes }: MetadataFilter): string {
  const of = `select m.sequence from transaction_metadata m where m.tenant_id = $1 and m.key = ${query.value(key)}`;
  const each = [...values.map((value) => `m.value = ${query.value(value)}`), ...prefixes.map((prefix) => hasPrefix(query, prefix))];
  return each.map((fits) => `${of} and ${fits}`).join(' union all ');
}

// As a range, which an index knows. An indexed text has at most 255 code points, so it stands before the longest one with that beginning.
function hasPrefix(query: QueryParameters, prefix: string): string {
  return `(m.value >= ${query.value(prefix)} and m.value <= ${query.value(prefix + '\u{10ffff}'.repeat(255))})`;
}
