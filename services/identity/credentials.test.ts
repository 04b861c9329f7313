import fc from 'fast-check';
import { newId } from '../platform/ids.ts';
import { foldScopes, hashOf, idOfKeyText, newKeyText, newRefreshToken, sameHash, unknownScope } from './credentials.ts';

const keyText = fc.constant(undefined).map(() => newKeyText(newId('key')));

test('a key has the prefix, 26 characters of its id, 43 of secret and 6 of checksum', () => {
  const id = newId('key');
  const text = newKeyText(id);
  expect(text).toMatch(/^lk_live_[0-9a-z]{26}_[0-9A-Za-z]{49}$/);
  expect(idOfKeyText(text)).toBe(id);
});

test('the checksum is the CRC32 of all before it in base62, so that anyone can write a scanner', () => {
  // A fifth of all checksums begin with a zero.
  for (let count = 0; count < 40; count += 1) {
    const body = `lk_live_01arz3ndektsv4rrffq69g5fav_${String(count).padStart(43, '0')}`;
    expect(idOfKeyText(`${body}${checksumByHand(body)}`)).toBe('key_01arz3ndektsv4rrffq69g5fav');
  }
});

test('two keys of one id differ', () => {
  const id = newId('key');
  expect(new Set(Array.from({ length: 100 }, () => newKeyText(id))).size).toBe(100);
});

test('a key with any one character changed is garbage', () => {
  fc.assert(
    fc.property(keyText, fc.nat(), fc.constantFrom('0', '9', 'A', 'Z', 'a', 'z', '_', '-', ' ', 'é'), (text, place, character) => {
      const at = place % text.length;
      fc.pre(text[at] !== character);
      expect(idOfKeyText(text.slice(0, at) + character + text.slice(at + 1))).toBeNull();
    }),
  );
});

test('a key cut short, or with anything before or after it, is garbage', () => {
  fc.assert(
    fc.property(keyText, fc.nat(), fc.string({ minLength: 1 }), (text, cut, more) => {
      expect(idOfKeyText(text.slice(0, cut % text.length))).toBeNull();
      expect(idOfKeyText(text + more)).toBeNull();
      expect(idOfKeyText(more + text)).toBeNull();
    }),
  );
});

test('a hash is SHA-256 as hex, and is compared whole', () => {
  expect(hashOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  expect(sameHash(hashOf('abc'), hashOf('abc'))).toBe(true);
  expect(sameHash(hashOf('abc'), hashOf('abd'))).toBe(false);
  expect(sameHash(hashOf('abc'), '')).toBe(false);
});

test('a refresh token has 256 bits of its own each time', () => {
  expect(newRefreshToken()).toMatch(/^lrt_[0-9A-Za-z]{43}$/);
  expect(newRefreshToken()).not.toBe(newRefreshToken());
});

test('repeated scopes are folded and the first unknown one is named by its place', () => {
  expect(foldScopes(['balances:read', 'accounts:read', 'balances:read'])).toEqual(['balances:read', 'accounts:read']);
  expect(unknownScope(['accounts:read', 'accounts:Read', 'x'])).toBe(1);
  expect(unknownScope(['accounts:read', 'reports:read'])).toBe(-1);
  expect(unknownScope(['toString'])).toBe(0);
});

// The table-free CRC32 of the textbook, independent of node:zlib.
function checksumByHand(text: string): string {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  let rest = (crc ^ 0xffffffff) >>> 0;
  let digits = '';
  for (; rest > 0; rest = Math.floor(rest / 62)) {
    digits = ('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'[rest % 62] ?? '') + digits;
  }
  return digits.padStart(6, '0');
}
