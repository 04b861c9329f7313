// The operator's commands on the books: verify, heads, rebuild, unfreeze.
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type pg from 'pg';
import { BadArgument, addCommand, tenantArgument, type Item, type Output } from '../../platform/operator-program.ts';
import { pluralize } from '../audit/findings.ts';
import type { Progress } from '../audit/operator.ts';
import { rebuild } from '../audit/rebuild.ts';
import { parseHeads, printHeads, type StoredHeads } from '../audit/stored-heads.ts';
import { unfreeze } from '../audit/unfreeze.ts';
import { verify } from '../audit/verify.ts';
import type { LedgerAction } from './ledger-action.ts';

const oneTenant = ['--tenant <id>', 'only this tenant', tenantArgument] as const;

/** Adds the commands. */
export function addAuditCommands(program: Command, onLedger: LedgerAction): void {
  addVerify(program, onLedger);
  addHeads(program, onLedger);
  addRebuild(program, onLedger);
  addUnfreeze(program, onLedger);
}

function addVerify(program: Command, onLedger: LedgerAction): void {
  const command = addCommand(program, 'verify', {
    description: 'Walk the logs and compare every table with them. Only reads, one snapshot per tenant, while postings go on.',
    examples: ['ledger verify', 'ledger verify --heads heads.txt --json', 'ledger verify --tenant tenant_01jd1zq5v8e6n9w2k4m7p3r5t8'],
  })
    .option(...oneTenant)
    .option('--heads <file>', 'also compare the logs with what `heads` has printed', readHeads);
  onLedger<{ tenant?: string; heads?: StoredHeads }>(command, async (client, { options: { tenant, heads }, output }) => {
    const progress = await progressOf(client, tenant, output);
    const { findings, ...counts } = await verify(client, { only: tenant, heads, progress }, reportTo(output));
    const { tenants, events, transactions, heads: kept } = counts;
    const words = [pluralize(tenants, 'tenant'), pluralize(events, 'event'), pluralize(transactions, 'transaction')];
    if (heads) words.push(pluralize(kept, 'kept head'));
    output.print({ type: 'summary', ...counts, findings }, `${words.join(', ')} verified: ${verdict(findings)}`);
    return findings === 0;
  });
}

function addHeads(program: Command, onLedger: LedgerAction): void {
  const command = addCommand(program, 'heads', {
    description: 'Print tenant, sequence and hash of the last event of each log. Keep them where the database’s owner cannot write.',
    examples: ['ledger heads > heads.txt', 'ledger heads --json'],
  }).option(...oneTenant);
  onLedger<{ tenant?: string }>(command, async (client, { options: { tenant }, output }) => {
    let heads = 0;
    const findings = await printHeads(
      client,
      tenant,
      (head) => {
        heads += 1;
        output.print({ type: 'head', ...head }, `${head.tenant} ${head.sequence} ${head.hash}`);
      },
      reportTo(output, true),
    );
    if (output.isJson) output.print({ type: 'summary', heads, findings }, '');
    return findings === 0;
  });
}

function addRebuild(program: Command, onLedger: LedgerAction): void {
  const command = addCommand(program, 'rebuild', {
    description:
      'Derive every table from the log and replace what differs, a tenant at a time under its log head, which its postings wait for. With --check it only compares, and nothing waits.',
    examples: ['ledger rebuild --check', 'ledger rebuild --tenant tenant_01jd1zq5v8e6n9w2k4m7p3r5t8'],
  })
    .option(...oneTenant)
    .option('--check', 'compare, and change nothing', false);
  onLedger<{ tenant?: string; check: boolean }>(command, async (client, { options: { tenant, check }, output }) => {
    const progress = await progressOf(client, tenant, output);
    const { tenants, events, findings, repaired } = await rebuild(client, { tenant, check, progress }, reportTo(output));
    const outcome = repaired === 0 ? verdict(findings) : `${pluralize(repaired, 'tenant')} repaired, ${verdict(findings)}`;
    const text = `${pluralize(tenants, 'tenant')} ${check ? 'derived' : 'rebuilt'} from ${pluralize(events, 'event')}: ${outcome}`;
    output.print({ type: 'summary', tenants, events, repaired, findings }, text);
    return findings === 0;
  });
}

const maxReason = 1_000;

function addUnfreeze(program: Command, onLedger: LedgerAction): void {
  const command = addCommand(program, 'unfreeze', {
    description: 'Verify a frozen tenant, and without a difference let it be changed again.',
    examples: [
      'ledger unfreeze --tenant tenant_01jd1zq5v8e6n9w2k4m7p3r5t8 --reason "a balance was repaired"',
      'ledger unfreeze --tenant tenant_01jd1zq5v8e6n9w2k4m7p3r5t8 --reason "restored to 2030-01-31" --rewound',
    ],
  })
    .requiredOption('--tenant <id>', 'the tenant', tenantArgument)
    .requiredOption('--reason <text>', 'why, for its log')
    .option('--rewound', 'accept a log that was restored to an earlier time: its checkpoints get a new origin', false);
  onLedger<{ tenant: string; reason: string; rewound: boolean }>(command, async (client, { options, output }) => {
    const { length } = options.reason.trim();
    if (length === 0 || length > maxReason) throw new BadArgument(`--reason must have 1 to ${maxReason} characters`);
    const sequence = await unfreeze(client, options, reportTo(output));
    const text =
      sequence === null ? 'the tenant stays frozen' : `verified, nothing differs: the tenant can be changed again, by event ${sequence}`;
    output.print({ type: 'summary', unfrozen: sequence !== null, sequence: sequence === null ? null : Number(sequence) }, text);
    return sequence !== null;
  });
}

/** Prints what the checks report: `<tenant's id>: <what>`, and `repaired: ` before what a rebuild has mended. */
function reportTo(output: Output, aside = false): (line: string) => void {
  return (line) => {
    const [, tenant = null, repaired, message = ''] = /^(?:(tenant_\w+): )?(repaired: )?(.*)$/s.exec(line) ?? [];
    const item: Item = { type: repaired === undefined ? 'finding' : 'repair', tenant, message };
    output.print(item, line, { aside });
  };
}

async function progressOf(client: pg.Client, tenant: string | undefined, output: Output): Promise<Progress | undefined> {
  if (!output.isOnTerminal) return undefined;
  const { rows } = await client.query<{ total: number }>(
    'select coalesce(sum(sequence), 0)::float8 as total from heads where $1::uuid is null or tenant_id = $1',
    [tenant ?? null],
  );
  const total = rows[0]?.total ?? 0;
  let done = 0;
  return (events) => output.progress((done += events), total, 'events');
}

function verdict(findings: number): string {
  return findings === 0 ? 'nothing differs' : pluralize(findings, 'difference');
}

function readHeads(file: string): StoredHeads {
  try {
    return parseHeads(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new BadArgument(`--heads ${file}: ${(error as Error).message}`);
  }
}
