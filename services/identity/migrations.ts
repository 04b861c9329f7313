// The migrations, loaded by `migrate` only.
import { Identity } from './migrations/0001-identity.ts';

/** Oldest first, under the names of `migrationNames`. */
export const migrations = [{ name: '0001-identity', class: Identity }];
