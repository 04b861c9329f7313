import { createSecretKey, randomBytes } from 'node:crypto';
import { newSecret, Unopened, Vault } from './vault.ts';

const key = (id: string) => ({ id, key: createSecretKey(randomBytes(32)) });
const [old, current] = [key('2024'), key('2025')];

test('a sealed secret opens for its tenant alone, and is sealed differently each time', () => {
  const vault = new Vault([current]);
  const secret = newSecret();
  const sealed = vault.seal('tenant a', secret);
  expect(sealed).toMatch(/^2025:/);
  expect(sealed).not.toContain(secret.slice(6, 20));
  expect(vault.seal('tenant a', secret)).not.toBe(sealed);
  expect(vault.open('tenant a', sealed)).toBe(secret);
  expect(vault.open('tenant a', sealed)).toBe(secret);
  expect(() => vault.open('tenant b', sealed)).toThrow(Unopened);
  expect(() => vault.open('tenant b', sealed)).toThrow('key 2025');
});

test('what was sealed with the key before still opens, and what has lost its key says which', () => {
  const sealed = new Vault([old]).seal('t', 'a secret');
  expect(new Vault([current, old]).open('t', sealed)).toBe('a secret');
  expect(() => new Vault([current]).open('t', sealed)).toThrow('key 2024, which WEBHOOK_ENCRYPTION_KEY does not name');
  expect(() => new Vault([current]).open('t', sealed)).toThrow(Unopened);
});

test('of a webhook’s secrets the newest is enough, and is needed', () => {
  const [before, now] = [new Vault([old]).seal('t', 'before'), new Vault([current]).seal('t', 'now')];
  expect(new Vault([current, old]).openAll('t', [now, before])).toStrictEqual(['now', 'before']);
  expect(new Vault([current]).openAll('t', [now, before])).toStrictEqual(['now']);
  expect(() => new Vault([old]).openAll('t', [now, before])).toThrow(Unopened);
});

test('a vault names its keys', () => {
  expect(new Vault([current, old]).keyIds).toEqual(['2025', '2024']);
});

test('a changed byte is noticed', () => {
  const vault = new Vault([current]);
  const sealed = vault.seal('t', 'a secret');
  const bytes = Buffer.from(sealed.slice(5), 'base64');
  for (const place of [0, 12, bytes.length - 1]) {
    const changed = Buffer.from(bytes);
    changed[place]! ^= 1;
    expect(() => vault.open('t', `2025:${changed.toString('base64')}`)).toThrow();
  }
});

test('a text too short to have a whole tag is refused for that', () => {
  for (const length of [12, 14, 15]) {
    expect(() => new Vault([current]).open('t', `2025:${randomBytes(length).toString('base64')}`)).toThrow(
      'Invalid authentication tag length',
    );
  }
});

test('a made secret is 32 random bytes as Standard Webhooks writes them', () => {
  expect(newSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(newSecret()).not.toBe(newSecret());
});
