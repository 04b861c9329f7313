import { generateKeyPairSync } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { SignJWT, exportJWK, type JWK } from 'jose';
import { newId } from '../services/platform/ids.ts';
import { openSigner } from '../services/identity/sessions.ts';
import { TokenVerifier } from './tokens.ts';

const newKey = () => generateKeyPairSync('ed25519').privateKey;
const user = newId('user');
const found = { userId: user, sessionId: '' };

test('a token that identity signs is valid for its user', async () => {
  const signer = await openSigner([newKey()]);
  const tokens = new TokenVerifier(async () => signer.keySet);
  expect(await tokens.userOf((await signer.sign(user, Date.now())).token)).toEqual(found);
  expect(JSON.parse(await tokens.keySet())).toEqual(JSON.parse(signer.keySet));
});

test('a token with any character changed is invalid', async () => {
  const signer = await openSigner([newKey()]);
  const tokens = new TokenVerifier(async () => signer.keySet);
  const { token } = await signer.sign(user, Date.now());
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  // The last ones of each part have bits that no byte has.
  for (const place of [...token.matchAll(/.(?=\.|$)/g)].map(({ index }) => index)) {
    for (const other of alphabet.replace(token[place]!, '')) {
      expect(await tokens.userOf(token.slice(0, place) + other + token.slice(place + 1))).toBeNull();
    }
  }
  for (const more of ['=', '==', ' ', '.']) expect(await tokens.userOf(token + more)).toBeNull();
});

test('a token of a new key fetches the key set, invented keys do so once a second at most', async () => {
  const old = newKey();
  let published = (await openSigner([old])).keySet;
  let asked = 0;
  const tokens = new TokenVerifier(async () => {
    asked += 1;
    return published;
  });
  const former = await openSigner([old]);
  expect(await tokens.userOf((await former.sign(user, Date.now())).token)).toEqual(found);
  const changed = await openSigner([newKey(), old]);
  published = changed.keySet;
  const { token } = await changed.sign(user, Date.now());
  while ((await tokens.userOf(token)) === null) await pause(5);
  expect(await tokens.userOf((await former.sign(user, Date.now())).token)).toEqual(found);
  const strange = await openSigner([newKey()]);
  const [before, began] = [asked, performance.now()];
  const guesses = Array.from({ length: 200 }, async () => tokens.userOf((await strange.sign(user, Date.now())).token));
  expect(new Set(await Promise.all(guesses))).toEqual(new Set([null]));
  // One more for each further second, on however busy a machine.
  expect(asked - before).toBeLessThanOrEqual(2 + (performance.now() - began) / 1000);
});

test('concurrent requests with tokens of a new key wait for one fetch', async () => {
  const [old, fresh] = [newKey(), newKey()];
  const [former, changed] = [await openSigner([old]), await openSigner([fresh, old])];
  const answer = Promise.withResolvers<string>();
  let asked = 0;
  const tokens = new TokenVerifier(() => (++asked === 1 ? Promise.resolve(former.keySet) : answer.promise));
  expect(await tokens.userOf((await former.sign(user, Date.now())).token)).toEqual(found);
  const { token } = await changed.sign(user, Date.now());
  let first = tokens.userOf(token);
  // Identity is not asked a second time at once.
  for (; asked < 2; first = tokens.userOf(token)) await Promise.race([first, pause(20)]);
  const others = Array.from({ length: 5 }, () => tokens.userOf(token));
  await pause(50);
  answer.resolve(changed.keySet);
  expect(await Promise.all([first, ...others])).toEqual(Array(6).fill(found));
});

test('without cached keys a token cannot be verified, with old ones it can', async () => {
  const signer = await openSigner([newKey()]);
  let away = true;
  const tokens = new TokenVerifier(async () => {
    if (away) throw new Error('away');
    return signer.keySet;
  });
  const { token } = await signer.sign(user, Date.now());
  await expect(tokens.userOf(token)).rejects.toThrow('away');
  away = false;
  expect(await tokens.userOf(token)).toEqual(found);
  away = true;
  expect(await tokens.userOf(token)).toEqual(found);
  expect(await tokens.userOf(`${token.slice(0, -8)}AAAAAAAA`)).toBeNull();
});

test('a token of an unknown key cannot be verified while identity is away', async () => {
  const [old, fresh] = [newKey(), newKey()];
  const [former, changed] = [await openSigner([old]), await openSigner([fresh, old])];
  let away = false;
  let published = former.keySet;
  const tokens = new TokenVerifier(async () => {
    if (away) throw new Error('away');
    return published;
  });
  expect(await tokens.userOf((await former.sign(user, Date.now())).token)).toEqual(found);
  const { token } = await changed.sign(user, Date.now());
  away = true;
  // Asked a moment ago, and answered then, identity is not asked again at once.
  const said = () =>
    tokens.userOf(token).then(
      (answer) => answer,
      (error: unknown) => (error as Error).message,
    );
  while ((await said()) === null) await pause(5);
  // Who comes right after it could not be asked is told the same.
  expect(await Promise.all([said(), said(), said()])).toEqual(['away', 'away', 'away']);
  expect(await said()).toBe('away');
  away = false;
  published = changed.keySet;
  while ((await said()) === 'away') await pause(5);
  expect(await said()).toEqual(found);
});

test('issuer, audience, time, algorithm and subject must be right', async () => {
  const key = newKey();
  const jwk: JWK = { ...(await exportJWK(key)), kid: 'k', alg: 'EdDSA' };
  delete jwk.d;
  const tokens = new TokenVerifier(async () => JSON.stringify({ keys: [jwk] }));
  const token = (change: (jwt: SignJWT) => SignJWT, subject = user) =>
    change(
      new SignJWT()
        .setProtectedHeader({ alg: 'EdDSA', kid: 'k' })
        .setIssuer('ledger')
        .setAudience('ledger')
        .setSubject(subject)
        .setIssuedAt()
        .setExpirationTime('1h'),
    ).sign(key);
  expect(await tokens.userOf(await token((jwt) => jwt))).toEqual(found);
  for (const bad of [
    await token((jwt) => jwt.setIssuer('other')),
    await token((jwt) => jwt.setAudience('other')),
    await token((jwt) => jwt.setExpirationTime(Math.floor(Date.now() / 1000) - 1)),
    await token((jwt) => jwt.setNotBefore('1h')),
    await token((jwt) => jwt, newId('key')),
    await token((jwt) => jwt, 'ada'),
    await new SignJWT().setProtectedHeader({ alg: 'EdDSA', kid: 'k' }).setIssuer('ledger').setAudience('ledger').setSubject(user).sign(key),
    // The public key as the secret of another algorithm.
    await new SignJWT()
      .setProtectedHeader({ alg: 'HS256', kid: 'k' })
      .setIssuer('ledger')
      .setAudience('ledger')
      .setSubject(user)
      .setExpirationTime('1h')
      .sign(Buffer.from(jwk.x ?? '', 'base64url')),
    'a.b.c',
    'x'.repeat(10_000),
  ]) {
    expect(await tokens.userOf(bad)).toBeNull();
  }
});
