import { generateKeyPairSync } from 'node:crypto';
import { newSigningKey } from '../../../deploy/local/secrets.ts';
import { sha256 } from '../../platform/digest.ts';
import { BadSetting, Settings } from '../../platform/settings.ts';
import { auditorConfig } from './config.ts';

const good = {
  DATABASE_URL: 'postgres://auditor:secret@127.0.0.1/ledger',
  INTERNAL_TOKEN: 'token',
  PROOF_ORIGIN: 'ledger.example.com',
  CHECKPOINT_PRIVATE_KEY: newSigningKey(),
  CHECKPOINT_DIR: '/checkpoints',
};
const read = (change: NodeJS.ProcessEnv = {}) => auditorConfig(new Settings({ ...good, ...change }));

function vkeyOf(name: string, type = 4, raw?: Buffer): string {
  const key = raw ?? generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
  const typed = Buffer.concat([Buffer.of(type), key]);
  const id = sha256(Buffer.concat([Buffer.from(`${name}\n`), typed])).subarray(0, 4);
  return `${name}+${id.toString('hex')}+${typed.toString('base64')}`;
}

test.each(Object.keys(good))('%s is required and named where it is missing', (name) => {
  expect(() => read({ [name]: '' })).toThrow(new BadSetting(name, 'is not set'));
});

test('checkpoints are signed every minute by the first key, without witnesses unless named', () => {
  const [first, second] = [newSigningKey(), newSigningKey()];
  const { signingKeys, ...rest } = read({ CHECKPOINT_PRIVATE_KEY: first + second }).checkpoints;
  expect(signingKeys.map((key) => key.export({ type: 'pkcs8', format: 'pem' }))).toEqual([first, second]);
  expect(rest).toEqual({ origin: 'ledger.example.com', everyMs: 60_000, directory: '/checkpoints', witnesses: [], quorum: 0 });
  expect(read({ CHECKPOINT_SECONDS: '0.05' }).checkpoints.everyMs).toBe(50);
});

test('witnesses are lines, and all of them make the quorum unless it is given', () => {
  // A public witness, as its operator publishes it.
  const navigli = 'witness.navigli.sunlight.geomys.org+a3e00fe2+BNy/co4C1Hn1p+INwJrfUlgz7W55dSZReusH/GhUhJ/G';
  const lines = `# ours\n${navigli} https://w.example/submit/\n\n  ${vkeyOf('w2')}\thttp://127.0.0.1:1\r\n`;
  const { witnesses, quorum } = read({ WITNESSES: lines }).checkpoints;
  expect(witnesses.map(({ name, url }) => [name, url])).toEqual([
    ['witness.navigli.sunlight.geomys.org', 'https://w.example/submit'],
    ['w2', 'http://127.0.0.1:1'],
  ]);
  expect(quorum).toBe(2);
  expect(read({ WITNESSES: lines, WITNESS_QUORUM: '1' }).checkpoints.quorum).toBe(1);
  expect(() => read({ WITNESSES: lines, WITNESS_QUORUM: '3' })).toThrow('WITNESS_QUORUM must be a whole number from 0 to 2, not "3"');
});

test.each([
  ['w.example https://w.example', /^WITNESSES line 1 must begin with the vkey of a witness/],
  [`${vkeyOf('w', 1)} https://w.example`, /of type 0x04/],
  [`\n${vkeyOf('w').replace(/\+.{8}\+/, '+00000000+')} https://w.example`, /^WITNESSES line 2 must begin with the vkey/],
  [`${vkeyOf('w', 4, Buffer.alloc(31))} https://w.example`, /^WITNESSES line 1 must begin/],
  ...['', 'w.example', 'ftp://w.example', 'https://w.example?a=1', 'https://w.example more'].map((url): [string, RegExp] => [
    `${vkeyOf('w')} ${url}`,
    /^WITNESSES line 1 must be a vkey and an http or https address like https:\/\/witness\.example\.com$/,
  ]),
  [`${vkeyOf('w')} https://a.example\n${vkeyOf('w')} https://b.example`, /^WITNESSES line 2 names w again$/],
])('witnesses %j are refused by their line', (value, message) => {
  expect(() => read({ WITNESSES: value })).toThrow(message);
});

test.each(['https://ledger.example.com', 'ledger.example.com/', 'a b', 'a+b', '/a', 'x'.repeat(129)])('%j is no origin', (value) => {
  expect(() => read({ PROOF_ORIGIN: value })).toThrow(/^PROOF_ORIGIN must be like ledger\.example\.com, without https:\/\//);
});
