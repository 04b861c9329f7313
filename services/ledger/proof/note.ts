// Signed notes and checkpoints: https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint.
import { createPrivateKey, createPublicKey, sign, type KeyObject } from 'node:crypto';
import { sha256 } from '../../platform/digest.ts';

/** The end of a log that a checkpoint names. */
export interface TreeHead {
  origin: string;
  size: number;
  /** 32 bytes. */
  root: Buffer;
}

/** A signature of a note. `signature`: bytes after the id of the key. */
export interface NoteSignature {
  name: string;
  keyId: number;
  signature: Buffer;
}

const ed25519 = 1;

/** The id of a key with a name. `type`: that of its signatures; 1: Ed25519. */
export function keyIdOf(name: string, type: number, publicKey: Uint8Array): number {
  return sha256(Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(type), publicKey])).readUInt32BE();
}

/** The 32 bytes of an Ed25519 key's public half. */
export function publicBytes(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32);
}

/** The id of an Ed25519 key with a name, 8 hexadecimal digits. */
export function keyIdText(name: string, key: KeyObject): string {
  return keyIdOf(name, ed25519, publicBytes(key)).toString(16).padStart(8, '0');
}

/** What a verifier needs of a key with a name, as text: `<name>+<id>+<base64>`. */
export function verifierKey(name: string, key: KeyObject): string {
  const publicKey = publicBytes(key);
  return `${name}+${keyIdText(name, key)}+${Buffer.concat([Buffer.of(ed25519), publicKey]).toString('base64')}`;
}

/** Signs a text, which ends with a newline, with an Ed25519 key under a name. */
export function signNote(text: string, name: string, key: KeyObject): string {
  const keyId = keyIdOf(name, ed25519, publicBytes(key));
  return `${text}\n${signatureLine({ name, keyId, signature: sign(null, Buffer.from(text), key) })}`;
}

/** A signature as the line of a note. */
export function signatureLine({ name, keyId, signature }: NoteSignature): string {
  const id = Buffer.allocUnsafe(4);
  id.writeUInt32BE(keyId);
  return `— ${name} ${Buffer.concat([id, signature]).toString('base64')}\n`;
}

/** A note's text and signatures, none of which is checked. Throws an Error if it is no note. */
export function readNote(note: string): { text: string; signatures: NoteSignature[] } {
  const end = note.lastIndexOf('\n\n');
  const lines = note.slice(end + 2).split('\n');
  if (end < 0 || lines.length < 2 || lines.pop() !== '') throw new Error('not a signed note');
  const signatures = lines.map((line) => {
    const [, name, base64] = /^— ([^ +]+) ([A-Za-z0-9+/]+=*)$/.exec(line) ?? [];
    const bytes = Buffer.from(base64 ?? '', 'base64');
    if (name === undefined || bytes.length < 5) throw new Error('not a signature of a note');
    return { name, keyId: bytes.readUInt32BE(), signature: bytes.subarray(4) };
  });
  return { text: note.slice(0, end + 1), signatures };
}

/** The text of a checkpoint. */
export function checkpointText({ origin, size, root }: TreeHead): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

/** What a checkpoint says; its signatures are not checked. Throws an Error if it is none. */
export function readCheckpoint(note: string): TreeHead {
  const [origin = '', size = '', root = ''] = readNote(note).text.split('\n');
  const bytes = Buffer.from(root, 'base64');
  if (origin === '' || !/^(0|[1-9][0-9]{0,15})$/.test(size) || bytes.length !== 32) throw new Error('not a checkpoint');
  return { origin, size: Number(size), root: bytes };
}

/** The Ed25519 keys of a text with PEM blocks, one after the other, in their order. Throws an Error that says what is wrong. */
export function privateKeysOf(pem: string): KeyObject[] {
  const blocks = pem.match(/-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----/g) ?? [];
  const keys = blocks.map((block) => createPrivateKey(block));
  if (keys.length === 0 || keys.some(({ asymmetricKeyType }) => asymmetricKeyType !== 'ed25519'))
    throw new Error('must be Ed25519 private keys in PEM: openssl genpkey -algorithm ed25519');
  return keys;
}
