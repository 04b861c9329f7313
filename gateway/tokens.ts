// Access tokens of users: JSON Web Tokens that identity signs and its published keys verify.
import { createLocalJWKSet, errors, jwtVerify, type JSONWebKeySet } from 'jose';
import { toUuid } from '../services/platform/ids.ts';

// A token with an unknown key id may be signed by a new key, or invented: the key set is fetched at most this often.
const minFetchIntervalMs = 1_000;
// A key that identity no longer publishes is dropped after this time.
const refreshMs = 5 * 60_000;

interface KeySet {
  text: string;
  find: ReturnType<typeof createLocalJWKSet>;
  fetchedMs: number;
}

/** Whose token it is. */
export interface TokenUser {
  userId: string;
  /** Empty for a token that names no session. */
  sessionId: string;
}

/** Verifies access tokens. */
export class TokenVerifier {
  private keys: KeySet | undefined;
  private lastFetchMs = -Infinity;
  private failure: Error | undefined;
  private fetching: Promise<KeySet> | undefined;
  private readonly fetch: () => Promise<string>;

  /** `fetch` asks identity for its key set (RFC 7517) as text, and throws where identity can't be reached. */
  constructor(fetch: () => Promise<string>) {
    this.fetch = fetch;
  }

  /** The token's user and session, or null where the token is invalid. Throws where the key that may have signed it can't be fetched. */
  async userOf(token: string): Promise<TokenUser | null> {
    if (token.length > 4096 || !isCanonical(token)) return null;
    const keys = await this.current();
    try {
      return await verify(token, keys);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) return null;
      const mayFetch = this.fetching !== undefined || performance.now() - this.lastFetchMs >= minFetchIntervalMs;
      if (mayFetch) return verify(token, await this.load()).catch(() => null);
      if (this.failure) throw this.failure;
      return null;
    }
  }

  /** The published key set as text. Throws where none is cached and identity can't be reached. */
  async keySet(): Promise<string> {
    return (await this.current()).text;
  }

  private async current(): Promise<KeySet> {
    if (!this.keys) return this.load();
    // Old keys stay valid while identity can't be reached.
    const now = performance.now();
    if (now - this.keys.fetchedMs > refreshMs && now - this.lastFetchMs > minFetchIntervalMs) this.load().catch(() => undefined);
    return this.keys;
  }

  private load(): Promise<KeySet> {
    this.lastFetchMs = performance.now();
    this.fetching ??= this.fetch()
      .then((text) => {
        this.failure = undefined;
        return (this.keys = { text, find: createLocalJWKSet(JSON.parse(text) as JSONWebKeySet), fetchedMs: performance.now() });
      })
      .catch((error: unknown) => {
        throw (this.failure = error as Error);
      })
      .finally(() => (this.fetching = undefined));
    return this.fetching;
  }
}

// The last character of a signature has bits that no byte has, so that several texts would be one token.
function isCanonical(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1);
  return Buffer.from(signature, 'base64url').toString('base64url') === signature;
}

async function verify(token: string, keys: KeySet): Promise<TokenUser | null> {
  const options = { issuer: 'ledger', audience: 'ledger', algorithms: ['EdDSA'], requiredClaims: ['exp', 'sub'] };
  const { payload } = await jwtVerify(token, keys.find, options);
  if (payload.sub === undefined || toUuid('user', payload.sub) === null) return null;
  return { userId: payload.sub, sessionId: typeof payload['sid'] === 'string' ? payload['sid'] : '' };
}
