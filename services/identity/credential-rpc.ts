// The gRPC calls for a user's email address, password and second factor.
import type { ServiceImpl } from '@connectrpc/connect';
import type { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { answer, forUsers } from './calls.ts';
import { sendVerificationEmail, verifyEmail } from './email-verification.ts';
import * as field from './fields.ts';
import { userMessage } from './mapping.ts';
import type { Parts } from './parts.ts';
import { changePassword } from './password-change.ts';
import { forgotPassword, resetPassword } from './password-reset.ts';
import { confirmTotp, deleteTotp, startTotp } from './totp-setup.ts';

type EmailCalls = 'sendVerificationEmail' | 'verifyEmail';
type PasswordCalls = 'forgotPassword' | 'resetPassword' | 'changePassword';
type TotpCalls = 'startTotp' | 'confirmTotp' | 'deleteTotp';

/** Their handlers. */
export function credentialCalls(parts: Parts): Pick<ServiceImpl<typeof IdentityService>, EmailCalls | PasswordCalls | TotpCalls> {
  const { orm, unauthenticated, users } = parts;
  const ofUser = forUsers(users);
  return {
    sendVerificationEmail: ofUser(async ({ userId }) => {
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
    changePassword: answer(async (request, { signal }) => {
      await changePassword(parts, request, signal);
      return {};
    }),
    startTotp: answer(async (request, { signal }) => {
      const { secret, url } = await startTotp(parts, request, signal);
      return { secret, otpauthUrl: url };
    }),
    confirmTotp: ofUser(async (request) => ({ recoveryCodes: await confirmTotp(parts, request) })),
    deleteTotp: answer(async (request, { signal }) => {
      await deleteTotp(parts, request, signal);
      return {};
    }),
  };
}
