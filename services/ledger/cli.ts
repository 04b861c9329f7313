// The operator's commands. They run as the database's owner.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type pg from 'pg';
import { toUuid } from '../platform/ids.ts';
import { StartFailure, errorMessage } from '../platform/lifetime.ts';
import { isTransient } from '../platform/postgres-errors.ts';
import { BadSetting, Settings } from '../platform/settings.ts';
import { changeDeadLetters } from './outbox/dead-letters.ts';
import { pluralize } from './audit/findings.ts';
import { parseHeads, printHeads } from './audit/stored-heads.ts';
import { importFile } from './log-import/file.ts';
import { features, switchPollMs } from './feature-switch.ts';
import { openOperator } from './audit/operator.ts';
import { rebuild } from './audit/rebuild.ts';
import { unfreeze } from './audit/unfreeze.ts';
import { verify } from './audit/verify.ts';

const usage = `usage: verify [--tenant ID]             check logs and tables, print what differs
       verify --heads FILE             the same, and compare the logs with what \`heads\` has printed
       heads [--tenant ID]             print sequence and hash of each log's last event, to be kept elsewhere
       rebuild [--tenant ID] --check   derive every projection from the log and compare
       rebuild [--tenant ID]           derive every projection from the log and replace it
       unfreeze --tenant ID --reason TEXT [--rewound]
                                       verify a frozen tenant and let it be changed again; --rewound accepts a log that was
                                       restored to an earlier time: its checkpoints get a new origin
       redrive [--tenant ID]           publish rejected events again
       discard [--tenant ID]           discard rejected events: they stay in the log and are not published
       import FILE --tenant ID         write an export of events as the log of a tenant that has none, with its hashes
       enable payments books proof     let holds, limits and the like, effective times and periods, personal data and freezes be used;
                                       every ledger must run a version that has them`;

const options = {
  tenant: { type: 'string' },
  heads: { type: 'string' },
  reason: { type: 'string' },
  rewound: { type: 'boolean', default: false },
  check: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false, short: 'h' },
} as const;

interface Arguments {
  /** UUID. */
  tenant: string | undefined;
  check: boolean;
  headsFile: string | undefined;
  reason: string | undefined;
  rewound: boolean;
  /** The words after the command's name. */
  operands: string[];
}

const print = (line: string) => process.stdout.write(`${line}\n`);

/** Each returns whether nothing is wrong. */
const commands: Record<string, (client: pg.Client, args: Arguments) => Promise<boolean>> = {
  async verify(client, { tenant, headsFile }) {
    const heads = headsFile === undefined ? undefined : readHeads(headsFile);
    const verified = await verify(client, { only: tenant, heads }, print);
    const counts = [pluralize(verified.tenants, 'tenant'), pluralize(verified.events, 'event')];
    counts.push(pluralize(verified.transactions, 'transaction'), ...(heads ? [pluralize(verified.heads, 'kept head')] : []));
    print(`${counts.join(', ')} verified: ${verdict(verified.findings)}`);
    return verified.findings === 0;
  },
  async heads(client, { tenant }) {
    return (await printHeads(client, tenant, print, (line) => process.stderr.write(`${line}\n`))) === 0;
  },
  async unfreeze(client, { tenant = '', reason = '', rewound }) {
    const sequence = await unfreeze(client, { tenant, reason, rewound }, print);
    print(
      sequence === null ? 'the tenant stays frozen' : `verified, nothing differs: the tenant can be changed again, by event ${sequence}`,
    );
    return sequence !== null;
  },
  async redrive(client, { tenant }) {
    const due = await changeDeadLetters(client, 'redrive', tenant, print);
    print(`${pluralize(due, 'dead letter')} due: the ledger that runs publishes ${due === 1 ? 'it' : 'them'}`);
    return true;
  },
  async discard(client, { tenant }) {
    print(`${pluralize(await changeDeadLetters(client, 'discard', tenant, print), 'dead letter')} discarded`);
    return true;
  },
  async enable(client, { operands }) {
    for (const feature of operands) {
      const added = await client.query('insert into enabled (feature) values ($1) on conflict do nothing', [feature]);
      const more = added.rowCount === 0 ? ' already' : `: ledgers use them within ${switchPollMs / 1000} s`;
      print(`${feature} are enabled${more}`);
    }
    return true;
  },
  async import(client, { tenant = '', operands: [file = ''] }) {
    const { sequence, hash } = await importFile(client, tenant, file);
    print(`${pluralize(Number(sequence), 'event')} imported, the last with the hash ${hash.toString('hex')}`);
    return true;
  },
  async rebuild(client, { tenant, check }) {
    const { tenants, events, findings, repaired } = await rebuild(client, { tenant, check }, print);
    const outcome = repaired === 0 ? verdict(findings) : `${pluralize(repaired, 'tenant')} repaired, ${verdict(findings)}`;
    print(`${pluralize(tenants, 'tenant')} ${check ? 'derived' : 'rebuilt'} from ${pluralize(events, 'event')}: ${outcome}`);
    return findings === 0;
  },
};

const maxReason = 1_000;

/** Words that a command takes after its name, at least one. */
const words: Record<string, readonly string[]> = { enable: features };

function takesWords(name: string, operands: string[]): boolean {
  if (name === 'import') return operands.length === 1;
  const known = words[name];
  return known ? operands.length > 0 && operands.every((word) => known.includes(word)) : operands.length === 0;
}

function verdict(findings: number): string {
  return findings === 0 ? 'nothing differs' : pluralize(findings, 'difference');
}

function readHeads(file: string) {
  try {
    return parseHeads(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new StartFailure(`--heads ${file}: ${(error as Error).message}`);
  }
}

async function main(): Promise<boolean> {
  let parsed;
  try {
    parsed = parseArgs({ allowPositionals: true, options });
  } catch (error) {
    throw new StartFailure(`${(error as Error).message}\n${usage}`);
  }
  const [name = '', ...more] = parsed.positionals;
  const { tenant: id, check, help, heads: headsFile, reason, rewound } = parsed.values;
  if (help) {
    print(usage);
    return true;
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  const misplaced =
    (check && name !== 'rebuild') ||
    (headsFile !== undefined && name !== 'verify') ||
    (id !== undefined && name === 'enable') ||
    (id === undefined && name === 'import');
  const isUnfreeze = name === 'unfreeze';
  const lacks = isUnfreeze ? id === undefined || !reason?.trim() || reason.length > maxReason : reason !== undefined || rewound;
  if (!command || !takesWords(name, more) || misplaced || lacks) throw new StartFailure(usage);
  const tenant = id === undefined ? undefined : toUuid('tenant', id);
  if (tenant === null) throw new StartFailure(`--tenant ${String(id)} is not a tenant's id`);
  const client = await openOperator(new Settings(process.env).databaseUrl('MIGRATION_DATABASE_URL'));
  try {
    return await command(client, { tenant, check, headsFile, reason, rewound, operands: more });
  } finally {
    await client.end();
  }
}

// Node's defaults do not apply to a container's first process. Open transactions are rolled back.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
// The reader has gone, as behind `| head`, or the disk is full.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') process.stderr.write(`the lines can't be written: ${error.message}\n`);
  process.exit(1);
});
try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  const isKnown = error instanceof BadSetting || error instanceof StartFailure || isTransient(error);
  // PostgreSQL's and Node's errors have a code.
  const isExpected = isKnown || typeof (error as { code?: unknown }).code === 'string';
  process.stderr.write(`${isExpected ? errorMessage(error) : ((error as Error).stack ?? String(error))}\n`);
  process.exitCode = 1;
}
