// The migrations themselves, for `migrate` alone.
import { UsersTenantsKeys } from './migrations/0001-users-tenants-keys.ts';
import { VerifyManyKeys } from './migrations/0002-verify-many-keys.ts';
import { ForgetRefreshTokens } from './migrations/0003-forget-refresh-tokens.ts';
import { KeysTogether } from './migrations/0004-keys-together.ts';
import { ReplicaIdentity } from './migrations/0005-replica-identity.ts';

/** Oldest first, under the names of `migrationNames`. */
export const migrations = [
  { name: '0001-users-tenants-keys', class: UsersTenantsKeys },
  { name: '0002-verify-many-keys', class: VerifyManyKeys },
  { name: '0003-forget-refresh-tokens', class: ForgetRefreshTokens },
  { name: '0004-keys-together', class: KeysTogether },
  { name: '0005-replica-identity', class: ReplicaIdentity },
];
