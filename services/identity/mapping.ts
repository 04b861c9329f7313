// Maps rows of the database to gRPC messages.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  ApiKeySchema,
  InvitationSchema,
  MemberSchema,
  SessionSchema,
  TenantSchema,
  UserSchema,
} from '../../proto/gen/identity/v1/identity_pb.js';
import { toId } from '../platform/ids.ts';
import type { Role } from '../platform/roles.ts';
import { expiryOf } from './api-keys.ts';
import type { ApiKeyRow, TenantRow, UserRow } from './entities.ts';
import type { InvitationState } from './invitations.ts';
import type { Member } from './members.ts';
import type { Session } from './sessions.ts';

/** Milliseconds since the Unix epoch. */
function ms(time: Date): bigint {
  return BigInt(time.getTime());
}

/** The same of a time that may be unset. */
function maybeMs(time: Date | null): bigint | undefined {
  return time === null ? undefined : ms(time);
}

/** A user. */
export function userMessage(user: UserRow): MessageInitShape<typeof UserSchema> {
  const { email, firstName, lastName, status } = user;
  const flags = { emailVerified: user.emailVerifiedAt !== null, totpEnabled: user.totpSecret !== null };
  return { id: toId('user', user.id), email, firstName, lastName, status, createdMs: ms(user.createdAt), ...flags };
}

/** A session. */
export function sessionMessage(session: Session): MessageInitShape<typeof SessionSchema> {
  return { token: session.token, expiresMs: BigInt(session.expiresMs), refreshToken: session.refreshToken };
}

/** A tenant, with the role of the user of the call. */
export function tenantMessage(tenant: TenantRow, role: Role): MessageInitShape<typeof TenantSchema> {
  const { name, slug, businessType, status } = tenant;
  return {
    id: toId('tenant', tenant.tenantId),
    name,
    slug,
    businessType,
    description: tenant.description ?? undefined,
    status,
    createdMs: ms(tenant.createdAt),
    role,
    deleteMs: maybeMs(tenant.deleteAt),
    requireTotp: tenant.requireTotp,
  };
}

/** A key. */
export function keyMessage(key: ApiKeyRow): MessageInitShape<typeof ApiKeySchema> {
  const { name, scopes, last4 } = key;
  return {
    id: toId('key', key.id),
    name,
    scopes,
    description: key.description ?? undefined,
    last4,
    createdMs: ms(key.createdAt),
    expiresMs: maybeMs(expiryOf(key)),
    revokedMs: maybeMs(key.revokedAt),
  };
}

/** A member. */
export function memberMessage({ user, role, createdAt }: Member): MessageInitShape<typeof MemberSchema> {
  const { email, firstName, lastName } = user;
  const totpEnabled = user.totpSecret !== null;
  return { userId: toId('user', user.id), email, firstName, lastName, role, totpEnabled, createdMs: ms(createdAt) };
}

/** An invitation. */
export function invitationMessage({ invitation, status }: InvitationState): MessageInitShape<typeof InvitationSchema> {
  const { id, email, role, invitedBy, createdAt, expiresAt } = invitation;
  const times = { createdMs: ms(createdAt), expiresMs: ms(expiresAt) };
  return { id: toId('inv', id), email, role, status, invitedBy: toId('user', invitedBy), ...times };
}
