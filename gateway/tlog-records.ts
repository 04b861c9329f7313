// Proofs and personal data in answers: their schemas, examples, and the records of messages.
import type { CheckpointKey, Proof } from '../proto/gen/ledger/v1/audit_pb.js';
import { timeOf } from '../services/platform/ledger-records.ts';
import { personalStates } from './fields.ts';
import { id, list, long, maybe, record, string, time, word, type Schema } from './records.ts';

const hash: Schema = { type: 'string', pattern: '^[0-9a-f]{64}$' };
const path: Schema = { ...list(string), description: 'Hashes of 32 bytes in base64.' };

/** The schemas by name. */
export const tlogSchemas: Record<string, Schema> = {
  Personal: record({
    subject_id: id('subj'),
    subject: { ...maybe(string), description: 'Only if `open`.' },
    data: { type: ['object', 'null'], description: 'Only if `open`.' },
    state: { ...word(personalStates), description: '`sealed`: the key lacks `personal:read`, or the data came from another tenant.' },
  }),
  Proof: record({
    sequence: { ...long, description: 'Its leaf in the tree is `sequence` − 1.' },
    header: {
      ...string,
      description: 'The exact text that is hashed: tenant, sequence, id, type, time, actor and request id of the event.',
    },
    payload: { ...maybe(string), description: 'Base64 of a `ledger.v1` message; null: redacted since.' },
    payload_hash: { ...hash, description: 'SHA-256 of the payload as it was posted.' },
    previous_hash: { ...hash, description: 'The hash of the event before; of the first 64 zeros.' },
    hash: {
      ...hash,
      description: 'sha256(`previous_hash` ‖ sha256(`header`) ‖ `payload_hash`), all as bytes. It is the data of the leaf.',
    },
    path: { ...path, description: 'From the leaf’s sibling up to the root: hashes of 32 bytes in base64.' },
    checkpoint: { ...string, description: 'Signed note: origin, size and root of the tree, and its signatures.' },
  }),
  Consistency: record({ old: long, new: long, path }),
  CheckpointKey: record({
    vkey: { ...string, description: 'Name, id and public key, as C2SP signed-note has it.' },
    retired_at: { ...maybe(time), description: 'When another key took its place; null: it signs.' },
  }),
};

const origin = 'ledger.example.com/tenant_01jd1zq5v8e6n9w2k4m7p3r5t8';

/** A signed checkpoint as an example. */
export const exampleCheckpoint = [
  origin,
  '31',
  'CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=',
  '',
  `— ${origin} Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=`,
  '',
].join('\n');

/** A proof as an example. */
export const exampleProof = {
  sequence: 31,
  header:
    '["tenant_01jd1zq5v8e6n9w2k4m7p3r5t8",31,"evt_01jd1zq5v8e6n9w2k4m7p3r5t8","transaction.posted",1896091200000,"key_01jd1zq5v8e6n9w2k4m7p3r5t8","req-7f3a"]',
  payload: 'CiB0eG5fMDFqZDF6cTV2OGU2bjl3Mms0bTdwM3I1dDg=',
  payload_hash: '0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d',
  previous_hash: '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752',
  hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  path: ['gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=', 'B95lDa8R83lS8n0eG+o0buTxRKQTYFi//1U8anccXmA='],
  checkpoint: exampleCheckpoint,
};

/** A verifier key as an example. */
export const exampleKey = { vkey: `${origin}+033de0ae+AeMb5VOzy60PTGdGmLPxOKGAa0jNyDGsgv2rnprGju1t`, retired_at: null };

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** Hashes of a path. */
export const pathRecord = (hashes: Uint8Array[]): string[] => hashes.map(base64);

type ProofRecord = Omit<typeof exampleProof, 'payload'> & { payload: string | null };

/** `data.proof`. */
export function proofRecord(proof: Proof): ProofRecord {
  const { sequence, header, payload, payloadHash, previousHash, hash: own, path: hashes, checkpoint } = proof;
  return {
    sequence: Number(sequence),
    header,
    payload: payload === undefined ? null : base64(payload),
    payload_hash: hex(payloadHash),
    previous_hash: hex(previousHash),
    hash: hex(own),
    path: pathRecord(hashes),
    checkpoint,
  };
}

/** The same as https://c2sp.org/tlog-proof has it. `extra`: what the leaf was made of. */
export function tlogProof(proof: ProofRecord): string {
  const { sequence, header, payload, payload_hash, previous_hash, path: hashes, checkpoint } = proof;
  const extra = Buffer.from(JSON.stringify({ header, payload, payload_hash, previous_hash })).toString('base64');
  return ['c2sp.org/tlog-proof@v1', `extra ${extra}`, `index ${sequence - 1}`, ...hashes, '', checkpoint].join('\n');
}

/** An item of `data.keys`. */
export const keyRecord = ({ vkey, retiredMs }: CheckpointKey): object => ({
  vkey,
  retired_at: retiredMs === undefined ? null : timeOf(retiredMs),
});
