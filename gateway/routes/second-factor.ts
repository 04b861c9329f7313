// Routes that turn a user's second factor on and off.
import { object, secret } from '../fields.ts';
import { flag, id, list, record, string } from '../records.ts';
import { callOptions, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { counted, ownPassword } from './passwords.ts';
import { exampleUser } from './users.ts';

const exampleSecret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';
const exampleCodes = ['k7dq-2mzx-w4hn-rb5y', 'p3fa-vt6c-j2us-ne7o', 'zq5i-g4wd-xm3k-6lhb', 'b2yr-c7pt-uf5n-aos4', 'h6je-3vqm-kx2w-dzi5'];
const recoveryCodes = [...exampleCodes, ...exampleCodes.map((code) => code.split('-').reverse().join('-'))];

/** `/v1/auth/totp`. */
export function secondFactorRoutes(app: App, { identity }: Services): void {
  app.post(
    '/v1/auth/totp',
    {
      schema: { body: object({ password: ownPassword }) },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'startTotp',
          tag: 'Users',
          summary: 'Create a second factor',
          description: `Answers a secret for an authenticator (TOTP, RFC 6238: SHA-1, 6 digits, 30 seconds). Show \`otpauth_url\` as a QR code. Logins ask for codes once one is confirmed. A second call replaces the secret; if a second factor is on already, it is rejected (\`forbidden\`). ${counted}`,
          bodies: { start: { password: 'correct horse battery' } },
          answers: {
            200: {
              description: 'Created, not on yet',
              schema: record({ secret: { ...string, description: 'Base32. Shown only now.' }, otpauth_url: string }),
              example: {
                secret: exampleSecret,
                otpauth_url: `otpauth://totp/Ledger:ada%40example.com?issuer=Ledger&secret=${exampleSecret}&algorithm=SHA1&digits=6&period=30`,
              },
            },
          },
          errors: ['forbidden', 'rate_limited'],
        },
      },
    },
    async (request) => {
      const given = { userId: request.caller.actor, password: request.body.password, origin: originOf(request) };
      const { secret: text, otpauthUrl } = await identity.startTotp(given, callOptions(request, 15_000));
      return { success: true, data: { secret: text, otpauth_url: otpauthUrl } };
    },
  );

  app.post(
    '/v1/auth/totp/confirm',
    {
      schema: { body: object({ code: secret(1, 64, { description: 'Six digits.', example: '123456' }) }) },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'confirmTotp',
          tag: 'Users',
          summary: 'Turn the second factor on',
          description: `From now on logins need a code. Each recovery code replaces one, once. A second call is rejected (\`forbidden\`). ${counted}`,
          bodies: { confirm: { code: '123456' } },
          answers: {
            200: {
              description: 'On',
              schema: record({ recovery_codes: { ...list(string), minItems: 10, maxItems: 10, description: 'Shown only now.' } }),
              example: { recovery_codes: recoveryCodes },
              message: 'Second factor turned on',
            },
          },
          errors: ['forbidden', 'rate_limited'],
        },
      },
    },
    async (request) => {
      const given = { userId: request.caller.actor, code: request.body.code, origin: originOf(request) };
      const { recoveryCodes: codes } = await identity.confirmTotp(given, callOptions(request, 5_000));
      return { success: true, data: { recovery_codes: codes }, message: 'Second factor turned on' };
    },
  );

  app.delete(
    '/v1/auth/totp',
    {
      schema: {
        body: object({
          password: ownPassword,
          code: secret(1, 64, { description: 'Six digits, or a recovery code.', example: '123456' }),
        }),
      },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'deleteTotp',
          tag: 'Users',
          summary: 'Turn the second factor off',
          description: `Takes a JSON body. Its recovery codes end too, and access keys of the user to tenants that require a second factor end within 5 seconds. A second call is rejected (\`forbidden\`). ${counted}`,
          bodies: { code: { password: 'correct horse battery', code: '123456' } },
          answers: {
            200: { description: 'Off', schema: record({ id: id('user'), deleted: flag }), example: { id: exampleUser.id, deleted: true } },
          },
          errors: ['forbidden', 'rate_limited'],
        },
      },
    },
    async (request) => {
      const { actor: userId } = request.caller;
      await identity.deleteTotp({ userId, ...request.body, origin: originOf(request) }, callOptions(request, 15_000));
      return { success: true, data: { id: userId, deleted: true } };
    },
  );
}
