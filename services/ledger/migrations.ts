// The ledger's migrations, oldest first, under the names that schema.ts gives.
import { Ledger } from './migrations/0001-ledger.ts';

/** Migrations by name. */
export const migrations = [{ name: '0001-ledger', class: Ledger }];
