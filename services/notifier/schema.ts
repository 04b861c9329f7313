// The names of the notifier's migrations. The migrations themselves are elsewhere, because they load MikroORM.

/** Migrations, oldest first; the service refuses to start on a database that lacks one. */
export const migrationNames = [
  '0001-baseline',
  '0002-webhook-headers',
  '0003-payments',
  '0004-tenant-deletion',
  '0005-books',
  '0006-deliveries-of-events',
];

/** Tables whose rows the service's role may add and read, but neither change nor delete. */
export const appendOnly = ['deleted_tenants'];
