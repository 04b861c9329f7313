// Proofs, checkpoints, tiles and keys over gRPC, checked as a stranger would: by the documents of C2SP and RFC 9162 alone.
import { createPublicKey, generateKeyPairSync, verify, type KeyObject } from 'node:crypto';
import { proofOrigin, startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { isConsistent, leaf, node, rootOfPath, sha } from '../../../test/rfc9162.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { readCheckpoint, readNote, verifierKey } from './note.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
const oldKey = generateKeyPairSync('ed25519').privateKey;
const key = generateKeyPairSync('ed25519').privateKey;
beforeAll(async () => {
  ledger = await startLedger();
  auditor = await startAuditor(ledger.database, { signingKeys: [key] });
});
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

/** The name and the key of a verifier key. */
function trustedKey(vkey: string): { name: string; key: KeyObject } {
  const [, name = '', base64 = ''] = /^(.+)\+[0-9a-f]{8}\+(.+)$/.exec(vkey) ?? [];
  const x = Buffer.from(base64, 'base64').subarray(1).toString('base64url');
  return { name, key: createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }) };
}

async function newBook() {
  const { tenantId, tenant } = newTenant();
  for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const post = async (count = 1) => {
    const posted = Array.from({ length: count }, () =>
      ledger.client.postTransaction({ posting: { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } }),
    );
    return (await Promise.all(posted)).map(({ transaction }) => transaction!);
  };
  const proofOf = async (event: { transactionId: string } | { sequence: bigint }) => {
    const named =
      'sequence' in event
        ? { case: 'sequence' as const, value: event.sequence }
        : { case: 'transactionId' as const, value: event.transactionId };
    return (await auditor.client.getProof({ tenantId, event: named })).proof!;
  };
  const keys = async () => (await auditor.client.listCheckpointKeys({ tenantId })).keys;
  /** Checks a note's signature by the key that the service lists, and reads it. */
  const checked = async (note: string) => {
    const { vkey } = (await keys())[0]!;
    const { text, signatures } = readNote(note);
    const { name, key: trusted } = trustedKey(vkey);
    expect(signatures[0]!.name).toBe(name);
    expect(verify(null, Buffer.from(text), trusted, signatures[0]!.signature)).toBe(true);
    expect(readCheckpoint(note).origin).toBe(name);
    return readCheckpoint(note);
  };
  /** Checks a proof as an outsider does: event, chain, tree and signature. */
  const check = async (proof: Awaited<ReturnType<typeof proofOf>>) => {
    expect(sha(proof.payload!)).toEqual(Buffer.from(proof.payloadHash));
    expect(sha(proof.previousHash, sha(Buffer.from(proof.header)), proof.payloadHash)).toEqual(Buffer.from(proof.hash));
    const { size, root } = await checked(proof.checkpoint);
    expect(rootOfPath(Number(proof.sequence) - 1, size, leaf(proof.hash), proof.path)).toEqual(root);
    expect((JSON.parse(proof.header) as unknown[]).slice(0, 2)).toEqual([tenantId, Number(proof.sequence)]);
    return size;
  };
  const tile = (position: number, width: number, level?: number) =>
    auditor.client.getTile({ tenantId, position: BigInt(position), width, ...(level !== undefined && { level }) });
  return { tenantId, tenant, post, proofOf, check, checked, tile, keys };
}

test('each event of a growing log is proved at once, also old ones by newer checkpoints', async () => {
  const { tenantId, post, proofOf, check } = await newBook();
  const [first] = await post();
  expect(await check(await proofOf({ transactionId: first!.transactionId }))).toBe(3);
  const more = await post(20);
  const last = more.map(({ sequence }) => sequence).reduce((a, b) => (a > b ? a : b));
  expect(await check(await proofOf({ sequence: last }))).toBe(23);
  for (const sequence of [1n, 3n, 4n, 16n]) expect(await check(await proofOf({ sequence }))).toBe(23);
  const { checkpoint } = await auditor.client.getCheckpoint({ tenantId });
  expect(checkpoint).toBe((await proofOf({ sequence: 2n })).checkpoint);
});

test('tiles and entries are those of the signed tree, and any two sizes are consistent', async () => {
  const { tenantId, tenant, post, proofOf, check, checked, tile } = await newBook();
  for (let round = 0; round < 6; round++) await post(50);
  // In steps: the tree grows by what a proof needs.
  await check(await proofOf({ sequence: 250n }));
  for (let round = 0; round < 5; round++) await post(50);
  const { size, root } = await checked((await proofOf({ sequence: 552n })).checkpoint);
  expect(size).toBe(552);
  const hashes = (await ledger.client.listEvents({ tenantId, limit: 100 })).events.map(({ hash }) => Buffer.from(hash));
  const complete = [await tile(0, 256), await tile(1, 256)].map(({ bytes }) => bytes);
  const entriesOf = (bytes: Uint8Array) => Array.from({ length: bytes.length / 34 }, (_, index) => bytes.subarray(34 * index));
  expect(entriesOf(complete[0]!).map((entry) => Buffer.from(entry.subarray(0, 2)).readUInt16BE())).toEqual(Array(256).fill(32));
  const bundled = [...complete, (await tile(2, 40)).bytes].flatMap(entriesOf).map((entry) => Buffer.from(entry.subarray(2, 34)));
  expect(bundled.slice(0, 100)).toEqual(hashes);
  const level0 = Buffer.concat([await tile(0, 256, 0), await tile(1, 256, 0), await tile(2, 40, 0)].map(({ bytes }) => bytes));
  expect(level0).toEqual(Buffer.concat(bundled.map(leaf)));
  const fold = (hashesOf: Buffer): Buffer => {
    if (hashesOf.length === 32) return hashesOf;
    const half = hashesOf.length / 2;
    return node(fold(hashesOf.subarray(0, half)), fold(hashesOf.subarray(half)));
  };
  const parents = [fold(level0.subarray(0, 8192)), fold(level0.subarray(8192, 16384))];
  expect(Buffer.from((await tile(0, 2, 1)).bytes)).toEqual(Buffer.concat(parents));
  for (const [position, width, level] of [
    [2, 41],
    [3, 1],
    [2, 41, 0],
    [0, 3, 1],
    [0, 1, 2],
    [0, 0, 0],
    [0, 257, 0],
    [-1, 1, 0],
    [0, 1, 63],
  ] as const)
    expect(await refusal(tile(position, width, level))).toMatchObject({ reason: 'tile_not_found' });

  const rootAt = new Map<number, Buffer>();
  for (const old of [1, 2, 3, 255, 256, 257, 511, 512, 513, 551]) {
    rootAt.set(old, rootFromTiles(level0.subarray(0, 32 * old)));
    const { path } = await auditor.client.getConsistency({ tenantId, oldSize: BigInt(old), newSize: BigInt(size) });
    expect([old, isConsistent(old, size, rootAt.get(old)!, root, path)]).toEqual([old, true]);
  }
  const between = await auditor.client.getConsistency({ tenantId, oldSize: 255n, newSize: 513n });
  expect(isConsistent(255, 513, rootAt.get(255)!, rootAt.get(513)!, between.path)).toBe(true);
  const consistency = (oldSize: bigint, newSize: bigint) => refusal(auditor.client.getConsistency({ tenantId, oldSize, newSize }));
  expect(await consistency(0n, 1n)).toMatchObject({ field: 'old', tag: 'min' });
  expect(await consistency(3n, 2n)).toMatchObject({ field: 'old', tag: 'max' });
  expect(await consistency(1n, 553n)).toMatchObject({ field: 'new', tag: 'max' });
  const signed = await inTransaction(auditor.pool, [tenant], (client) => client.query('select size from checkpoints'));
  expect(signed.rows.length).toBeGreaterThan(1);
});

/** MTH of RFC 6962 over concatenated hashes of leaves. */
function rootFromTiles(leaves: Buffer): Buffer {
  if (leaves.length === 32) return leaves;
  const half = 32 * 2 ** Math.floor(Math.log2(leaves.length / 32 - 1));
  return node(rootFromTiles(leaves.subarray(0, half)), rootFromTiles(leaves.subarray(half)));
}

test('wrong names are refused, and an empty log has no checkpoint', async () => {
  const { tenantId, proofOf, check } = await newBook();
  const empty = newTenant().tenantId;
  expect(await refusal(auditor.client.getCheckpoint({ tenantId: empty }))).toMatchObject({ reason: 'event_not_found' });
  expect(await refusal(auditor.client.getTile({ tenantId: empty, width: 1 }))).toMatchObject({ reason: 'event_not_found' });
  expect(await refusal(proofOf({ sequence: 3n }))).toMatchObject({ reason: 'event_not_found' });
  expect(await refusal(proofOf({ sequence: 0n }))).toMatchObject({ field: 'sequence', tag: 'min' });
  expect(await refusal(auditor.client.getProof({ tenantId }))).toMatchObject({ field: 'sequence' });
  expect(await refusal(proofOf({ transactionId: 'x' }))).toMatchObject({ field: 'transaction_id', tag: 'id' });
  expect(await refusal(proofOf({ transactionId: newTenant().tenantId.replace('tenant', 'txn') }))).toMatchObject({
    reason: 'transaction_not_found',
  });
  // Another tenant's event is none of this one.
  expect(await check(await proofOf({ sequence: 2n }))).toBe(2);
});

test('a key that was replaced is listed with its last time, for logs that it signed', async () => {
  const before = await startAuditor(ledger.database, { signingKeys: [oldKey] });
  const { tenantId, tenant, keys, post, check, proofOf } = await newBook();
  await before.client.getCheckpoint({ tenantId });
  await before.end();
  const after = await startAuditor(ledger.database, { signingKeys: [key, oldKey] });
  const rotated = (await after.client.listCheckpointKeys({ tenantId })).keys;
  expect(rotated.map(({ vkey }) => vkey)).toEqual([key, oldKey].map((each) => verifierKey(`${proofOrigin}/${tenantId}`, each)));
  const { rows } = await inTransaction(after.pool, [tenant], (client) =>
    client.query<{ at: Date }>('select signed_at as at from checkpoints'),
  );
  expect(rotated.map(({ retiredMs }) => retiredMs)).toEqual([undefined, BigInt(rows[0]!.at.getTime())]);
  const fresh = await newBook();
  expect((await after.client.listCheckpointKeys({ tenantId: fresh.tenantId })).keys).toHaveLength(1);
  await after.end();
  expect(await keys()).toHaveLength(1);
  // Signed anew when the log has grown.
  await post();
  await check(await proofOf({ sequence: 3n }));
});
