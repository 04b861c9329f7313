// Merkle trees of RFC 6962: roots and proofs over the hashes of complete subtrees, which a reader supplies.
import { sha256 } from '../../platform/digest.ts';

/** The subtree of leaves `index * 2 ** height` to `(index + 1) * 2 ** height`, the last excluded. */
export interface Subtree {
  height: number;
  index: number;
}

/** Answers the hashes of complete subtrees, in their order. */
export type ReadSubtrees = (subtrees: Subtree[]) => Promise<Buffer[]>;

/** Leaves from one index to another, the last excluded, that a tree has as one of its nodes. */
type Range = readonly [from: number, to: number];

/** The hash of a leaf: sha256(0x00 ‖ data). */
export function leafHash(data: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(1 + data.length);
  bytes[0] = 0;
  bytes.set(data, 1);
  return sha256(bytes);
}

/** The hash of a node: sha256(0x01 ‖ left ‖ right). */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(65);
  bytes[0] = 1;
  bytes.set(left, 1);
  bytes.set(right, 33);
  return sha256(bytes);
}

/** The root over hashes of complete subtrees of one height, concatenated; at least one. */
export function rootOf(hashes: Buffer): Buffer {
  const count = hashes.length / 32;
  if (count === 1) return hashes;
  const middle = 32 * largestBelow(count);
  return nodeHash(rootOf(hashes.subarray(0, middle)), rootOf(hashes.subarray(middle)));
}

/** The root of the first `size` leaves; of none: sha256 of nothing. */
export async function treeRoot(size: number, read: ReadSubtrees): Promise<Buffer> {
  if (size === 0) return sha256('');
  return (await hashesOf([[0, size]], read))[0] as Buffer;
}

/** The path of leaf `index` in the tree of `size` leaves, from its sibling up (RFC 6962, 2.1.1). `index` < `size`. */
export function inclusionProof(index: number, size: number, read: ReadSubtrees): Promise<Buffer[]> {
  const path: Range[] = [];
  for (let from = 0, to = size; to - from > 1;) {
    const middle = from + largestBelow(to - from);
    path.push(index < middle ? [middle, to] : [from, middle]);
    if (index < middle) to = middle;
    else from = middle;
  }
  return hashesOf(path.reverse(), read);
}

/** The proof that the tree of `size` leaves begins with that of `old` leaves (RFC 6962, 2.1.2). 0 < `old` ≤ `size`. */
export function consistencyProof(old: number, size: number, read: ReadSubtrees): Promise<Buffer[]> {
  const path: Range[] = [];
  let from = 0;
  for (let to = size; old < to;) {
    const middle = from + largestBelow(to - from);
    path.push(old <= middle ? [middle, to] : [from, middle]);
    if (old <= middle) to = middle;
    else from = middle;
  }
  // The verifier knows the old root, but no other subtree of the old tree.
  if (from > 0) path.push([from, old]);
  return hashesOf(path.reverse(), read);
}

async function hashesOf(ranges: Range[], read: ReadSubtrees): Promise<Buffer[]> {
  const subtrees = ranges.map(subtreesOf);
  const hashes = await read(subtrees.flat());
  let from = 0;
  return subtrees.map(({ length }) => {
    const parts = hashes.slice(from, (from += length));
    return parts.reduceRight((right, left) => nodeHash(left, right));
  });
}

/** The complete subtrees that a node consists of, the highest first. */
function subtreesOf([from, to]: Range): Subtree[] {
  const subtrees: Subtree[] = [];
  for (let next = from; next < to;) {
    let height = 0;
    while (2 ** (height + 1) <= to - next) height++;
    subtrees.push({ height, index: next / 2 ** height });
    next += 2 ** height;
  }
  return subtrees;
}

/** The largest power of two below a count of at least 2. */
function largestBelow(count: number): number {
  let power = 1;
  while (power * 2 < count) power *= 2;
  return power;
}
