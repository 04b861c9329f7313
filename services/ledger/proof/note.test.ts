// Notes and checkpoints against those of Go's checksum database and of the C2SP documents.
import { createPrivateKey, generateKeyPairSync, verify } from 'node:crypto';
import { checkpointText, keyIdOf, privateKeysOf, publicBytes, readCheckpoint, readNote, signNote, verifierKey } from './note.ts';

/** The key of an Ed25519 seed. */
const keyOf = (seed: Buffer) =>
  createPrivateKey({ key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]), format: 'der', type: 'pkcs8' });

// golang.org/x/mod/sumdb/note.
const goSigner = 'PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz';
const goVerifier = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const goText = `If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n`;
const goNote = `${goText}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n`;

test('a note is signed, and a key written, as Go does', () => {
  const key = keyOf(Buffer.from(goSigner.slice(goSigner.indexOf('+AYEK') + 1), 'base64').subarray(1));
  expect(verifierKey('PeterNeumann', key)).toBe(goVerifier);
  expect(signNote(goText, 'PeterNeumann', key)).toBe(goNote);
  const { text, signatures } = readNote(goNote);
  expect(text).toBe(goText);
  expect(signatures.map(({ name, keyId }) => [name, keyId])).toEqual([['PeterNeumann', keyIdOf('PeterNeumann', 1, publicBytes(key))]]);
  expect(verify(null, Buffer.from(text), { key: publicKeyPem(key), format: 'pem' }, signatures[0]!.signature)).toBe(true);
});

const publicKeyPem = (key: ReturnType<typeof keyOf>) =>
  `-----BEGIN PUBLIC KEY-----\n${Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), publicBytes(key)]).toString('base64')}\n-----END PUBLIC KEY-----`;

test('the checkpoint of c2sp.org/tlog-checkpoint is read and written again', () => {
  const text = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n';
  const note = `${text}\n— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n`;
  const head = readCheckpoint(note);
  expect(head).toMatchObject({ origin: 'example.com/behind-the-sofa', size: 20852163 });
  expect(checkpointText(head)).toBe(text);
  expect(readNote(note).signatures[0]?.keyId).toBe(0x033de0ae);
});

test.each(['', 'x', 'a\n1\nAAAA\n', `${goText}\n`, `${goText}\n— x\n`, goNote.slice(0, -1), 'a\n\n— a AAAA\n'])('%j is no note', (text) => {
  expect(() => readNote(text)).toThrow('not a sign');
});

test.each(['-1', '01', '1.5', '', '99999999999999999'])('size %j is no checkpoint', (size) => {
  expect(() => readCheckpoint(`a\n${size}\n${Buffer.alloc(32).toString('base64')}\n\n— a AAAAAAAA\n`)).toThrow('not a checkpoint');
});

test('keys are read one after the other, and other kinds are refused', () => {
  const pem = () => generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
  const [first, second] = [pem(), pem()];
  const keys = privateKeysOf(`# the new one\n${first}\n${second}`);
  expect(keys.map((key) => key.export({ format: 'pem', type: 'pkcs8' }))).toEqual([first, second]);
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
  for (const text of ['', 'x', other, first + other]) expect(() => privateKeysOf(text)).toThrow('must be Ed25519');
});
