// The migrations themselves, for `migrate` alone.
import { UsersTenantsKeys } from './migrations/0001-users-tenants-keys.ts';

/** Oldest first, under the names of `migrationNames`. */
export const migrations = [{ name: '0001-users-tenants-keys', class: UsersTenantsKeys }];
