// What the ledger's database holds: its migrations in order.
import { Books } from './migrations/0001-books.ts';

/** Migrations by name, oldest first. */
export const migrations = [{ name: '0001-books', class: Books }];

/** Tables whose rows the service's role may add and read, but neither change nor delete. */
export const appendOnly = ['log', 'transactions', 'entries'];
