// What an operator's command of the ledger does.
import type { Command } from 'commander';
import type pg from 'pg';
import type { Given } from '../../platform/operator-program.ts';

/** Sets what a command does on the ledger's database; `work` answers whether nothing is wrong. */
export type LedgerAction = <Options>(command: Command, work: (client: pg.Client, given: Given<Options>) => Promise<boolean>) => void;
