// Routes that verify the email address of a user by a mailed token.
import { object, secret } from '../fields.ts';
import { callOptions, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { answeredUser, changedUser, exampleUser, noData } from './users.ts';

/** An example of a mailed token. */
export const exampleToken = '5qX0kZ7mV2cN9bA4sD6fG8hJ1lQ3wE5rT7yU9iO0pAs';

/** A token as mails carry it. */
export const mailToken = secret(1, 512, { description: 'From the link of the mail. Works once.', example: exampleToken });

/** `/v1/auth/email`. */
export function emailRoutes(app: App, { identity }: Services): void {
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
      schema: { body: object({ token: mailToken }) },
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
      return { success: true, data: { user: answeredUser(user) }, message: 'Email verified' };
    },
  );
}
