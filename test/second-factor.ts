// Codes of authenticators, and users of the identity service with a second factor, for tests.
import { TOTP } from 'otpauth';
import type { User } from '../proto/gen/identity/v1/identity_pb.js';
import { newUser, password, type IdentityClient } from './identity.ts';

/** The code of a secret, `steps` of 30 s from now: 0 and 1 are good for longer than a test takes. */
export function codeOf(secret: string, steps = 0): string {
  return new TOTP({ secret }).generate({ timestamp: Date.now() + steps * 30_000 });
}

/** A code that no step near now has. */
export function wrongCode(secret: string): string {
  const near = [-2, -1, 0, 1, 2].map((steps) => codeOf(secret, steps));
  return ['000000', '111111', '222222', '333333', '444444', '555555'].find((code) => !near.includes(code))!;
}

/** A second factor that is on; the current code is used. */
export interface SecondFactor {
  secret: string;
  recoveryCodes: string[];
}

/** Turns on a second factor of a user. */
export async function enable(client: IdentityClient, { id: userId }: User): Promise<SecondFactor> {
  const { secret } = await client.startTotp({ userId, password });
  const { recoveryCodes } = await client.confirmTotp({ userId, code: codeOf(secret) });
  return { secret, recoveryCodes };
}

/** A new user with a second factor. */
export async function newFactorUser(client: IdentityClient): Promise<SecondFactor & { user: User }> {
  const user = await newUser(client);
  return { user, ...(await enable(client, user)) };
}
