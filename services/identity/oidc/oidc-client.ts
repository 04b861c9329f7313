// Calls identity providers: OpenID Connect, code flow with PKCE, state and nonce; every answer is verified.
import * as client from 'openid-client';
import { Readable } from 'node:stream';
import { FairSemaphore, Overloaded } from '../../platform/fair-semaphore.ts';
import { DecryptError, type SecretEncryption } from '../../platform/secret-encryption.ts';
import type { OidcProvider } from './oidc-providers.ts';
import { Refusal } from '../refusal.ts';

/** A login that has begun; a cookie of the browser holds it, encrypted. */
export interface OidcLogin {
  provider: string;
  state: string;
  nonce: string;
  verifier: string;
  redirectUri: string;
  /** Where the browser goes afterwards. */
  returnTo: string;
  /** Milliseconds since the Unix epoch. */
  expiresMs: number;
}

/** What a provider says about a user. */
export interface OidcIdentity {
  issuer: string;
  subject: string;
  claims: Record<string, unknown>;
}

/** Thrown for a login that a provider rejects or answers wrongly. `error`: the code for the browser; the message is for the log. */
export class OidcFailure extends Error {
  readonly error: string;

  constructor(error: string, message: string) {
    super(message);
    this.error = error;
  }
}

const loginMs = 10 * 60_000;
const discoveryMs = 60 * 60_000;
const timeoutSeconds = 5;
const maxAnswerBytes = 1 << 20;
// Another owner than that of any other secret.
const owner = 'oidc-login';

// What the library throws for an answer that it rejects.
const rejections = [client.ClientError, client.ResponseBodyError, client.WWWAuthenticateChallengeError, TypeError];

/** The providers of a deployment. */
export class OidcClient {
  private readonly providers: ReadonlyMap<string, OidcProvider>;
  private readonly encryption: SecretEncryption;
  private readonly discovered = new Map<string, { atMs: number; configuration: Promise<client.Configuration> }>();
  // A provider that stalls must not delay logins with another.
  private readonly calls = new FairSemaphore({ max: 128, maxPerKey: 32, timeoutMs: 5_000 });

  constructor(providers: ReadonlyMap<string, OidcProvider>, encryption: SecretEncryption) {
    this.providers = providers;
    this.encryption = encryption;
  }

  /** The provider of a name. Throws `provider_not_found`. */
  provider(name: string): OidcProvider {
    const provider = this.providers.get(name);
    if (!provider) throw new Refusal('provider_not_found', 'there is no identity provider of this name');
    return provider;
  }

  /** Begins a login: the address of the provider, and the login, encrypted. Throws `provider_not_found`, {@link OidcFailure}. */
  async begin(name: string, redirectUri: string, returnTo: string): Promise<{ authorizationUrl: string; state: string }> {
    const provider = this.provider(name);
    const configuration = await this.configuration(provider).catch((error: unknown) => {
      throw new OidcFailure('unavailable', described(error));
    });
    const [state, nonce, verifier] = [client.randomState(), client.randomNonce(), client.randomPKCECodeVerifier()];
    const url = client.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: provider.scopes.join(' '),
      state,
      nonce,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    const login: OidcLogin = { provider: name, state, nonce, verifier, redirectUri, returnTo, expiresMs: Date.now() + loginMs };
    return { authorizationUrl: url.href, state: this.encryption.encrypt(owner, JSON.stringify(login)) };
  }

  /** The login of an encrypted state. Throws `provider_not_found`, `unauthenticated` (not ours, expired, or of another provider). */
  login(name: string, state: string): OidcLogin {
    this.provider(name);
    const invalid = new Refusal('unauthenticated', 'no login with this identity provider is in progress in this browser: begin again');
    let login: OidcLogin;
    try {
      login = JSON.parse(this.encryption.decrypt(owner, state)) as OidcLogin;
    } catch (error) {
      throw error instanceof DecryptError ? invalid : error;
    }
    if (login.provider !== name || login.expiresMs <= Date.now()) throw invalid;
    return login;
  }

  /** The identity in a provider's answer, the query with which it sent the browser back. Throws {@link OidcFailure}. */
  async identity(login: OidcLogin, query: string, signal: AbortSignal): Promise<OidcIdentity> {
    const provider = this.provider(login.provider);
    try {
      return await this.calls.run(provider.name, signal, async () => identityOf(await this.configuration(provider), login, query));
    } catch (error) {
      if (error instanceof client.AuthorizationResponseError) {
        throw new OidcFailure(/^[a-z_]{1,64}$/.test(error.error) ? error.error : 'login_failed', 'the provider rejected the login');
      }
      if (error instanceof Overloaded || isUnavailable(error)) throw new OidcFailure('unavailable', described(error));
      if (rejections.some((kind) => error instanceof kind)) throw new OidcFailure('login_failed', described(error));
      throw error;
    }
  }

  /** What a provider publishes about itself, read again after an hour; calls at once share one request. */
  private configuration(provider: OidcProvider): Promise<client.Configuration> {
    const known = this.discovered.get(provider.name);
    if (known && performance.now() - known.atMs < discoveryMs) return known.configuration;
    const configuration = discover(provider);
    const entry = { atMs: performance.now(), configuration };
    this.discovered.set(provider.name, entry);
    configuration.catch(() => this.discovered.get(provider.name) === entry && this.discovered.delete(provider.name));
    return configuration;
  }
}

async function discover({ issuer, clientId, clientSecret }: OidcProvider): Promise<client.Configuration> {
  const options: client.DiscoveryRequestOptions = {
    timeout: timeoutSeconds,
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- only for issuers on this machine
    execute: [client.enableNonRepudiationChecks, ...(issuer.protocol === 'http:' ? [client.allowInsecureRequests] : [])],
    [client.customFetch]: boundedFetch,
  };
  // Basic is every provider's default (OpenID Connect Core, section 9).
  const authentication: client.ClientAuth = (as, ...rest) => {
    const methods = as.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    const method = methods.includes('client_secret_basic') ? client.ClientSecretBasic : client.ClientSecretPost;
    method(clientSecret)(as, ...rest);
  };
  return client.discovery(issuer, clientId, undefined, authentication, options);
}

async function identityOf(configuration: client.Configuration, login: OidcLogin, query: string): Promise<OidcIdentity> {
  const url = new URL(login.redirectUri);
  url.search = query;
  const { state: expectedState, nonce: expectedNonce, verifier: pkceCodeVerifier } = login;
  const tokens = await client.authorizationCodeGrant(configuration, url, { expectedState, expectedNonce, pkceCodeVerifier });
  const idToken = tokens.claims();
  if (!idToken) throw new OidcFailure('login_failed', 'the answer has no ID token');
  const { iss: issuer, sub: subject } = idToken;
  // The longest of OpenID Connect Core, section 2; PostgreSQL stores no NUL.
  if (subject.length > 255 || subject.includes('\0'))
    throw new OidcFailure('login_failed', 'sub is longer than 255 characters, or not text');
  // All claims come from one source: an address must not be verified by what is said about another.
  const isElsewhere = idToken['email'] === undefined && configuration.serverMetadata().userinfo_endpoint !== undefined;
  const claims = isElsewhere ? await client.fetchUserInfo(configuration, tokens.access_token, subject) : idToken;
  return { issuer, subject, claims };
}

/** Thrown for a provider that can't be reached, or answers 5xx. */
class Unavailable extends Error {}

/** `fetch` that reads at most 1 MiB of an answer, within the time that the library allows for its head. */
const boundedFetch: client.CustomFetch = async (url, options) => {
  let answer: Response;
  const chunks: Uint8Array[] = [];
  try {
    answer = await fetch(url, options as RequestInit);
    let bytes = 0;
    for await (const chunk of answer.body ? Readable.fromWeb(answer.body as never) : []) {
      bytes += (chunk as Uint8Array).length;
      if (bytes > maxAnswerBytes) throw new Error('the answer is larger than 1 MiB');
      chunks.push(chunk as Uint8Array);
    }
  } catch (error) {
    throw new Unavailable(`no answer of ${new URL(url).origin}: ${described(error)}`);
  }
  if (answer.status >= 500) throw new Unavailable(`${new URL(url).origin} answered ${answer.status}`);
  const { status, statusText, headers } = answer;
  return new Response(chunks.length > 0 ? Buffer.concat(chunks) : null, { status, statusText, headers });
};

function isUnavailable(error: unknown): boolean {
  return error instanceof Unavailable || (error instanceof Error && error.cause !== undefined && isUnavailable(error.cause));
}

/** For the log: messages only, because other members of these errors hold tokens and claims. */
function described(error: unknown): string {
  const { message, code, error: given, cause } = error as Error & { code?: string; error?: string };
  // What the provider calls the error, as `invalid_client`.
  const word = /^[a-z_]{1,64}$/.test(given ?? '') ? given : code;
  const own = word === undefined ? message : `${message} (${word})`;
  // A message of the JSON parser repeats a part of its text.
  return cause instanceof Error && !(cause instanceof SyntaxError) ? `${own}: ${described(cause)}` : own;
}
