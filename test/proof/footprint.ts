// What a posting takes on the disk, by table and index, and which indexes nobody has asked.
import type { Cluster } from '../bench/cluster.ts';

interface Part {
  name: string;
  /** The table of an index; null of a table. */
  of: string | null;
  bytes: number;
}

/** Bytes of each posting by table (with what PostgreSQL keeps beside it) and index, the largest table first, each followed by its indexes. */
export async function footprint(cluster: Cluster): Promise<string[]> {
  const database = cluster.known.databases.ledger.name;
  const [parts, counted] = await Promise.all([
    cluster.query<Part>(
      database,
      `select relname as name, null as of, pg_table_size(oid)::float8 as bytes from pg_class
       where relkind = 'r' and relnamespace = 'public'::regnamespace
       union all
       select indexrelid::regclass::text, indrelid::regclass::text, pg_total_relation_size(indexrelid)::float8 from pg_index
       where indrelid in (select oid from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace)`,
    ),
    cluster.query<{ count: string }>(database, 'select count(*)::text from transactions'),
  ]);
  const postings = Number(counted[0]?.count);
  const whole = (table: string) => sum(parts.filter(({ name, of }) => (of ?? name) === table));
  const tables = parts.filter(({ of }) => of === null).sort((one, other) => whole(other.name) - whole(one.name));
  const row = (title: string, bytes: number) => `| ${title} | ${(bytes / 2 ** 20).toFixed(1)} | ${(bytes / postings).toFixed(1)} |`;
  const lines = tables.flatMap(({ name, bytes }) => {
    const indexes = parts.filter(({ of }) => of === name).sort((one, other) => other.bytes - one.bytes);
    return [row(`\`${name}\``, bytes), ...indexes.map((index) => row(`– index \`${index.name}\``, index.bytes))];
  });
  const total = row(`all, of ${postings.toLocaleString('en')} postings`, sum(parts));
  return ['| table or index | MiB | bytes per posting |', '| --- | --- | --- |', ...lines, total];
}

function sum(parts: Part[]): number {
  return parts.reduce((bytes, part) => bytes + part.bytes, 0);
}

/** Indexes of the ledger that no query has used since its database was made; those that keep something unique have earned their place. */
export async function idleIndexes(cluster: Cluster): Promise<string[]> {
  const rows = await cluster.query<{ name: string }>(
    cluster.known.databases.ledger.name,
    `select indexrelid::regclass::text as name from pg_stat_user_indexes join pg_index using (indexrelid)
     where idx_scan = 0 and not indisunique and not indisprimary order by 1`,
  );
  return rows.map(({ name }) => name);
}
