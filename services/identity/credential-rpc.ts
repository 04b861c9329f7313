// The gRPC calls for a user's password and second factor, and for what a tenant requires of its members.
import type { ServiceImpl } from '@connectrpc/connect';
import type { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { answer, forUsers } from './calls.ts';
import { tenantMessage } from './mapping.ts';
import { changePassword } from './password-change.ts';
import { updateTenant } from './tenant-settings.ts';
import { confirmTotp, deleteTotp, startTotp, type TotpParts } from './totp-setup.ts';

type Calls = Pick<ServiceImpl<typeof IdentityService>, 'changePassword' | 'startTotp' | 'confirmTotp' | 'deleteTotp' | 'updateTenant'>;

/** The handlers. */
export function credentialCalls(parts: TotpParts): Calls {
  const ofUser = forUsers(parts.users);
  return {
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
    updateTenant: ofUser(async (request) => ({ tenant: tenantMessage(await updateTenant(parts.orm, request), 'owner') })),
  };
}
