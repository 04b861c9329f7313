// Routes of logins with identity providers (OpenID Connect): a browser's way there and back, and the exchange of its code.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { validationError, ApiError } from '../errors.ts';
import { object, optional, secret } from '../fields.ts';
import { record, ref } from '../records.ts';
import { callOptions, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exampleSession, exampleUser, answeredUser, session, sessionRecord, totpCode } from './users.ts';

/** What these routes take from the settings. */
export interface OidcSettings {
  /** Where browsers reach this gateway. */
  publicUrl: string;
  /** Origins to which a browser may return. */
  corsOrigins: string[];
}

const maxReturnTo = 1_000;
const loginSeconds = 600;
const returnTo = Type.Unsafe<string>({
  type: 'string',
  minLength: 1,
  maxLength: maxReturnTo,
  description: 'Where the browser goes afterwards: a path of this server, or an address whose origin is in `CORS_ORIGINS`.',
  example: 'https://app.example.com/',
});
const exampleCode = '5qX0kZ7mV2cN9bA4sD6fG8hJ1lQ3wE5rT7yU9iO0pAs';
const code = secret(1, 512, { description: 'From the address to which the callback redirected.', example: exampleCode });

/** `/v1/auth/oidc`. */
export function oidcRoutes(app: App, { identity, publicUrl, corsOrigins }: Services & OidcSettings): void {
  const cookie = loginCookie(publicUrl.startsWith('https:'));
  const redirectUri = (provider: string) => `${publicUrl}/v1/auth/oidc/${provider}/callback`;

  app.get(
    '/v1/auth/oidc/:provider/start',
    {
      schema: { querystring: object({ return_to: returnTo }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'startOidc',
          tag: 'Users',
          summary: 'Log in with an identity provider',
          description: [
            'For a browser: navigate to it. OpenID Connect, authorization code flow with PKCE. A cookie binds the login to the browser for 10 minutes.',
            'The provider must know the redirect URI `<PUBLIC_URL>/v1/auth/oidc/{provider}/callback`.',
          ].join(' '),
          answers: {},
          redirect: 'To the provider.',
          errors: ['provider_not_found'],
          errorFields: { validation_failed: { field: 'return_to', tag: 'url', value: '//example.net' } },
        },
      },
    },
    async (request, reply) => {
      const { provider } = request.params as { provider: string };
      const back = returnAddress(request.query.return_to, publicUrl, corsOrigins);
      const rpcRequest = { provider, redirectUri: redirectUri(provider), returnTo: back };
      const { authorizationUrl, state } = await identity.startOidc(rpcRequest, callOptions(request, 15_000));
      return redirect(reply, authorizationUrl, cookie.set(state));
    },
  );

  app.get(
    '/v1/auth/oidc/:provider/callback',
    {
      // Providers add parameters of their own.
      schema: { querystring: Type.Object({}, { additionalProperties: true }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'finishOidc',
          tag: 'Users',
          summary: 'Return from an identity provider',
          description: [
            'The provider sends the browser here with its own parameters (RFC 6749, section 4.1.2).',
            'Without the cookie of a login that was begun in this browser less than 10 minutes ago the answer is 401.',
          ].join(' '),
          answers: {},
          redirect: [
            'To `return_to` with `code`, valid once for 60 seconds, or with `error`: a code of the provider such as `access_denied`,',
            '`login_failed` (its answer is not valid), or `unavailable`.',
          ].join(' '),
          errors: ['provider_not_found', 'unauthenticated'],
        },
      },
    },
    async (request, reply) => {
      const { provider } = request.params as { provider: string };
      const state = cookie.read(request);
      if (state === undefined) throw new ApiError('unauthenticated', { message: 'no login is in progress in this browser: begin again' });
      const callbackUrl = redirectUri(provider) + (/\?.*$/s.exec(request.url)?.[0] ?? '');
      const rpcRequest = { provider, state, callbackUrl, clientAddress: request.ip };
      const finished = await identity.finishOidc(rpcRequest, callOptions(request, 30_000));
      const back = new URL(finished.returnTo);
      for (const [name, value] of Object.entries({ code: finished.code, error: finished.error })) {
        if (value === '') back.searchParams.delete(name);
        else back.searchParams.set(name, value);
      }
      return redirect(reply, back.href, cookie.clear);
    },
  );

  app.post(
    '/v1/auth/oidc/token',
    {
      schema: {
        body: object({ code, totp_code: optional(totpCode) }),
      },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'exchangeOidcCode',
          tag: 'Users',
          summary: 'Exchange a code for a session',
          description: [
            'The identity is issuer and subject of the provider. A new one joins the user with its email if the provider and this server both have verified it; if only one has, the answer is `email_taken`.',
            'Then log in as that user and link the identity, also with the same code. Without such a user one is created, without a password.',
            'After `totp_required` the code stays valid. Use only a code for which this page has sent the browser away.',
          ].join(' '),
          bodies: { code: { code: exampleCode } },
          answers: {
            200: { description: 'Logged in', ...session, example: { ...exampleSession, user: exampleUser }, message: 'Login successful' },
          },
          errors: ['unauthenticated', 'totp_required', 'email_taken', 'rate_limited'],
          rateLimitHeadersOn: [401],
          errorFields: { validation_failed: { field: 'code' }, email_taken: { field: 'code', value: '' } },
        },
      },
    },
    async (request) => {
      const { code: given, totp_code: factor } = request.body;
      const rpcRequest = { code: given, totpCode: factor ?? undefined, origin: originOf(request) };
      const { session: opened, user } = await identity.exchangeOidcCode(rpcRequest, callOptions(request, 15_000));
      return { success: true, data: sessionRecord(opened, user), message: 'Login successful' };
    },
  );

  app.post(
    '/v1/auth/oidc/:provider/link',
    {
      schema: { body: object({ code }) },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'linkOidc',
          tag: 'Users',
          summary: 'Link an identity to my user',
          description: 'The user may have several, also of one provider. An identity that another user has is rejected (`email_taken`).',
          bodies: { code: { code: exampleCode } },
          answers: {
            200: {
              description: 'Linked',
              schema: record({ user: ref('User') }),
              example: { user: exampleUser },
              message: 'Identity linked',
            },
          },
          errors: ['provider_not_found', 'email_taken'],
          errorFields: { validation_failed: { field: 'code' }, email_taken: { field: 'code', value: '' } },
        },
      },
    },
    async (request) => {
      const { provider } = request.params as { provider: string };
      const { actor: userId, sessionId = '' } = request.caller;
      const rpcRequest = { userId, sessionId, provider, code: request.body.code, origin: originOf(request) };
      const { user } = await identity.linkOidc(rpcRequest, callOptions(request, 5_000));
      return { success: true, data: { user: answeredUser(user) }, message: 'Identity linked' };
    },
  );
}

/** The whole address of a `return_to`. Throws `validation_failed` for one that leads to a server that is not ours. */
function returnAddress(given: string, publicUrl: string, origins: string[]): string {
  const own = new URL(publicUrl).origin;
  // Printable ASCII without backslashes: browsers read other characters in other ways.
  const isPath = /^\/(?!\/)/.test(given);
  if (/^[\x21-\x5b\x5d-\x7e]+$/.test(given) && URL.canParse(given, isPath ? own : undefined)) {
    const url = new URL(given, isPath ? own : undefined);
    // The origin of a `blob:` address is that of its creator.
    const isWeb = /^https?:$/.test(url.protocol) && url.username + url.password === '';
    if (isWeb && (isPath ? url.origin === own : origins.includes(url.origin)) && url.href.length <= maxReturnTo) return url.href;
  }
  const message = 'return_to must be a path of this server or an address whose origin is in CORS_ORIGINS';
  throw validationError([{ field: 'return_to', tag: 'url', value: given, message }]);
}

function redirect(reply: FastifyReply, to: string, setCookie: string): FastifyReply {
  return reply.headers({ 'set-cookie': setCookie, 'referrer-policy': 'no-referrer' }).redirect(to, 302);
}

/** The cookie of a login in progress. `__Host-` (RFC 6265bis, section 4.1.3.2) keeps other hosts from setting it. */
function loginCookie(isSecure: boolean) {
  const name = isSecure ? '__Host-oidc-login' : 'oidc-login';
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  return {
    set: (value: string) => `${name}=${encodeURIComponent(value)}; Max-Age=${loginSeconds}; ${attributes}`,
    clear: `${name}=; Max-Age=0; ${attributes}`,
    read: ({ headers }: FastifyRequest): string | undefined => {
      const found = (headers.cookie ?? '').split(/; */).find((each) => each.startsWith(`${name}=`));
      // Other bytes than ours can't be decrypted either.
      return found?.slice(name.length + 1).replace(/%(3A|2B|2F|3D)/g, (escaped) => decodeURIComponent(escaped)) || undefined;
    },
  };
}
