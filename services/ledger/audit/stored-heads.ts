// Log heads that an operator stores outside the database. They reveal a log that lost its end or was written anew.
import type pg from 'pg';
import { toId, toUuid } from '../../platform/ids.ts';
import type { LogRow } from '../log.ts';
import type { Findings } from './findings.ts';
import { auditTenants, snapshot } from './operator.ts';

/** Stored hashes (hex), by tenant (UUID) and sequence. */
export type StoredHeads = Map<string, Map<bigint, string>>;

/** The last event of a log, by the tenant's id; its hash in hex. */
export interface PrintedHead {
  tenant: string;
  sequence: number;
  hash: string;
}

/** Prints the last event of each tenant's log, or of one tenant's (UUID). Returns how many can't be read. */
export async function printHeads(
  client: pg.Client,
  only: string | undefined,
  print: (head: PrintedHead) => void,
  report: (line: string) => void,
): Promise<number> {
  const { findings } = await auditTenants(client, { only, begin: snapshot }, report, async (tenant) => {
    const { rows } = await client.query<Omit<PrintedHead, 'tenant'>>(
      `select sequence::float8, encode(hash, 'hex') as hash from log where tenant_id = $1 order by log.sequence desc limit 1`,
      [tenant],
    );
    for (const head of rows) print({ tenant: toId('tenant', tenant), ...head });
    return [];
  });
  return findings;
}

/**
 * Parses lines `<tenant's id> <sequence> <hash>`, as `heads` has printed them at any times. Skips empty lines and npm's own, which begin with `>`.
 * Throws for any other line, for two that contradict, and if there is none.
 */
export function parseHeads(text: string): StoredHeads {
  const stored: StoredHeads = new Map();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('> ')) continue;
    const [, id = '', digits = '', hash = ''] = /^(tenant_\S+) ([1-9][0-9]{0,18}) ([0-9a-f]{64})$/.exec(line.trim()) ?? [];
    const tenant = toUuid('tenant', id);
    if (tenant === null) throw new Error(`line ${index + 1} is none of \`heads\`: <tenant's id> <sequence> <hash>`);
    const heads = stored.get(tenant) ?? new Map<bigint, string>();
    stored.set(tenant, heads);
    const sequence = BigInt(digits);
    if ((heads.get(sequence) ?? hash) !== hash)
      throw new Error(`line ${index + 1} has another hash of event ${sequence} than a line before it`);
    heads.set(sequence, hash);
  }
  if (stored.size === 0) throw new Error('it has no line of a head');
  return stored;
}

/** Compares a tenant's log with its stored heads, event by event. */
export class HeadComparison {
  private readonly unmatched: Map<bigint, string>;
  private readonly findings: Findings;
  private last = 0n;

  constructor(stored: ReadonlyMap<bigint, string> | undefined, findings: Findings) {
    this.unmatched = new Map(stored);
    this.findings = findings;
  }

  /** Takes the next event. */
  apply({ sequence, hash }: Pick<LogRow, 'sequence' | 'hash'>): void {
    this.last = sequence;
    const storedHash = this.unmatched.get(sequence);
    if (storedHash !== undefined && storedHash !== hash.toString('hex')) {
      this.findings.add(`event ${sequence} does not have the hash that was kept: it, or one before it, was made anew`);
    }
    this.unmatched.delete(sequence);
  }

  /** Takes the end of a deleted log. The events before it are gone. */
  applyEnd(end: Pick<LogRow, 'sequence' | 'hash'>): void {
    for (const sequence of this.unmatched.keys()) if (sequence < end.sequence) this.unmatched.delete(sequence);
    this.apply(end);
  }

  /** Reports stored heads of which the log has no event. */
  end(): void {
    for (const sequence of this.unmatched.keys()) {
      this.findings.add(`event ${sequence}, of which the hash was kept, is missing: the log ends at ${this.last}`);
    }
  }
}
