// Compares a tenant's tree and its checkpoints with the log, event by event, in bounded memory.
import type pg from 'pg';
import { genesisHash, type LogRow } from '../log.ts';
import { leafHash, rootOf, treeRoot } from '../proof/merkle.ts';
import { levelWidth, subtreesFromTiles, tileWidth, type TileName } from '../proof/tiles.ts';
import type { Findings } from './findings.ts';

interface Tile extends TileName {
  hashes: Buffer;
}

/** The tree of the events that were applied. */
export class TreeComparison {
  private readonly tenant: string;
  private readonly findings: Findings;
  private readonly ofTiles: Findings;
  private size = 0;
  /** Hashes of the incomplete tile of each level. */
  private readonly edge: Buffer[][] = [];
  private complete: Tile[] = [];

  /** `findings`: of checkpoints. `ofTiles`: of what the auditor can make again. */
  constructor(tenant: string, findings: Findings, ofTiles: Findings) {
    this.tenant = tenant;
    this.findings = findings;
    this.ofTiles = ofTiles;
  }

  /** Takes the next events; compares checkpoints among them, and tiles that they complete. */
  async apply(client: pg.ClientBase, events: Pick<LogRow, 'hash'>[]): Promise<void> {
    const signed = await this.signedHeads(client, this.size + events.length);
    for (const { hash } of events) {
      this.add(0, leafHash(hash));
      this.size += 1;
      const head = signed.get(this.size);
      if (!head) continue;
      const root = await this.root();
      const [, size, text] = head.note.split('\n');
      if (!head.root.equals(root)) this.findings.add(`the checkpoint of ${this.size} events has another root than the log`);
      else if (size !== String(this.size) || text !== root.toString('base64'))
        this.findings.add(`the checkpoint of ${this.size} events has a note of another one`);
    }
    await this.compare(client, this.complete);
    this.complete = [];
  }

  /** Compares what is left, at the end of the log. `isRewound`: whether an event of it has given the tree another origin. */
  async end(client: pg.ClientBase, isRewound: boolean): Promise<void> {
    const edge = this.edge.map((hashes, level) => ({
      level,
      position: Math.floor(levelWidth(level, this.size) / tileWidth),
      hashes: Buffer.concat(hashes),
    }));
    await this.compare(
      client,
      edge.filter(({ level, hashes }) => level > 0 && hashes.length > 0),
    );
    // Without a tree there are no tiles either.
    const { rows } = await client.query<{ size: string; origin: number; hash: Buffer; at_size: Buffer | null; tiles: string }>(
      `select coalesce(size, 0)::text as size, coalesce(origin, 1) as origin, coalesce(hash, $2) as hash,
        (select hash::bytea from log where tenant_id = $1 and sequence = trees.size) as at_size,
        (select count(*)::text from tiles where tenant_id = $1) as tiles from (select) one left join trees on tenant_id = $1`,
      [this.tenant, genesisHash],
    );
    const tree = rows[0] as (typeof rows)[0];
    if (tree.origin > 1 && !isRewound) this.ofTiles.add(`the tree has the origin ${tree.origin}, and no event has rewound the log`);
    const size = Number(tree.size);
    if (!tree.hash.equals(tree.at_size ?? (size === 0 ? genesisHash : Buffer.alloc(0))))
      this.ofTiles.add(`the tree ends at event ${size} with another hash than the log has there`);
    let wanted = 0;
    for (let level = 1; levelWidth(level, size) > 0; level++) wanted += Math.ceil(levelWidth(level, size) / tileWidth);
    if (Number(tree.tiles) !== wanted) this.ofTiles.add(`the tree of ${size} events has ${tree.tiles} tiles, not ${wanted}`);
  }

  private add(level: number, hash: Buffer): void {
    const hashes = (this.edge[level] ??= []);
    hashes.push(hash);
    if (hashes.length < tileWidth) return;
    const tile = Buffer.concat(hashes);
    this.edge[level] = [];
    if (level > 0) this.complete.push({ level, position: Math.floor(this.size / tileWidth ** (level + 1)), hashes: tile });
    this.add(level + 1, rootOf(tile));
  }

  private root(): Promise<Buffer> {
    return treeRoot(
      this.size,
      subtreesFromTiles((names) => Promise.resolve(names.map(({ level }) => Buffer.concat(this.edge[level] ?? [])))),
    );
  }

  /** The present origin's checkpoints up to a size. */
  private async signedHeads(client: pg.ClientBase, through: number): Promise<Map<number, { root: Buffer; note: string }>> {
    const { rows } = await client.query<{ size: string; root: Buffer; note: string }>({
      name: 'signed_heads',
      text: `select size::text, root, note from checkpoints where tenant_id = $1 and checkpoints.size > $2 and checkpoints.size <= $3
        and origin = coalesce((select origin from trees where tenant_id = $1), 1)`,
      values: [this.tenant, this.size, through],
    });
    return new Map(rows.map(({ size, ...head }) => [Number(size), head]));
  }

  /** Compares tiles as far as the follower has made them. */
  private async compare(client: pg.ClientBase, tiles: Tile[]): Promise<void> {
    if (tiles.length === 0) return;
    const { rows } = await client.query<{ index: number; tree: string; hashes: Buffer | null }>({
      name: 'compared_tiles',
      text: `select wanted.index::int, trees.size::text as tree, tiles.hashes from trees
        cross join unnest($2::int[], $3::bigint[]) with ordinality as wanted (level, position, index)
        left join tiles on tiles.tenant_id = $1 and tiles.level = wanted.level and tiles.position = wanted.position where trees.tenant_id = $1`,
      values: [this.tenant, tiles.map(({ level }) => level), tiles.map(({ position }) => position)],
    });
    for (const { index, tree, hashes } of rows) {
      const { level, position, hashes: replayed } = tiles[index - 1] as Tile;
      const width = Math.min(tileWidth, Math.max(0, levelWidth(level, Number(tree)) - position * tileWidth));
      const isSame = (hashes ?? Buffer.alloc(0)).equals(replayed.subarray(0, 32 * width));
      if (!isSame) this.ofTiles.add(`tile ${level}/${position} of the tree differs from the log`);
    }
  }
}
