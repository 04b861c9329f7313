// Routes that mail tokens to users, and those that take them; invitations stand elsewhere.
import { email, object, secret } from '../fields.ts';
import { userRecord } from '../mapping.ts';
import { callOptions, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { changedUser, exampleUser, noData } from './users.ts';

/** A token as mails carry it. */
export const exampleToken = '5qX0kZ7mV2cN9bA4sD6fG8hJ1lQ3wE5rT7yU9iO0pAs';

const token = secret(1, 512, { description: 'From the link of the mail. Works once.', example: exampleToken });

/** `/v1/auth/email/*`, `/v1/auth/password/forgot` and `/v1/auth/password/reset`. */
export function mailRoutes(app: App, { identity }: Services): void {
  app.post(
    '/v1/auth/email/send',
    {
      config: {
        access: { by: 'user' },
        doc: {
          id: 'sendVerificationEmail',
          tag: 'Users',
          summary: 'Mail a token that verifies the address',
          description:
            'The token is valid for 24 hours. Nothing is sent if the address is verified. The limit is 5 mails an hour to an address, of all kinds together.',
          answers: { 202: { description: 'Accepted', ...noData, message: 'Verification email requested' } },
          errors: ['rate_limited'],
        },
      },
    },
    async (request, reply) => {
      await identity.sendVerificationEmail({ userId: request.caller.actor, origin: originOf(request) }, callOptions(request, 5_000));
      reply.code(202);
      return { success: true, data: {}, message: 'Verification email requested' };
    },
  );

  app.post(
    '/v1/auth/email/verify',
    {
      schema: { body: object({ token }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'verifyEmail',
          tag: 'Users',
          summary: 'Verify an email address',
          description: 'Takes the token of a mail. Login works without it; invitations can be accepted only with a verified address.',
          bodies: { token: { token: exampleToken } },
          answers: {
            200: {
              description: 'Verified',
              ...changedUser,
              example: { user: { ...exampleUser, email_verified: true } },
              message: 'Email verified',
            },
          },
          errors: ['token_invalid'],
        },
      },
    },
    async (request) => {
      const { user } = await identity.verifyEmail({ token: request.body.token, origin: originOf(request) }, callOptions(request, 5_000));
      if (!user) throw new Error('identity answered without a user');
      return { success: true, data: { user: userRecord(user) }, message: 'Email verified' };
    },
  );

  app.post(
    '/v1/auth/password/forgot',
    {
      schema: { body: object({ email }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'forgotPassword',
          tag: 'Users',
          summary: 'Mail a token that resets the password',
          description:
            'The answer and its time are always the same, whether a user has this email or not. The token is valid for one hour. Beyond 5 mails an hour to an address nothing is sent.',
          bodies: { ada: { email: 'ada@example.com' } },
          answers: { 202: { description: 'Accepted', ...noData, message: 'If a user has this email, a mail is on its way' } },
        },
      },
    },
    async (request, reply) => {
      await identity.forgotPassword({ email: request.body.email, origin: originOf(request) }, callOptions(request, 5_000));
      reply.code(202);
      return { success: true, data: {}, message: 'If a user has this email, a mail is on its way' };
    },
  );

  app.post(
    '/v1/auth/password/reset',
    {
      schema: { body: object({ token, password: secret(8, 128, { example: 'correct horse battery' }) }) },
      config: {
        access: { by: 'anyone' },
        doc: {
          id: 'resetPassword',
          tag: 'Users',
          summary: 'Set a new password with a mailed token',
          description: [
            'Ends all sessions of the user, its access tokens too, and all other reset tokens. Access keys end within 5 seconds.',
            'The second factor stays. API keys stay. Links to identity providers stay if the email address was verified.',
          ].join(' '),
          bodies: { token: { token: exampleToken, password: 'correct horse battery' } },
          answers: { 200: { description: 'Reset', ...noData, message: 'Password reset' } },
          errors: ['token_invalid'],
        },
      },
    },
    async (request) => {
      const { token: given, password } = request.body;
      await identity.resetPassword({ token: given, password, origin: originOf(request) }, callOptions(request, 15_000));
      return { success: true, data: {}, message: 'Password reset' };
    },
  );
}
