// A ledger with the operator's commands, and what they report, for tests of the audit.
import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import pg from 'pg';
import { openOperator } from '../services/ledger/audit/operator.ts';
import { rebuild } from '../services/ledger/audit/rebuild.ts';
import { verify } from '../services/ledger/audit/verify.ts';
import type { FreshDatabase } from './cluster.ts';
import { startLedger, type RunningLedger } from './ledger.ts';
import { bareEnvironment } from './run.ts';

/** A running ledger under audit. */
export interface Audit {
  ledger: RunningLedger;
  /** The owner's connection, with the usual settings. */
  owner: pg.Client;
  /** The connection of the operator's commands. */
  operator: pg.Client;
  /** What each prints of all tenants, or of one (UUID). */
  verified: (only?: string) => Promise<string[]>;
  checked: (only?: string) => Promise<string[]>;
  rebuilt: (only?: string) => Promise<string[]>;
  end: () => Promise<void>;
}

/** Starts a ledger, on a new database or the given one, and connects. */
export async function openAudit(database?: FreshDatabase): Promise<Audit> {
  const ledger = await startLedger(database && { database });
  const owner = new pg.Client({ connectionString: ledger.database.ownerUrl });
  await owner.connect();
  const operator = await openOperator(ledger.database.ownerUrl);
  const linesOf = async (work: (print: (line: string) => void) => Promise<unknown>) => {
    const lines: string[] = [];
    await work((line) => lines.push(line));
    return lines;
  };
  return {
    ...{ ledger, owner, operator },
    verified: (only) => linesOf((print) => verify(operator, { only }, print)),
    checked: (tenant) => linesOf((print) => rebuild(operator, { tenant, check: true }, print)),
    rebuilt: (tenant) => linesOf((print) => rebuild(operator, { tenant, check: false }, print)),
    async end() {
      await operator.end();
      await owner.end();
      await ledger.end();
    },
  };
}

/** Runs an operator's command as a process, as the role of the URL. */
export function runCommand(url: string, ...args: string[]): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, ['services/ledger/cli.ts', ...args], {
    env: { ...bareEnvironment, MIGRATION_DATABASE_URL: url },
    encoding: 'utf8',
  });
}
