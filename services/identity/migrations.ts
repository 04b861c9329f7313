// The migrations, loaded by `migrate` only.
import { Identity } from './migrations/0001-identity.ts';
import { OverrideScope } from './migrations/0002-override-scope.ts';
import { Teams } from './migrations/0003-teams.ts';
import { Vault } from './migrations/0004-vault.ts';

/** Oldest first, under the names of `migrationNames`. */
export const migrations = [
  { name: '0001-identity', class: Identity },
  { name: '0002-override-scope', class: OverrideScope },
  { name: '0003-teams', class: Teams },
  { name: '0004-vault', class: Vault },
];
