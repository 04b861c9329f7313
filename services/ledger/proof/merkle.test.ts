// Roots, proofs and tiles against the published vectors of Certificate Transparency and against the definition of RFC 6962.
import { growTiles, subtreesFromTiles, tilesToComplete, tileWidth, type TileName } from './tiles.ts';
import { consistencyProof, inclusionProof, leafHash, nodeHash, treeRoot, type ReadSubtrees } from './merkle.ts';

/** MTH of RFC 6962, 2.1, over hashes of leaves, as it is written there; each is computed once. */
function definitionOf(leaves: Buffer[]): (from: number, to: number) => Buffer {
  const known = new Map<number, Buffer>();
  const mth = (from: number, to: number): Buffer => {
    if (to - from === 1) return leaves[from] as Buffer;
    const name = from * 2 ** 20 + to;
    const k = from + splitOf(to - from);
    const hash = known.get(name) ?? nodeHash(mth(from, k), mth(k, to));
    known.set(name, hash);
    return hash;
  };
  return mth;
}

/** The largest power of two below a number. */
const splitOf = (n: number) => 2 ** Math.floor(Math.log2(n - 1));

type Mth = ReturnType<typeof definitionOf>;

const readerOf =
  (mth: Mth): ReadSubtrees =>
  (subtrees) =>
    Promise.resolve(subtrees.map(({ height, index }) => mth(index * 2 ** height, (index + 1) * 2 ** height)));

const hex = (hashes: Buffer[]) => hashes.map((hash) => hash.toString('hex'));

// testonly/constants.go and rfc6962 of github.com/transparency-dev/merkle, which has them from the reference implementation.
const inputs = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f'];
const roots = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
const inclusions: [index: number, size: number, path: string[]][] = [
  [0, 1, []],
  [
    0,
    8,
    [
      '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
    ],
  ],
  [
    5,
    8,
    [
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
      'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    ],
  ],
  [2, 3, ['fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125']],
  [
    1,
    5,
    [
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    ],
  ],
];
const consistencies: [old: number, size: number, path: string[]][] = [
  [1, 1, []],
  [
    1,
    8,
    [
      '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
    ],
  ],
  [
    6,
    8,
    [
      '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a',
      'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    ],
  ],
  [
    2,
    5,
    [
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    ],
  ],
];

test('roots and proofs are those of the published vectors', async () => {
  const read = readerOf(definitionOf(inputs.map((input) => leafHash(Buffer.from(input, 'hex')))));
  for (const [size, root] of roots.entries()) expect([size, ...hex([await treeRoot(size, read)])]).toEqual([size, root]);
  for (const [index, size, path] of inclusions)
    expect([index, size, hex(await inclusionProof(index, size, read))]).toEqual([index, size, path]);
  for (const [old, size, path] of consistencies)
    expect([old, size, hex(await consistencyProof(old, size, read))]).toEqual([old, size, path]);
});

/** PATH of RFC 6962, 2.1.1, as it is written there. */
function definedPath(mth: Mth, m: number, from: number, to: number): Buffer[] {
  if (to - from === 1) return [];
  const k = from + splitOf(to - from);
  return m < k ? [...definedPath(mth, m, from, k), mth(k, to)] : [...definedPath(mth, m, k, to), mth(from, k)];
}

/** SUBPROOF of RFC 6962, 2.1.2. */
function definedProof(mth: Mth, m: number, from: number, to: number, isKnown = true): Buffer[] {
  if (m === to) return isKnown ? [] : [mth(from, to)];
  const k = from + splitOf(to - from);
  return m <= k ? [...definedProof(mth, m, from, k, isKnown), mth(k, to)] : [...definedProof(mth, m, k, to, false), mth(from, k)];
}

/** Hashes of leaves that differ. */
const leavesOf = (count: number) => Array.from({ length: count }, (_, index) => leafHash(Buffer.from(String(index))));

test('each proof of each size is that of the definition', async () => {
  const mth = definitionOf(leavesOf(40));
  const read = readerOf(mth);
  for (let size = 1; size <= 40; size++) {
    for (let index = 0; index < size; index++) {
      expect(await inclusionProof(index, size, read)).toEqual(definedPath(mth, index, 0, size));
      expect(await consistencyProof(index + 1, size, read)).toEqual(definedProof(mth, index + 1, 0, size));
    }
  }
});

test('tiles that grew in any steps give the proofs of the definition', async () => {
  // Two complete tiles of level 1, and one of level 2 that is not.
  const leaves = leavesOf(2 * tileWidth ** 2 + 3 * tileWidth + 7);
  const mth = definitionOf(leaves);
  const level0 = Buffer.concat(leaves);
  const stored = new Map<string, Buffer>();
  const readTiles = (names: TileName[], size: number) =>
    names.map(({ level, position }) => {
      if (level > 0) return stored.get(`${level}/${position}`) as Buffer;
      return level0.subarray(32 * tileWidth * position, Math.min(32 * tileWidth * (position + 1), 32 * size));
    });
  const steps = [1, 254, 1, 256, 3, 65_000, 1, 300, 40_000, 255];
  let size = 0;
  for (let step = 0; size < leaves.length; step++) {
    const to = Math.min(size + (steps[step % steps.length] as number), leaves.length);
    const incomplete = readTiles(tilesToComplete(size, to), size);
    for (const { level, position, width, hashes } of growTiles(size, level0.subarray(32 * size, 32 * to), incomplete)) {
      const before = stored.get(`${level}/${position}`) ?? Buffer.alloc(0);
      expect(before).toHaveLength(32 * width);
      stored.set(`${level}/${position}`, Buffer.concat([before, hashes]));
    }
    size = to;
  }
  expect([...stored.keys()].sort()).toEqual(['1/0', '1/1', '1/2', '2/0']);
  const read = subtreesFromTiles((names) => Promise.resolve(readTiles(names, size)));
  for (const end of [1, 255, 256, 257, 65_535, 65_536, 65_537, 131_072, size]) {
    expect(await treeRoot(end, read)).toEqual(mth(0, end));
    for (const index of new Set([0, 255, 256, 65_535, 65_536, end - 1].filter((each) => each < end))) {
      expect(await inclusionProof(index, end, read)).toEqual(definedPath(mth, index, 0, end));
      expect(await consistencyProof(index + 1, end, read)).toEqual(definedProof(mth, index + 1, 0, end));
    }
  }
  await expect(treeRoot(size + 1, read)).rejects.toThrow('too few');
});
