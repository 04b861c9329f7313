import { createSecretKey, randomBytes } from 'node:crypto';
import { newSecret, DecryptError, SecretEncryption } from './secret-encryption.ts';

const key = (id: string) => ({ id, key: createSecretKey(randomBytes(32)) });
const [old, current] = [key('2024'), key('2025')];

test('an encrypted secret is decrypted for its tenant only, and encrypted differently each time', () => {
  const secrets = new SecretEncryption([current]);
  const secret = newSecret();
  const encrypted = secrets.encrypt('tenant a', secret);
  expect(encrypted).toMatch(/^2025:/);
  expect(encrypted).not.toContain(secret.slice(6, 20));
  expect(secrets.encrypt('tenant a', secret)).not.toBe(encrypted);
  expect(secrets.decrypt('tenant a', encrypted)).toBe(secret);
  expect(secrets.decrypt('tenant a', encrypted)).toBe(secret);
  expect(() => secrets.decrypt('tenant b', encrypted)).toThrow(DecryptError);
  expect(() => secrets.decrypt('tenant b', encrypted)).toThrow('key 2025');
});

test('a secret of the key before is still decrypted, and one of an unknown key says which', () => {
  const encrypted = new SecretEncryption([old]).encrypt('t', 'a secret');
  expect(new SecretEncryption([current, old]).decrypt('t', encrypted)).toBe('a secret');
  expect(() => new SecretEncryption([current]).decrypt('t', encrypted)).toThrow('key 2024, which WEBHOOK_ENCRYPTION_KEY does not name');
  expect(() => new SecretEncryption([current]).decrypt('t', encrypted)).toThrow(DecryptError);
});

test('of a webhook’s secrets the newest is enough, and is needed', () => {
  const [before, now] = [new SecretEncryption([old]).encrypt('t', 'before'), new SecretEncryption([current]).encrypt('t', 'now')];
  expect(new SecretEncryption([current, old]).decryptAll('t', [now, before])).toStrictEqual(['now', 'before']);
  expect(new SecretEncryption([current]).decryptAll('t', [now, before])).toStrictEqual(['now']);
  expect(() => new SecretEncryption([old]).decryptAll('t', [now, before])).toThrow(DecryptError);
});

test('the ids of all keys are known', () => {
  expect(new SecretEncryption([current, old]).keyIds).toEqual(['2025', '2024']);
});

test('a changed byte is noticed', () => {
  const secrets = new SecretEncryption([current]);
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
    expect(() => new SecretEncryption([current]).decrypt('t', `2025:${randomBytes(length).toString('base64')}`)).toThrow(
      'Invalid authentication tag length',
    );
  }
});

test('a made secret is 32 random bytes as Standard Webhooks writes them', () => {
  expect(newSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(newSecret()).not.toBe(newSecret());
});
