// A ledger with the operator's commands, and what they report, for tests of the audit.
import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { TransactionPostedSchema, type TransactionPosted } from '../proto/gen/ledger/v1/events_pb.js';
import { chainHash, type LogRow } from '../services/ledger/log.ts';
import { logChunks, openOperator } from '../services/ledger/audit/operator.ts';
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
  /** Runs statements on one tenant's rows, `$1`. */
  change: (tenant: string, ...statements: string[]) => Promise<void>;
  /** Replaces a tenant's last event by another posting, with a valid chain. */
  forge: (tenant: string, edit: (message: TransactionPosted) => void) => Promise<void>;
  end: () => Promise<void>;
}

/** Starts a ledger, on a new database or the given one, and connects. */
export async function openAudit(database?: FreshDatabase, more: { duePollMs?: number } = {}): Promise<Audit> {
  const ledger = await startLedger({ ...(database && { database }), ...more });
  const owner = new pg.Client({ connectionString: ledger.database.ownerUrl });
  await owner.connect();
  const operator = await openOperator(ledger.database.ownerUrl);
  const linesOf = async (work: (print: (line: string) => void) => Promise<unknown>) => {
    const lines: string[] = [];
    await work((line) => lines.push(line));
    return lines;
  };
  const change = async (tenant: string, ...statements: string[]) => {
    await owner.query(`select set_config('app.tenants', $1, false)`, [`{${tenant}}`]);
    for (const statement of statements) await owner.query(statement, [tenant]);
  };
  return {
    ...{ ledger, owner, operator, change },
    async forge(tenant, edit) {
      const rows: LogRow[] = [];
      for await (const chunk of logChunks(operator, tenant)) rows.push(...chunk);
      const posted = rows.at(-1)!;
      const message = fromBinary(TransactionPostedSchema, posted.payload);
      edit(message);
      const payload = toBinary(TransactionPostedSchema, message);
      const hash = chainHash(rows.at(-2)!.hash, { ...posted, payload });
      await change(tenant);
      const text = 'update log set payload = $2, hash = $3 where tenant_id = $1 and sequence = $4';
      await owner.query(text, [tenant, payload, hash, rows.length]);
    },
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
