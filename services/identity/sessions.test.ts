import { createPrivateKey } from 'node:crypto';
import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose';
import { newSigningKey } from '../../test/identity.ts';
import { openSigner } from './sessions.ts';

test('tokens of the key before stay good when a new one is put in front of it', async () => {
  const [old, young] = [createPrivateKey(newSigningKey()), createPrivateKey(newSigningKey())];
  const before = await openSigner([old]);
  const after = await openSigner([young, old]);
  const keySet = createLocalJWKSet(JSON.parse(after.keySet) as JSONWebKeySet);
  for (const signer of [before, after]) {
    const { token } = await signer.sign('user_x', Date.now());
    expect((await jwtVerify(token, keySet)).payload.sub).toBe('user_x');
  }
  const { token } = await after.sign('user_x', Date.now());
  await expect(jwtVerify(token, createLocalJWKSet(JSON.parse(before.keySet) as JSONWebKeySet))).rejects.toThrow('no applicable key');
});
