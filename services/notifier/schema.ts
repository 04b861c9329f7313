// What the notifier's database holds, by name. The migrations themselves are loaded by `migrate` alone: they bring MikroORM with them.

/** Migrations, oldest first; the service refuses to start on a database that lacks one. */
export const migrationNames = [
  '0001-webhooks',
  '0002-trace-context',
  '0003-claims',
  '0004-url-of-any-case',
  '0005-mark-times',
  '0006-statistics',
  '0007-kafka-offsets',
];

/** Tables whose rows the service's role may add and read, but neither change nor delete: none. */
export const appendOnly: string[] = [];
