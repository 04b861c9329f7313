// The ledger's migrations, oldest first, under the names that schema.ts gives.
import { Books } from './migrations/0001-books.ts';

/** Migrations by name. */
export const migrations = [{ name: '0001-books', class: Books }];
