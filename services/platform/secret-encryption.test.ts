import { createSecretKey, randomBytes } from 'node:crypto';
import { DecryptError, SecretEncryption } from './secret-encryption.ts';

const key = (id: string) => ({ id, key: createSecretKey(randomBytes(32)) });
const [old, current] = [key('2024'), key('2025')];

test('an encrypted secret is decrypted for its owner only, and encrypted differently each time', () => {
  const secrets = new SecretEncryption('A_KEY', [current]);
  const secret = randomBytes(32).toString('base64');
  const encrypted = secrets.encrypt('owner a', secret);
  expect(encrypted).toMatch(/^2025:/);
  expect(encrypted).not.toContain(secret.slice(0, 20));
  expect(secrets.encrypt('owner a', secret)).not.toBe(encrypted);
  expect(secrets.decrypt('owner a', encrypted)).toBe(secret);
  expect(secrets.decrypt('owner a', encrypted)).toBe(secret);
  expect(() => secrets.decrypt('owner b', encrypted)).toThrow(DecryptError);
  expect(() => secrets.decrypt('owner b', encrypted)).toThrow('key 2025');
});

test('a secret of the key before is still decrypted, and one of an unknown key says which', () => {
  const encrypted = new SecretEncryption('A_KEY', [old]).encrypt('t', 'a secret');
  expect(new SecretEncryption('A_KEY', [current, old]).decrypt('t', encrypted)).toBe('a secret');
  expect(() => new SecretEncryption('A_KEY', [current]).decrypt('t', encrypted)).toThrow('key 2024, which A_KEY does not name');
  expect(() => new SecretEncryption('A_KEY', [current]).decrypt('t', encrypted)).toThrow(DecryptError);
});

test('of several secrets the newest is enough, and is needed', () => {
  const [before, now] = [
    new SecretEncryption('A_KEY', [old]).encrypt('t', 'before'),
    new SecretEncryption('A_KEY', [current]).encrypt('t', 'now'),
  ];
  expect(new SecretEncryption('A_KEY', [current, old]).decryptAll('t', [now, before])).toStrictEqual(['now', 'before']);
  expect(new SecretEncryption('A_KEY', [current]).decryptAll('t', [now, before])).toStrictEqual(['now']);
  expect(() => new SecretEncryption('A_KEY', [old]).decryptAll('t', [now, before])).toThrow(DecryptError);
});

test('the ids of all keys are known', () => {
  expect(new SecretEncryption('A_KEY', [current, old]).keyIds).toEqual(['2025', '2024']);
});

test('a changed byte is noticed', () => {
  const secrets = new SecretEncryption('A_KEY', [current]);
  const encrypted = secrets.encrypt('t', 'a secret');
  const bytes = Buffer.from(encrypted.slice(5), 'base64');
  for (const place of [0, 12, bytes.length - 1]) {
    const changed = Buffer.from(bytes);
    changed[place]! ^= 1;
    expect(() => secrets.decrypt('t', `2025:${changed.toString('base64')}`)).toThrow();
  }
});

test('a text too short to have a whole tag is refused for that', () => {
  for (const length of [12, 14, 15]) {
    expect(() => new SecretEncryption('A_KEY', [current]).decrypt('t', `2025:${randomBytes(length).toString('base64')}`)).toThrow(
      'Invalid authentication tag length',
    );
  }
});
