// Names of the ledger's migrations and grants. Only `migrate` loads the migrations themselves, and MikroORM with them.

/** Migrations, oldest first; the service refuses to start on a database that lacks one. */
export const migrationNames = [
  ...['0001-ledger', '0002-account-rules', '0003-payments', '0004-tenant-deletion', '0005-books', '0006-auditor'],
  ...['0007-search', '0008-proof'],
];

/** Tables whose rows the service's role may add and read, but neither change nor delete. */
export const appendOnly = [
  'log',
  'transactions',
  'entries',
  'parts',
  'enabled',
  'deleted_tenants',
  'periods',
  'shifted_transactions',
  'shifted_entries',
  'transaction_metadata',
  'subject_transactions',
  'erased_subjects',
  'redactions',
];

/** Tables that only the auditor's role changes. */
export const auditorTables = [
  ...['jobs', 'job_chunks', 'search_indexes', 'transaction_texts', 'volumes'],
  ...['trees', 'tiles', 'checkpoints', 'verifications', 'uploads'],
];

/** Tables that only functions of the owner change. */
export const ownerTables = ['freezes'];

/** Tables of the service to which the auditor's role may add rows: those of before a key of metadata was declared. */
export const auditorAdds = ['transaction_metadata'];

/** Tables whose rows it may change as well, but not delete. */
export const kept = ['heads', 'accounts', 'balances', 'relay_marks', 'holds', 'hold_entries', 'books', 'shifted_months'];
