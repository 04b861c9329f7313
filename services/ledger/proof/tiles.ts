// Tiles of a Merkle tree, https://c2sp.org/tlog-tiles: 256 hashes of one level each; a hash of level L is the root of a complete tile of L - 1.
import { rootOf, type ReadSubtrees, type Subtree } from './merkle.ts';

/** Hashes of a complete tile. */
export const tileWidth = 256;

const tileHeight = 8;

/** A tile by its level and its position in the level. */
export interface TileName {
  level: number;
  position: number;
}

/** Hashes that a tile gains, after those that it has. */
export interface TileGrowth extends TileName {
  /** Hashes that it has. */
  width: number;
  hashes: Buffer;
}

/** How many hashes a level has in a tree of `size` leaves. */
export const levelWidth = (level: number, size: number): number => Math.floor(size / tileWidth ** level);

/** A reader of subtrees over a reader of tiles, whose tiles may have more hashes than the tree that is read, in the order of their names. */
export function subtreesFromTiles(readTiles: (names: TileName[]) => Promise<Buffer[]>): ReadSubtrees {
  return async (subtrees) => {
    const places = subtrees.map(placeOf);
    const names = new Map(places.map(({ level, position }) => [`${level}/${position}`, { level, position }]));
    const tiles = await readTiles([...names.values()]);
    const byName = new Map([...names.keys()].map((name, index) => [name, tiles[index] as Buffer]));
    return places.map(({ level, position, first, count }) => {
      const tile = byName.get(`${level}/${position}`) as Buffer;
      if (tile.length < 32 * (first + count)) throw new Error(`tile ${level}/${position} has ${tile.length / 32} hashes, too few`);
      return rootOf(tile.subarray(32 * first, 32 * (first + count)));
    });
  };
}

function placeOf({ height, index }: Subtree): TileName & { first: number; count: number } {
  const level = Math.floor(height / tileHeight);
  const count = 2 ** (height % tileHeight);
  return { level, position: Math.floor((index * count) / tileWidth), first: (index * count) % tileWidth, count };
}

/** The incomplete tiles that {@link growTiles} needs where a tree grows from one size to another: those that become complete. */
export function tilesToComplete(from: number, to: number): TileName[] {
  const names: TileName[] = [];
  for (let level = 0; levelWidth(level + 1, to) > levelWidth(level + 1, from); level++) {
    const width = levelWidth(level, from);
    if (width % tileWidth > 0) names.push({ level, position: Math.floor(width / tileWidth) });
  }
  return names;
}

/**
 * What tiles of level 1 and higher gain where a tree of `size` leaves gets more, whose hashes are concatenated. `incomplete`: hashes of the tiles
 * that {@link tilesToComplete} names, in its order.
 */
export function growTiles(size: number, leaves: Buffer, incomplete: Buffer[]): TileGrowth[] {
  const to = size + leaves.length / 32;
  const begun = new Map(tilesToComplete(size, to).map(({ level }, index) => [level, incomplete[index] as Buffer]));
  const growths: TileGrowth[] = [];
  let hashes = leaves;
  for (let level = 0; ; level++) {
    const count = levelWidth(level + 1, to) - levelWidth(level + 1, size);
    if (count === 0) return growths;
    const all = Buffer.concat([begun.get(level) ?? Buffer.alloc(0), hashes]);
    hashes = Buffer.concat(Array.from({ length: count }, (_, index) => rootOf(all.subarray(tileBytes * index, tileBytes * (index + 1)))));
    growths.push(...cut(level + 1, levelWidth(level + 1, size), hashes));
  }
}

const tileBytes = 32 * tileWidth;

/** The hashes of a level from one on, as growths of its tiles. */
function cut(level: number, from: number, hashes: Buffer): TileGrowth[] {
  const growths: TileGrowth[] = [];
  for (let at = 0; at < hashes.length;) {
    const place = from + at / 32;
    const width = place % tileWidth;
    const end = at + 32 * (tileWidth - width);
    growths.push({ level, position: Math.floor(place / tileWidth), width, hashes: hashes.subarray(at, end) });
    at = end;
  }
  return growths;
}
