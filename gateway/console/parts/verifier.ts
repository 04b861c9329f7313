// Checks proofs in the browser with the verifier that customers run: the same file, as it is.
import type { CheckpointKey, Ledger, Proof, Transaction } from '../../clients/typescript/ledger.ts';

interface Key {
  name: string;
  id: string;
}

interface Posted {
  transactionId: string;
  entries: { accountCode: string; amount: string; side: string; currency: string }[];
}

/** What `deploy/verifier/verify.mjs` exports and the console uses. */
interface Verifier {
  readKey: (vkey: string) => Promise<Key>;
  readNote: (text: string) => { text: string };
  checkSignatures: (note: { text: string }, keys: Key[]) => Promise<Key>;
  verifyProof: (
    text: string,
    keys: Key[],
  ) => Promise<{ checkpoint: { origin: string; size: number }; signer: string; posted: Posted | undefined }>;
  verifyConsistency: (old: string, now: string, text: string, keys: Key[]) => Promise<{ old: { size: number }; now: { size: number } }>;
}

const load = (): Promise<Verifier> => import(new URL('verify.mjs', import.meta.url).href) as Promise<Verifier>;

const read = (verifier: Verifier, keys: CheckpointKey[]): Promise<Key[]> => Promise.all(keys.map(({ vkey }) => verifier.readKey(vkey)));

/** A proof that holds. */
export interface Checked {
  size: number;
  signer: string;
}

/** Checks a proof, and that it is of the entries that the page shows. Rejects with what is wrong. */
export async function checkProof(proof: Proof, keys: CheckpointKey[], shown?: Transaction): Promise<Checked> {
  const verifier = await load();
  const { checkpoint, signer, posted } = await verifier.verifyProof(JSON.stringify(proof), await read(verifier, keys));
  if (shown && posted) {
    const proven = posted.entries.map(({ accountCode, amount, side, currency }) => [accountCode, amount, side, currency].join(' '));
    const entries = shown.entries.map((each) => [each.account_code, each.amount, each.side, each.currency].join(' '));
    if (posted.transactionId !== shown.transaction_id || proven.join() !== entries.join())
      throw new Error('it is of other entries than these');
  }
  return { size: checkpoint.size, signer };
}

/** A checkpoint, taken apart. */
export interface Checkpoint {
  text: string;
  size: number;
  root: string;
  signer: string;
}

/** Checks who signed a checkpoint. Rejects with what is wrong. */
export async function checkCheckpoint(text: string, keys: CheckpointKey[]): Promise<Checkpoint> {
  const verifier = await load();
  const note = verifier.readNote(text);
  const { name, id } = await verifier.checkSignatures(note, await read(verifier, keys));
  const [, size = '', root = ''] = note.text.split('\n');
  return { text, size: Number(size), root, signer: `${name}+${id}` };
}

/** Proves that the log of an old checkpoint begins today's. Resolves to both sizes, or rejects with what is wrong. */
export async function checkSince(ledger: Ledger, old: string, keys: CheckpointKey[]): Promise<{ old: number; now: number }> {
  const verifier = await load();
  const text = `${old.trim()}\n`;
  const before = await checkCheckpoint(text, keys);
  const latest = await (await ledger.proofs.checkpoint()).text();
  const { size } = await checkCheckpoint(latest, keys);
  const { consistency } = await ledger.proofs.consistency({ old: before.size, new: size });
  const { old: first, now } = await verifier.verifyConsistency(text, latest, JSON.stringify(consistency), await read(verifier, keys));
  return { old: first.size, now: now.size };
}
