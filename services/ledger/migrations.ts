// The ledger's migrations, oldest first, under the names that schema.ts gives.
import { Ledger } from './migrations/0001-ledger.ts';
import { AccountRules } from './migrations/0002-account-rules.ts';
import { Payments } from './migrations/0003-payments.ts';
import { TenantDeletion } from './migrations/0004-tenant-deletion.ts';
import { Books } from './migrations/0005-books.ts';
import { Auditor } from './migrations/0006-auditor.ts';
import { Search } from './migrations/0007-search.ts';
import { Proof } from './migrations/0008-proof.ts';

/** Migrations by name. */
export const migrations = [
  { name: '0001-ledger', class: Ledger },
  { name: '0002-account-rules', class: AccountRules },
  { name: '0003-payments', class: Payments },
  { name: '0004-tenant-deletion', class: TenantDeletion },
  { name: '0005-books', class: Books },
  { name: '0006-auditor', class: Auditor },
  { name: '0007-search', class: Search },
  { name: '0008-proof', class: Proof },
];
