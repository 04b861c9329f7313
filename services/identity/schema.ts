// Names of identity's migrations and tables, without the code that needs MikroORM's migrator.

/** Migrations, oldest first; the service refuses to start on a database that lacks one. */
export const migrationNames = ['0001-identity', '0002-override-scope', '0003-teams', '0004-vault'];

/** Tables whose rows the service's role may insert and read only. */
export const appendOnly = ['slugs', 'tenant_audit'];
