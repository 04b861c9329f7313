// The ledger's migrations, oldest first, under the names that schema.ts gives.
import { Books } from './migrations/0001-books.ts';
import { Relay } from './migrations/0002-relay.ts';
import { WriteBatch } from './migrations/0003-write-batch.ts';
import { TraceContext } from './migrations/0004-trace-context.ts';
import { Domains } from './migrations/0005-domains.ts';
import { AccountsBelow } from './migrations/0006-accounts-below.ts';
import { Subscripts } from './migrations/0007-subscripts.ts';
import { LonePosting } from './migrations/0008-lone-posting.ts';
import { Statistics } from './migrations/0009-statistics.ts';
import { OneWriter } from './migrations/0010-one-writer.ts';
import { RowsOfATenant } from './migrations/0011-rows-of-a-tenant.ts';

/** Migrations by name. */
export const migrations = [
  { name: '0001-books', class: Books },
  { name: '0002-relay', class: Relay },
  { name: '0003-write-batch', class: WriteBatch },
  { name: '0004-trace-context', class: TraceContext },
  { name: '0005-domains', class: Domains },
  { name: '0006-accounts-below', class: AccountsBelow },
  { name: '0007-subscripts', class: Subscripts },
  { name: '0008-lone-posting', class: LonePosting },
  { name: '0009-statistics', class: Statistics },
  { name: '0010-one-writer', class: OneWriter },
  { name: '0011-rows-of-a-tenant', class: RowsOfATenant },
];
