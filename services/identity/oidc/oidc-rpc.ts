// The gRPC calls of logins with identity providers.
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import type { IdentityService } from '../../../proto/gen/identity/v1/identity_pb.js';
import { logFields } from '../../platform/serve.ts';
import { answer, forUsers } from '../calls.ts';
import { entityManager } from '../database.ts';
import * as field from '../fields.ts';
import { sessionMessage, userMessage } from '../mapping.ts';
import { createCode, linkCode, spendCode, userOfCode } from './oidc.ts';
import { OidcFailure } from './oidc-client.ts';
import type { Parts } from '../parts.ts';
import { Refusal } from '../refusal.ts';
import { openSession } from '../sessions.ts';
import { checkSecondFactor } from '../totp.ts';

type OidcCalls = 'startOidc' | 'finishOidc' | 'exchangeOidcCode' | 'linkOidc';

// A cookie holds both, and browsers keep 4 KiB.
const maxUrlLength = 1_000;

/** Their handlers. */
export function oidcCalls(parts: Parts): Pick<ServiceImpl<typeof IdentityService>, OidcCalls> {
  const { orm, signer, unauthenticated, users, oidc } = parts;
  const ofUser = forUsers(users);
  return {
    startOidc: answer(async (request, context) => {
      const redirectUri = webAddress('redirect_uri', request.redirectUri);
      const returnTo = webAddress('return_to', request.returnTo);
      return oidc.begin(request.provider, redirectUri, returnTo).catch((error: unknown) => {
        throw noted(error, request.provider, context)
          ? new Refusal('unavailable', 'the identity provider is unavailable', { retryAfter: 5 })
          : error;
      });
    }),
    finishOidc: answer(async (request, context) => {
      const { provider, state, clientAddress } = request;
      const login = oidc.login(provider, field.secret('state', state));
      const query = new URL(webAddress('callback_url', request.callbackUrl, 16_384)).search;
      try {
        const identity = await oidc.identity(login, query, context.signal);
        const code = await unauthenticated.run(field.clientAddress(clientAddress), undefined, () => createCode(orm, provider, identity));
        return { returnTo: login.returnTo, code };
      } catch (error) {
        if (!noted(error, provider, context)) throw error;
        return { returnTo: login.returnTo, error: error.error };
      }
    }),
    exchangeOidcCode: answer(async ({ code: given, totpCode, origin }, { signal }) => {
      const code = field.secret('code', given);
      const address = field.clientAddress(origin?.clientAddress ?? '');
      const user = await unauthenticated.run(address, signal, () => userOfCode(entityManager(orm), code));
      return unauthenticated.run(address, undefined, async () => {
        if (user) await checkSecondFactor(parts, user.id, totpCode, origin);
        const spent = await spendCode(orm, code, user?.id, origin);
        const session = await openSession(orm, signer, spent.id, { method: 'oidc', origin, passwordHash: spent.passwordHash });
        return { session: sessionMessage(session), user: userMessage(spent) };
      });
    }),
    linkOidc: ofUser(async (request) => {
      oidc.provider(request.provider);
      return { user: userMessage(await linkCode(orm, { ...request, code: field.secret('code', request.code) })) };
    }),
  };
}

/** Whether it is a failed login with a provider; the log line of the call then says which and why. */
function noted(error: unknown, provider: string, { values }: HandlerContext): error is OidcFailure {
  if (!(error instanceof OidcFailure)) return false;
  Object.assign(values.get(logFields), { provider, oidc_error: error.error, oidc_reason: error.message });
  return true;
}

function webAddress(name: string, value: string, max = maxUrlLength): string {
  const text = field.text(name, value, max);
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw field.invalid(name, 'url', 'is not an http or https address', text);
  return text;
}
