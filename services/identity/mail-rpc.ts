// The gRPC calls that mail tokens, and those that take them; invitations stand elsewhere.
import type { ServiceImpl } from '@connectrpc/connect';
import type { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import type { FairSemaphore } from '../platform/fair-semaphore.ts';
import { answer, forUsers } from './calls.ts';
import { sendVerificationEmail, verifyEmail } from './email-verification.ts';
import * as field from './fields.ts';
import { userMessage } from './mapping.ts';
import { forgotPassword, resetPassword } from './password-reset.ts';
import type { LoginParts } from './users.ts';

type Calls = Pick<ServiceImpl<typeof IdentityService>, 'sendVerificationEmail' | 'verifyEmail' | 'forgotPassword' | 'resetPassword'>;

/** The handlers. */
export function mailCalls(parts: LoginParts & { users: FairSemaphore }): Calls {
  const { orm, unauthenticated, users } = parts;
  return {
    sendVerificationEmail: forUsers(users)(async ({ userId }) => {
      await sendVerificationEmail(orm, userId);
      return {};
    }),
    verifyEmail: answer(async ({ token, origin }, { signal }) => {
      const given = field.secret('token', token);
      const address = field.clientAddress(origin?.clientAddress ?? '');
      return { user: userMessage(await unauthenticated.run(address, signal, () => verifyEmail(orm, given, origin))) };
    }),
    forgotPassword: answer(async (request, { signal }) => {
      await forgotPassword(parts, request, signal);
      return {};
    }),
    resetPassword: answer(async (request, { signal }) => {
      await resetPassword(parts, request, signal);
      return {};
    }),
  };
}
