// Routes of registration, sessions and the current user.
import type { Session, User } from '../../proto/gen/identity/v1/identity_pb.js';
import { email, name, object, optional, secret } from '../fields.ts';
import { rateLimitHeaderNames } from '../openapi-headers.ts';
import { record, ref } from '../records.ts';
import { callOptions, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { rateLimitFields, userRecord } from '../mapping.ts';

/** A user of the examples. */
export const exampleUser = {
  id: 'user_01jd1zq5v8e6n9w2k4m7p3r5t8',
  email: 'ada@example.com',
  first_name: 'Ada',
  last_name: 'Lovelace',
  status: 'active',
  email_verified: true,
  totp_enabled: false,
  created_at: '2030-01-31T12:00:00.000Z',
};
/** A session of the examples. */
export const exampleSession = {
  token: 'eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJsZWRnZXIifQ.c2lnbmF0dXJl',
  expires_at: '2030-01-31T13:00:00.000Z',
  refresh_token: 'lrt_5qX0kZ7mV2cN9bA4sD6fG8hJ1lQ3wE5rT7yU9iO0pAs',
};
/** The answer of every login. */
export const session = {
  name: 'Session',
  schema: record({
    token: { type: 'string', description: 'JWT, valid for one hour: `Authorization: Bearer <token>`.' },
    expires_at: { type: 'string', format: 'date-time' },
    refresh_token: { type: 'string', description: 'Valid once, within 30 days.' },
    user: ref('User'),
  }),
};

/** The answer of an action that returns nothing. */
export const noData = { name: 'Done', schema: { type: 'object' }, example: {} };
/** The answer of an action on the user. */
export const changedUser = { name: 'User', schema: record({ user: ref('User') }) };

const refreshToken = secret(1, 512, { description: 'From the last login or refresh.', example: exampleSession.refresh_token });

/** `totp_code` of a login. */
export const totpCode = secret(1, 64, {
  description: 'Six digits of the second factor, or a recovery code. Needed only if the user has a second factor.',
  example: '123456',
});

/** `data` of a login. */
export function sessionRecord(given: Session | undefined, user: User | undefined): Record<string, unknown> {
  if (!given || !user) throw new Error('identity answered without a session');
  const { token, expiresMs, refreshToken: refresh } = given;
  return { token, expires_at: timeOf(expiresMs), refresh_token: refresh, user: userRecord(user) };
}

/** `data.user`. */
export function answeredUser(user: User | undefined): Record<string, unknown> {
  if (!user) throw new Error('identity answered without a user');
  return userRecord(user);
}

/** `/v1/auth/*` and `/v1/user`. */
export function userRoutes(app: App, { identity }: Services): void {
  app.post(
    '/v1/auth/register',
    {
      schema: {
        body: object({
          email,
          password: secret(8, 128, { example: 'correct horse battery' }),
          first_name: { ...name, example: 'Ada' } as typeof name,
          last_name: { ...name, example: 'Lovelace' } as typeof name,
        }),
      },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'register',
          tag: 'Users',
          summary: 'Register',
          description:
            'A second call with this email, in any case, is rejected (`email_taken`). Emails and passwords are compared in Unicode form NFC.',
          bodies: { ada: { email: 'ada@example.com', password: 'correct horse battery', first_name: 'Ada', last_name: 'Lovelace' } },
          answers: {
            201: {
              description: 'Registered',
              ...changedUser,
              example: { user: exampleUser },
              message: 'User registered',
            },
          },
          errors: ['email_taken'],
        },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const { user } = await identity.register(
        {
          email: body.email,
          password: body.password,
          firstName: body.first_name,
          lastName: body.last_name,
          ...originOf(request),
        },
        callOptions(request, 15_000),
      );
      reply.code(201);
      return { success: true, data: { user: answeredUser(user) }, message: 'User registered' };
    },
  );

  app.post(
    '/v1/auth/login',
    {
      schema: { body: object({ email, password: secret(1, 128, { example: 'correct horse battery' }), totp_code: optional(totpCode) }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'login',
          tag: 'Users',
          summary: 'Log in',
          description:
            'Wrong password and unknown email answer the same. The limits are 10 failures in 15 minutes per account and address, and 100 per address; only failures count. If the user has a second factor, `totp_code` is needed: without it the right password is answered `totp_required`. Each code is good once, and a user has 10 failures in 15 minutes from all addresses. Each login starts its own session.',
          bodies: {
            ada: { email: 'ada@example.com', password: 'correct horse battery' },
            second_factor: { email: 'ada@example.com', password: 'correct horse battery', totp_code: '123456' },
          },
          answers: {
            200: {
              description: 'Logged in',
              ...session,
              example: { ...exampleSession, user: exampleUser },
              message: 'Login successful',
              headers: rateLimitHeaderNames,
            },
          },
          errors: ['unauthenticated', 'totp_required', 'rate_limited'],
          rateLimitHeadersOn: [401],
        },
      },
    },
    async (request, reply) => {
      const { email: address, password, totp_code: code } = request.body;
      const given = { email: address, password, totpCode: code ?? undefined, ...originOf(request) };
      const { session: opened, user, rateLimit } = await identity.login(given, callOptions(request, 15_000));
      if (rateLimit) reply.headers(rateLimitFields(rateLimit));
      return { success: true, data: sessionRecord(opened, user), message: 'Login successful' };
    },
  );

  app.post(
    '/v1/auth/refresh',
    {
      schema: { body: object({ refresh_token: refreshToken }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'refresh',
          tag: 'Users',
          summary: 'Renew a session',
          description: 'Uses up the refresh token and returns a new one. A token that was already used ends all sessions of its login.',
          bodies: { token: { refresh_token: exampleSession.refresh_token } },
          answers: {
            200: { description: 'Renewed', ...session, example: { ...exampleSession, user: exampleUser }, message: 'Session renewed' },
          },
          errors: ['unauthenticated'],
        },
      },
    },
    async (request) => {
      const given = { refreshToken: request.body.refresh_token, ...originOf(request) };
      const { session: opened, user } = await identity.refresh(given, callOptions(request, 5_000));
      return { success: true, data: sessionRecord(opened, user), message: 'Session renewed' };
    },
  );

  app.post(
    '/v1/auth/logout',
    {
      schema: { body: object({ refresh_token: refreshToken }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'logout',
          tag: 'Users',
          summary: 'Log out',
          description:
            'Ends the session; its access token stays valid for its hour. A second call, or an unknown token, is answered the same.',
          bodies: { token: { refresh_token: exampleSession.refresh_token } },
          answers: { 200: { description: 'Logged out', ...noData, message: 'Logged out' } },
        },
      },
    },
    async (request) => {
      const given = { refreshToken: request.body.refresh_token, clientAddress: request.ip };
      await identity.logout(given, callOptions(request, 5_000));
      return { success: true, data: {}, message: 'Logged out' };
    },
  );

  app.get(
    '/v1/user',
    {
      config: {
        access: { by: 'user' },
        doc: {
          id: 'getUser',
          tag: 'Users',
          summary: 'Read the current user',
          answers: { 200: { description: 'The user of the token', schema: record({ user: ref('User') }), example: { user: exampleUser } } },
        },
      },
    },
    async (request) => {
      const { caller } = request;
      const { user } = await identity.getUser({ userId: caller.actor }, callOptions(request, 5_000));
      return { success: true, data: { user: answeredUser(user) } };
    },
  );
}
