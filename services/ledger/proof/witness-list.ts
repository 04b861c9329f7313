// The witnesses that cosign checkpoints (C2SP tlog-witness), as an operator lists them.
import { createPublicKey, type KeyObject } from 'node:crypto';
import { keyIdOf } from './note.ts';

/** Who cosigns checkpoints. */
export interface Witness {
  /** Of its key. */
  name: string;
  keyId: number;
  /** Ed25519. */
  key: KeyObject;
  /** Submission prefix, without a slash at its end. */
  url: string;
}

/** The type of keys that sign cosignatures with a time, in C2SP signed-note. */
const cosignatureType = 0x04;
// DER of an Ed25519 public key, up to its 32 bytes.
const spkiPrefix = Buffer.from('302a300506032b6570032100', 'hex');

/** Reads `vkey URL` lines; empty lines and those after `#` are skipped. Returns what is wrong with the first bad one as a text. */
export function readWitnesses(text: string): Witness[] | string {
  const witnesses: Witness[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (/^\s*(#|$)/.test(line)) continue;
    const [vkey = '', url = '', ...more] = line.trim().split(/\s+/);
    const key = readKey(vkey);
    const place = `line ${index + 1}`;
    if (key === undefined) return `${place} must begin with the vkey of a witness: name+hash+key, of type 0x04 (Ed25519 cosignature)`;
    if (!isUrl(url) || more.length > 0) return `${place} must be a vkey and an http or https address like https://witness.example.com`;
    if (witnesses.some(({ name }) => name === key.name)) return `${place} names ${key.name} again`;
    witnesses.push({ ...key, url: url.replace(/\/+$/, '') });
  }
  return witnesses;
}

function readKey(vkey: string): Omit<Witness, 'url'> | undefined {
  const [, name = '', id = '', encoded = ''] = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)$/.exec(vkey) ?? [];
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.length !== 33 || bytes[0] !== cosignatureType || bytes.toString('base64') !== encoded) return undefined;
  const keyId = keyIdOf(name, cosignatureType, bytes.subarray(1));
  if (keyId !== Number.parseInt(id, 16)) return undefined;
  return { name, keyId, key: createPublicKey({ key: Buffer.concat([spkiPrefix, bytes.subarray(1)]), format: 'der', type: 'spki' }) };
}

function isUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.username + url.password + url.search + url.hash === '';
}
