// The verifiers, copied to an empty directory: with vectors from elsewhere, and with each bit of a proof changed.
import { spawnSync } from 'node:child_process';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { currentRun } from '../../test/run.ts';

const vectorsOf = (name: string) => JSON.parse(readFileSync(join(import.meta.dirname, 'vectors', name), 'utf8'));
const [merkle, notes, ed25519, go] = ['merkle.json', 'notes.json', 'ed25519.json', 'go-sumdb.json'].map(vectorsOf);
const python = spawnSync('python3', ['--version']).error === undefined;

/** Reads cases from standard input, and prints the names of those that end otherwise than they should, and the number of changed bits. */
const drivers = {
  'verify.mjs': `
    import { readFileSync } from 'node:fs';
    import * as verifier from './verify.mjs';
    const cases = JSON.parse(readFileSync(0, 'utf8'));
    const hex = (text) => Uint8Array.from(Buffer.from(text, 'hex'));
    const keysOf = (vkeys) => Promise.all(vkeys.map(verifier.readKey));
    const wrong = [];
    const expect = async (name, accepted, run) => {
      const is = await run().then(() => true, () => false);
      if (is !== accepted) wrong.push(name);
    };
    const proof = async (bytes, vkeys) => verifier.verifyProof(new TextDecoder('utf-8', { fatal: true }).decode(bytes), await keysOf(vkeys));
    for (const each of cases.keys) await expect(each.vkey, each.accepted, () => verifier.readKey(each.vkey));
    for (const each of cases.notes)
      await expect(each.note, each.accepted, async () => verifier.checkSignatures(verifier.readNote(each.note), await keysOf(each.keys)));
    for (const { index, size, leaf, path, root, accepted } of cases.inclusion)
      await expect([index, size], accepted, () => verifier.checkInclusion(index, size, hex(leaf), path.map(hex), hex(root)));
    for (const { old, size, oldRoot, root, path, accepted } of cases.consistency)
      await expect([old, size], accepted, () => verifier.checkConsistency(old, size, hex(oldRoot), hex(root), path.map(hex)));
    for (const each of cases.answers)
      await expect(each.new, true, async () => verifier.verifyConsistency(each.old, each.new, JSON.stringify(each.consistency), await keysOf(cases.vkeys)));
    for (const each of cases.proofs) await expect(each.text, each.accepted, () => proof(Buffer.from(each.text), each.vkeys));
    let bits = 0;
    for (const { text, vkeys, from } of cases.flipped) {
      const bytes = Buffer.from(text);
      for (let bit = 8 * from; bit < bytes.length * 8; bit++, bits++) {
        bytes[bit >> 3] ^= 1 << (bit & 7);
        await expect('bit ' + bit + ' of ' + text, false, () => proof(bytes, vkeys));
        bytes[bit >> 3] ^= 1 << (bit & 7);
      }
    }
    console.log(JSON.stringify({ wrong, bits }));`,
  'verify.py': `
import json, sys
import verify
cases = json.load(sys.stdin)
unhex = bytes.fromhex
wrong = []
def expect(name, accepted, run):
    try:
        result = run() is not False
    except (verify.Refused, ValueError, LookupError):
        result = False
    if result != accepted:
        wrong.append(name)
keys_of = lambda vkeys: [verify.read_key(each) for each in vkeys]
for each in cases["signatures"]:
    expect(each, each["accepted"], lambda: verify.is_signed(unhex(each["key"]), unhex(each["message"]), unhex(each["signature"])))
for each in cases["keys"]:
    expect(each["vkey"], each["accepted"], lambda: verify.read_key(each["vkey"]))
for each in cases["notes"]:
    expect(each["note"], each["accepted"], lambda: verify.check_signatures(verify.read_note(each["note"]), keys_of(each["keys"])))
for each in cases["inclusion"]:
    path = [unhex(one) for one in each["path"]]
    run = lambda: verify.check_inclusion(each["index"], each["size"], unhex(each["leaf"]), path, unhex(each["root"]))
    expect([each["index"], each["size"]], each["accepted"], run)
for each in cases["proofs"]:
    expect(each["text"], each["accepted"], lambda: verify.verify_proof(each["text"], keys_of(each["vkeys"])))
bits = 0
for each in cases["flipped"]:
    data, keys = bytearray(each["text"].encode()), keys_of(each["vkeys"])
    for bit in range(8 * each["from"], len(data) * 8):
        data[bit >> 3] ^= 1 << (bit & 7)
        expect(f"bit {bit} of {each['text']}", False, lambda: verify.verify_proof(data.decode(), keys))
        data[bit >> 3] ^= 1 << (bit & 7)
        bits += 1
print(json.dumps({"wrong": wrong, "bits": bits}))`,
};

interface Inclusion {
  index: number;
  size: number;
  leaf: string;
  path: string[];
  root: string;
  accepted: boolean;
}

interface Consistency {
  old: number;
  size: number;
  oldRoot: string;
  root: string;
  path: string[];
  accepted: boolean;
}

const withAnother = (path: string[], root: string) => [path.slice(1), [...path, root], [...path.slice(0, -1), root]];

function inclusion(): Inclusion[] {
  const right: Inclusion[] = merkle.inclusion.map((path: string[], index: number) => ({
    ...{ index, size: 7, leaf: merkle.leaves[index], path, root: merkle.roots[7], accepted: true },
  }));
  const wrong = right.flatMap((each) => [
    ...withAnother(each.path, each.leaf.padEnd(64, '0')).map((path) => ({ ...each, path, accepted: false })),
    ...[{ index: each.index ^ 1 }, { index: each.index + 8 }, { size: 15 }, { leaf: '01' }, { root: merkle.roots[6] }].map((change) => ({
      ...{ ...each, ...change, accepted: false },
    })),
  ]);
  return [...right, { index: 0, size: 1, leaf: '', path: [], root: merkle.roots[1], accepted: true }, ...wrong];
}

function consistency(): Consistency[] {
  const right: Consistency[] = merkle.consistency.map((path: string[], old: number) => ({
    ...{ old, size: 7, oldRoot: merkle.roots[old], root: merkle.roots[7], path, accepted: true },
  }));
  const wrong = right.slice(1, 7).flatMap((each) => [
    ...withAnother(each.path, merkle.roots[8]).map((path) => ({ ...each, path, accepted: false })),
    ...[{ oldRoot: merkle.roots[8] }, { root: merkle.roots[6] }, { old: each.old + 1 }, { size: each.old }, { size: 14 }].map((change) => ({
      ...{ ...each, ...change, accepted: false },
    })),
  ]);
  const forked = { ...right[7]!, oldRoot: merkle.roots[6], accepted: false };
  return [...right, forked, ...wrong.filter(({ old, size }) => old !== size || old === 7)];
}

const vkeys = [go.vkey];
const both = (proof: any) => [`${JSON.stringify(proof.json)}\n`, proof.text];
const [, small] = go.proofs;
const hidden = structuredClone(go.proofs[6]);
hidden.json.data.proof.payload = null;
const last: string = go.proofs[4].text;
const cosigned = last.slice(0, last.indexOf('ledger.example')) + String(go.witness.checkpoint);
/** The small proof with the checkpoint of another origin, signed by a new key of a name. */
function signedAnew(name: string, origin: string): { text: string; vkeys: string[] } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const key = Buffer.concat([Buffer.of(1), Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url')]);
  const id = createHash('sha256').update(`${name}\n`).update(key).digest().subarray(0, 4);
  const proof = structuredClone(small.json.data.proof);
  const [, size, root] = proof.checkpoint.split('\n');
  const note = `${origin}\n${size}\n${root}\n`;
  const signature = Buffer.concat([id, sign(null, Buffer.from(note), privateKey)]).toString('base64');
  proof.checkpoint = `${note}\n— ${name} ${signature}\n`;
  return { text: JSON.stringify(proof), vkeys: [`${name}+${id.toString('hex')}+${key.toString('base64')}`] };
}

const [origin] = go.vkey.split('+');
const proofs = [
  { ...signedAnew(origin, origin), accepted: true },
  // By a key that is trusted for another log, and of the log of another tenant.
  { ...signedAnew('other.example/log', origin), accepted: false },
  { ...signedAnew('ledger.example/tenant_other', 'ledger.example/tenant_other'), accepted: false },
  ...go.proofs.flatMap(both).map((text: string) => ({ text, vkeys, accepted: true })),
  ...both(small).map((text: string) => ({ text, vkeys: [go.witness.vkey, notes.keys.accepted[0]], accepted: false })),
  { text: JSON.stringify(hidden.json), vkeys, accepted: true },
  { text: JSON.stringify(small.json.data.proof), vkeys, accepted: true },
  // Readers differ about which of two fields counts.
  { text: both(small)[0]!.replace('"hash":', '"hash":"","hash":'), vkeys, accepted: false },
  { text: JSON.stringify(small.json, null, 2), vkeys, accepted: true },
  // A witness is asked for only where its key is given.
  { text: cosigned, vkeys, accepted: true },
  { text: cosigned, vkeys: [go.vkey, go.witness.vkey], accepted: true },
  { text: last, vkeys: [go.vkey, go.witness.vkey], accepted: false },
];

const cases = {
  vkeys,
  signatures: ed25519.signatures,
  keys: ['accepted', 'refused'].flatMap((kind) => notes.keys[kind].map((vkey: string) => ({ vkey, accepted: kind === 'accepted' }))),
  notes: ['accepted', 'refused'].flatMap((kind) => notes[kind].map((each: object) => ({ ...each, accepted: kind === 'accepted' }))),
  inclusion: inclusion(),
  consistency: consistency(),
  answers: go.consistency,
  proofs,
  flipped: [
    ...both(small).map((text: string) => ({ text, vkeys, from: 0 })),
    // What the witness added.
    { text: cosigned, vkeys: [go.vkey, go.witness.vkey], from: Buffer.byteLength(cosigned.slice(0, cosigned.lastIndexOf('—'))) },
  ],
};

describe.each([
  ['verify.mjs', 'node', ['--input-type=module', '-e', drivers['verify.mjs']]],
  ['verify.py', 'python3', ['-c', drivers['verify.py']]],
] as const)('%s', (file, program, driver) => {
  const run = file === 'verify.py' && !python ? test.skip : test;
  const directory = mkdtempSync(join(currentRun().directory, 'verifier-'));
  copyFileSync(join(import.meta.dirname, file), join(directory, file));
  const env = { PATH: process.env['PATH'] };
  const call = (args: readonly string[], input = '') => spawnSync(program, args, { cwd: directory, env, input, encoding: 'utf8' });

  run('accepts what others have signed and proven, and refuses each changed bit', () => {
    const { status, stdout, stderr } = call(driver, JSON.stringify(cases));
    expect([status, stderr]).toEqual([0, '']);
    const bits = cases.flipped.reduce((sum, { text, from }) => sum + 8 * (Buffer.byteLength(text) - from), 0);
    expect(JSON.parse(stdout)).toEqual({ wrong: [], bits });
  });

  run('prints one line, and ends with 0 or 1', () => {
    const proof = join(directory, 'proof.json');
    writeFileSync(proof, JSON.stringify(small.json));
    const { status, stdout } = call([file, 'proof', proof, '--vkey', go.vkey]);
    const line = `verified: event 1 of 2, books.updated evt_01h455vb4pex5vsknk08000001 of 2023-11-14T22:13:20.001Z, is in the log that `;
    expect([status, stdout]).toEqual([0, `${line}${go.vkey.split('+').slice(0, 2).join('+')} signed\n`]);
    writeFileSync(proof, JSON.stringify(small.json).replace('"sequence":1', '"sequence":2'));
    const refused = call([file, 'proof', proof, '--vkey', go.vkey]);
    expect([refused.status, refused.stdout, refused.stderr]).toEqual([1, '', 'refused: the header is of another event\n']);
    expect(call([file, 'proof', 'missing', '--vkey', go.vkey])).toMatchObject({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(/^refused: .*\n$/),
    });
    expect(call([file])).toMatchObject({ status: 1, stdout: '', stderr: expect.stringContaining('proof FILE --vkey VKEY') });
  });
});
