// What the ledger's database holds, by name. The migrations themselves are loaded by `migrate` alone: they bring MikroORM with them.

/** Migrations, oldest first; the service refuses to start on a database that lacks one. */
export const migrationNames = [
  '0001-books',
  '0002-relay',
  '0003-write-batch',
  '0004-trace-context',
  '0005-domains',
  '0006-accounts-below',
  '0007-subscripts',
  '0008-lone-posting',
  '0009-statistics',
  '0010-one-writer',
  '0011-rows-of-a-tenant',
];

/** Tables whose rows the service's role may add and read, but neither change nor delete. */
export const appendOnly = ['log', 'transactions', 'entries'];

/** Tables whose rows it may change as well, but not delete. */
export const kept = ['heads', 'accounts', 'balances', 'relay_marks'];
