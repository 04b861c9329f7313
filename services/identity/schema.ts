// What identity's database holds, by name. The migrations themselves are loaded by `migrate` alone, the entities by the service alone.

/** Migrations, oldest first; the service refuses to start on a database that lacks one. */
export const migrationNames = [
  '0001-users-tenants-keys',
  '0002-verify-many-keys',
  '0003-forget-refresh-tokens',
  '0004-keys-together',
  '0005-replica-identity',
];

/** Tables whose rows the service's role may add and read, but neither change nor delete. */
export const appendOnly = ['slugs'];
