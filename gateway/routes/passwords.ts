// Routes that change a password, and those that reset a forgotten one by a mailed token.
import { email, object, secret } from '../fields.ts';
import { callOptions, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exampleToken, mailToken } from './email-verification.ts';
import { noData } from './users.ts';

/** The password of a user that is logged in. */
export const ownPassword = secret(1, 128, { description: 'The password that is valid now.', example: 'correct horse battery' });
/** What descriptions say of passwords and codes. */
export const counted = 'Wrong ones count as failed logins.';

/** `/v1/auth/password`. */
export function passwordRoutes(app: App, { identity }: Services): void {
  app.post(
    '/v1/auth/password/change',
    {
      schema: {
        body: object({ current: ownPassword, password: secret(8, 128, { example: 'staple horse correct' }) }),
      },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'changePassword',
          tag: 'Users',
          summary: 'Change my password',
          description: `Ends all other sessions of the user at once, with their tokens, and all its access keys within 5 seconds. ${counted} A user without a password gets one by the mail of a password reset.`,
          bodies: { change: { current: 'correct horse battery', password: 'staple horse correct' } },
          answers: { 200: { description: 'Changed', ...noData, message: 'Password changed' } },
          errors: ['forbidden', 'rate_limited'],
        },
      },
    },
    async (request) => {
      const { caller, body } = request;
      const given = { userId: caller.actor, sessionId: caller.sessionId ?? '', ...body, origin: originOf(request) };
      await identity.changePassword(given, callOptions(request, 15_000));
      return { success: true, data: {}, message: 'Password changed' };
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
      schema: { body: object({ token: mailToken, password: secret(8, 128, { example: 'correct horse battery' }) }) },
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
