// Access tokens of users: JSON Web Tokens that identity signs and its published keys verify.
import { createLocalJWKSet, errors, jwtVerify, type JSONWebKeySet } from 'jose';
import { toUuid } from '../services/platform/ids.ts';

// A token with an unknown key id may be signed by a new key, or invented: identity is asked at most this often.
const coolDownMs = 1_000;
// A key that identity no longer publishes is forgotten after this time.
const refreshMs = 5 * 60_000;

interface KeySet {
  text: string;
  find: ReturnType<typeof createLocalJWKSet>;
  fetched: number;
}

/** Verifies access tokens. */
export class TokenVerifier {
  private keys: KeySet | undefined;
  private asked = -Infinity;
  /** Why identity could not be asked the last time, where it could not. */
  private failure: Error | undefined;
  private call: Promise<KeySet> | undefined;
  private readonly fetch: () => Promise<string>;

  /** `fetch` asks identity for its key set (RFC 7517) as text, and throws where it can't be asked. */
  constructor(fetch: () => Promise<string>) {
    this.fetch = fetch;
  }

  /**
   * The id of the token's user, or null where the token is not valid. Throws where identity is away and no keys are known, or none that could
   * have signed the token: a new one may have.
   */
  async userOf(token: string): Promise<string | null> {
    if (token.length > 4096 || !isOneSpelling(token)) return null;
    const keys = await this.current();
    try {
      return await verified(token, keys);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) return null;
      // Whoever comes while identity is asked waits for the same answer.
      if (this.call || performance.now() - this.asked >= coolDownMs) return verified(token, await this.load()).catch(() => null);
      if (this.failure) throw this.failure;
      return null;
    }
  }

  /** The published key set as text. Throws where none is known and identity is away. */
  async keySet(): Promise<string> {
    return (await this.current()).text;
  }

  private async current(): Promise<KeySet> {
    if (!this.keys) return this.load();
    // The old keys are as good as any while identity is away.
    const now = performance.now();
    if (now - this.keys.fetched > refreshMs && now - this.asked > coolDownMs) this.load().catch(() => undefined);
    return this.keys;
  }

  private load(): Promise<KeySet> {
    this.asked = performance.now();
    this.call ??= this.fetch()
      .then((text) => {
        this.keys = { text, find: createLocalJWKSet(JSON.parse(text) as JSONWebKeySet), fetched: performance.now() };
        this.failure = undefined;
        return this.keys;
      })
      .catch((error: unknown) => {
        this.failure = error as Error;
        throw error;
      })
      .finally(() => (this.call = undefined));
    return this.call;
  }
}

// The last character of a signature has bits that no byte has: several texts would be one token, all but one of them never given out.
function isOneSpelling(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1);
  return Buffer.from(signature, 'base64url').toString('base64url') === signature;
}

async function verified(token: string, keys: KeySet): Promise<string | null> {
  const { payload } = await jwtVerify(token, keys.find, {
    issuer: 'ledger',
    audience: 'ledger',
    algorithms: ['EdDSA'],
    requiredClaims: ['exp', 'sub'],
  });
  return payload.sub !== undefined && toUuid('user', payload.sub) !== null ? payload.sub : null;
}
