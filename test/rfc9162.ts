// Checks of Merkle proofs by the algorithms of RFC 9162, which share no code with the product.
import { createHash } from 'node:crypto';

/** SHA-256 of parts, one after the other. */
export const sha = (...parts: Uint8Array[]): Buffer => createHash('sha256').update(Buffer.concat(parts)).digest();

/** The hash of a leaf. */
export const leaf = (data: Uint8Array): Buffer => sha(Buffer.of(0), data);

/** The hash of a node. */
export const node = (left: Uint8Array, right: Uint8Array): Buffer => sha(Buffer.of(1), left, right);

/** The root to which a path leads (2.1.3.2). Throws where the path has another length than it must have. */
export function rootOfPath(index: number, size: number, hash: Buffer, path: Uint8Array[]): Buffer {
  let [fn, sn, root] = [index, size - 1, hash];
  for (const sibling of path) {
    if (sn === 0) throw new Error('the path is too long');
    if (fn % 2 === 1 || fn === sn) {
      root = node(sibling, root);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
    } else root = node(root, sibling);
    [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  }
  if (sn !== 0) throw new Error('the path is too short');
  return root;
}

/** Whether a path proves that one tree begins with another (2.1.4.2). */
export function isConsistent(old: number, size: number, oldRoot: Buffer, root: Buffer, path: Uint8Array[]): boolean {
  if (old === size) return path.length === 0 && oldRoot.equals(root);
  const [first, ...rest] = Number.isInteger(Math.log2(old)) ? [oldRoot, ...path] : path;
  let [fn, sn] = [old - 1, size - 1];
  while (fn % 2 === 1) [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  let [fr, sr]: [Buffer, Buffer] = [Buffer.from(first), Buffer.from(first)];
  for (const hash of rest) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      [fr, sr] = [node(hash, fr), node(hash, sr)];
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
    } else sr = node(sr, hash);
    [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  }
  return fr.equals(oldRoot) && sr.equals(root) && sn === 0;
}
