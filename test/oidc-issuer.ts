// An identity provider whose answers a test makes: right ones, and every wrong one.
import { createHash, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SignJWT, UnsecuredJWT } from 'jose';
import type { ExchangeOidcCodeResponse, FinishOidcResponse, StartOidcResponse } from '../proto/gen/identity/v1/identity_pb.js';
import type { IdentityClient } from './identity.ts';

/** What a test changes about the next login. */
export interface IssuerAnswer {
  /** Changes to the ID token's claims; undefined removes one. */
  claims?: Record<string, unknown>;
  /** How the ID token is signed, if not by the published key. */
  signature?: 'other key' | 'none' | 'client secret';
  /** Claims that `/userinfo` answers. */
  userinfo?: Record<string, unknown>;
  /** Answers the token request in place of the issuer. */
  token?: (response: ServerResponse) => void;
}

/** A running issuer. */
export interface TestIssuer {
  url: string;
  /** Its member of `OIDC_PROVIDERS`. */
  setting: { issuer: string; client_id: string; client_secret: string };
  /** Changes to its metadata. */
  metadata: Record<string, unknown>;
  /** How often each path was asked for. */
  requests: Record<string, number>;
  /** Answers nothing at all while true. */
  stalled: boolean;
  /** Logs a user in, as a browser at this authorization URL; returns the code for the callback. */
  authorize(authorizationUrl: string, answer?: IssuerAnswer): string;
  close(): Promise<void>;
}

const keyId = 'key-1';

/** Starts an issuer on this machine. */
export async function startIssuer(): Promise<TestIssuer> {
  const own = generateKeyPairSync('ed25519');
  const other = generateKeyPairSync('ed25519');
  const setting = { issuer: '', client_id: 'ledger', client_secret: `secret-${randomBytes(12).toString('hex')}` };
  const authorized = new Map<string, { answer: IssuerAnswer; query: URLSearchParams }>();
  const accessTokens = new Map<string, Record<string, unknown>>();

  const idToken = async ({ claims = {}, signature }: IssuerAnswer, nonce: string | null): Promise<string> => {
    const now = Math.floor(Date.now() / 1000);
    const usual = { iss: setting.issuer, aud: setting.client_id, sub: 'subject', iat: now, exp: now + 300, nonce };
    const payload = Object.fromEntries(Object.entries<unknown>({ ...usual, ...claims }).filter(([, value]) => value !== undefined));
    if (signature === 'none') return new UnsecuredJWT(payload).encode();
    const keys: Record<string, [string, KeyObject | Uint8Array]> = {
      'other key': ['EdDSA', other.privateKey],
      'client secret': ['HS256', Buffer.from(setting.client_secret)],
    };
    const [alg, key] = keys[signature ?? ''] ?? ['EdDSA', own.privateKey];
    return new SignJWT(payload).setProtectedHeader({ alg, kid: keyId }).sign(key);
  };

  const tokens = async (form: URLSearchParams, authorization: string | undefined, response: ServerResponse) => {
    const login = authorized.get(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    // RFC 6749, section 2.3.1: both parts are form-encoded.
    const given = Buffer.from((authorization ?? '').replace(/^Basic /, ''), 'base64')
      .toString()
      .split(':')
      .map(decodeURIComponent);
    const isRight =
      login?.query.get('code_challenge') === challenge &&
      login.query.get('code_challenge_method') === 'S256' &&
      login.query.get('redirect_uri') === form.get('redirect_uri') &&
      given.join() === [setting.client_id, setting.client_secret].join();
    if (!login || !isRight) return send(response, 400, { error: 'invalid_grant' });
    authorized.delete(form.get('code') ?? '');
    if (login.answer.token) return login.answer.token(response);
    const accessToken = randomBytes(12).toString('hex');
    accessTokens.set(`Bearer ${accessToken}`, login.answer.userinfo ?? {});
    send(response, 200, {
      access_token: accessToken,
      token_type: 'Bearer',
      id_token: await idToken(login.answer, login.query.get('nonce')),
    });
  };

  const server = createServer((request, response) => {
    const { url = '', headers } = request;
    issuer.requests[url] = (issuer.requests[url] ?? 0) + 1;
    if (issuer.stalled) return;
    const body: Buffer[] = [];
    request.on('data', (chunk: Buffer) => body.push(chunk));
    request.on('end', () => {
      if (url === '/token') void tokens(new URLSearchParams(Buffer.concat(body).toString()), headers.authorization, response);
      else if (url === '/userinfo') send(response, 200, accessTokens.get(headers.authorization ?? '') ?? {});
      else if (url === '/jwks')
        send(response, 200, { keys: [{ ...own.publicKey.export({ format: 'jwk' }), kid: keyId, alg: 'EdDSA', use: 'sig' }] });
      else if (url === '/.well-known/openid-configuration') send(response, 200, issuer.metadata);
      else send(response, 404, {});
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  setting.issuer = url;
  const issuer: TestIssuer = {
    url,
    setting,
    requests: {},
    stalled: false,
    metadata: {
      issuer: url,
      authorization_endpoint: `${url}/authorize`,
      token_endpoint: `${url}/token`,
      userinfo_endpoint: `${url}/userinfo`,
      jwks_uri: `${url}/jwks`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      // All of them, so that no check of a name alone makes a token safe.
      id_token_signing_alg_values_supported: ['EdDSA', 'HS256', 'none'],
    },
    authorize(authorizationUrl, answer = {}) {
      const code = randomBytes(12).toString('hex');
      authorized.set(code, { answer, query: new URL(authorizationUrl).searchParams });
      return code;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
  return issuer;
}

/** Answers JSON. */
export function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export const redirectUri = 'https://ledger.example.com/v1/auth/oidc/one/callback';
export const returnTo = 'https://app.example.com/done?x=1';

/** The state in an authorization URL. */
export const stateIn = (authorizationUrl: string): string => new URL(authorizationUrl).searchParams.get('state') ?? '';

/** What a provider says about a new subject. */
export const person = (email: string, isVerified = true): Record<string, unknown> & { sub: string; email: string } => ({
  ...{ sub: newSubject(), email, email_verified: isVerified, given_name: 'Grace', family_name: 'Hopper' },
});

/** A subject that nobody has. */
export const newSubject = (): string => randomBytes(8).toString('hex');

/** A browser's part of logins with the provider `one`, or another. */
export interface Browser {
  start(provider?: string): Promise<StartOidcResponse>;
  finish(callback: { provider?: string; state?: string; query: Record<string, string> }): Promise<FinishOidcResponse>;
  /** A whole login, up to the code. */
  login(answer?: IssuerAnswer): Promise<FinishOidcResponse>;
  /** A code for the identity of these claims. */
  codeFor(claims: Record<string, unknown>): Promise<string>;
  exchange(code: string, totpCode?: string): Promise<ExchangeOidcCodeResponse>;
}

/** Such a browser, without a gateway. */
export function browserOf(client: IdentityClient, one: TestIssuer): Browser {
  const browser: Browser = {
    start: (provider = 'one') => client.startOidc({ provider, redirectUri: redirectUri.replace('one', provider), returnTo }),
    finish: ({ provider = 'one', state = '', query }) => {
      const callbackUrl = `${redirectUri.replace('one', provider)}?${new URLSearchParams(query).toString()}`;
      return client.finishOidc({ provider, state, callbackUrl, clientAddress: '198.51.100.1' });
    },
    login: async (answer = {}) => {
      const { authorizationUrl, state } = await browser.start();
      return browser.finish({ state, query: { code: one.authorize(authorizationUrl, answer), state: stateIn(authorizationUrl) } });
    },
    codeFor: async (claims) => {
      const { code, error } = await browser.login({ claims });
      if (error !== '') throw new Error(error);
      return code;
    },
    exchange: (code, totpCode) => {
      const origin = { clientAddress: '198.51.100.2', userAgent: 'test' };
      return client.exchangeOidcCode({ code, origin, ...(totpCode !== undefined && { totpCode }) });
    },
  };
  return browser;
}
