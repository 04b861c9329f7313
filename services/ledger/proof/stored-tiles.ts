// Reads tiles of a tenant's tree: level 0 from the hashes in the log, higher levels from the table that the follower fills.
import { bigintArray, plainArray } from '../../platform/arrays.ts';
import { readTenant, type Client, type Connections, type Statement } from '../../platform/postgres.ts';
import { leafHash, type ReadSubtrees } from './merkle.ts';
import { subtreesFromTiles, tileWidth, type TileName } from './tiles.ts';

/** Runs statements and answers their rows. */
export type Query = (...statements: Statement[]) => Promise<unknown[][]>;

/** In a transaction that sees the tenant's rows. */
export const queryOf =
  (client: Client): Query =>
  (...statements) =>
    Promise.all(statements.map(async (statement) => (await client.query(statement)).rows as unknown[]));

/** In a transaction of its own. */
export const readOnly =
  (connections: Connections, tenant: string): Query =>
  (...statements) =>
    readTenant(connections, tenant, ...statements);

/** A reader of the subtrees of a tenant's tree. */
export function storedSubtrees(query: Query, tenant: string): ReadSubtrees {
  return subtreesFromTiles(async (names) => {
    const byName = await storedTiles(query, tenant, names);
    return names.map(({ level, position }) => byName.get(`${level}/${position}`) ?? Buffer.alloc(0));
  });
}

/** Tiles by `<level>/<position>`, as far as they are there. */
async function storedTiles(query: Query, tenant: string, names: TileName[]): Promise<Map<string, Buffer>> {
  const higher = names.filter(({ level }) => level > 0);
  const lowest = names.filter(({ level }) => level === 0).map(({ position }) => position);
  const [entries = [], tiles = []] = await query(entryBundles(tenant, lowest), {
    name: 'stored_tiles',
    text: `select t.level || '/' || t.position as name, t.hashes from unnest($2::smallint[], $3::bigint[]) as wanted (level, position)
      join tiles t on t.tenant_id = $1 and t.level = wanted.level and t.position = wanted.position`,
    values: [tenant, plainArray(higher.map(({ level }) => level)), plainArray(higher.map(({ position }) => position))],
  });
  const byName = new Map((tiles as { name: string; hashes: Buffer }[]).map(({ name, hashes }) => [name, hashes]));
  for (const { position, hashes } of entries as EntryBundle[]) byName.set(`0/${position}`, leavesOf(hashes));
  return byName;
}

interface EntryBundle {
  position: bigint;
  /** Hashes of events. */
  hashes: Buffer;
}

/** The statement that reads the hashes of the events under tiles of level 0. */
function entryBundles(tenant: string, positions: number[]): Statement {
  return {
    name: 'entry_bundles',
    // One range of the primary key after the other: as a join the planner may read the whole log.
    text: `select position, hashes from unnest($2::bigint[]) as position cross join lateral (
      select string_agg(hash::bytea, '' order by sequence) as hashes from (
        select sequence, hash from log where tenant_id = $1 and sequence > position * ${tileWidth} order by sequence limit ${tileWidth}) l) bundle
      where hashes is not null`,
    values: [tenant, bigintArray(positions.map(BigInt))],
  };
}

/** The hashes of the events under a tile of level 0, concatenated: the entries of the log. */
export async function readEntries(query: Query, tenant: string, position: number): Promise<Buffer> {
  const [[bundle]] = (await query(entryBundles(tenant, [position]))) as [EntryBundle[]];
  return bundle?.hashes ?? Buffer.alloc(0);
}

/** One tile, empty where it is not there. */
export async function readTile(query: Query, tenant: string, name: TileName): Promise<Buffer> {
  return [...(await storedTiles(query, tenant, [name])).values()][0] ?? Buffer.alloc(0);
}

/** The hashes of leaves, concatenated, whose data are hashes of events. */
export function leavesOf(eventHashes: Buffer): Buffer {
  const leaves = Buffer.allocUnsafe(eventHashes.length);
  for (let at = 0; at < leaves.length; at += 32) leaves.set(leafHash(eventHashes.subarray(at, at + 32)), at);
  return leaves;
}
