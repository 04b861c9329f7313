// Log heads that are kept outside the database: they reveal a log whose end was removed, or that was made anew.
import type pg from 'pg';
import { toId, toUuid } from '../../platform/ids.ts';
import type { LogRow } from '../log.ts';
import type { Findings } from './findings.ts';
import { auditTenants, snapshot } from './operator.ts';

/** Kept hashes (hex), by tenant (UUID) and sequence. */
export type StoredHeads = Map<string, Map<bigint, string>>;

/** Prints `<tenant's id> <sequence> <hash>` of the last event of each tenant's log, or of one tenant's (UUID). Returns how many can't be read. */
export async function printHeads(
  client: pg.Client,
  only: string | undefined,
  print: (line: string) => void,
  report: (line: string) => void,
): Promise<number> {
  const { findings } = await auditTenants(client, { only, begin: snapshot }, report, async (tenant) => {
    const { rows } = await client.query<{ sequence: string; hash: string }>(
      `select sequence::text, encode(hash, 'hex') as hash from log where tenant_id = $1 order by log.sequence desc limit 1`,
      [tenant],
    );
    for (const { sequence, hash } of rows) print(`${toId('tenant', tenant)} ${sequence} ${hash}`);
    return [];
  });
  return findings;
}

/**
 * Parses lines of {@link printHeads} of any times. Skips empty lines and npm's own, which begin with `>`. Throws for any other line, for two
 * that contradict, and if there is none.
 */
export function parseHeads(text: string): StoredHeads {
  const kept: StoredHeads = new Map();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('> ')) continue;
    const [, id = '', digits = '', hash = ''] = /^(tenant_\S+) ([1-9][0-9]{0,18}) ([0-9a-f]{64})$/.exec(line.trim()) ?? [];
    const tenant = toUuid('tenant', id);
    if (tenant === null) throw new Error(`line ${index + 1} is none of \`heads\`: <tenant's id> <sequence> <hash>`);
    const heads = kept.get(tenant) ?? new Map<bigint, string>();
    kept.set(tenant, heads);
    const sequence = BigInt(digits);
    if ((heads.get(sequence) ?? hash) !== hash)
      throw new Error(`line ${index + 1} has another hash of event ${sequence} than a line before it`);
    heads.set(sequence, hash);
  }
  if (kept.size === 0) throw new Error('it has no line of a head');
  return kept;
}

/** Compares a tenant's log with its kept heads, event by event. */
export class HeadComparison {
  private readonly left: Map<bigint, string>;
  private readonly findings: Findings;
  private last = 0n;

  constructor(kept: ReadonlyMap<bigint, string> | undefined, findings: Findings) {
    this.left = new Map(kept);
    this.findings = findings;
  }

  /** Takes the next event. */
  apply({ sequence, hash }: LogRow): void {
    this.last = sequence;
    const kept = this.left.get(sequence);
    if (kept !== undefined && kept !== hash.toString('hex')) {
      this.findings.add(`event ${sequence} does not have the hash that was kept: it, or one before it, was made anew`);
    }
    this.left.delete(sequence);
  }

  /** Reports kept heads of which the log has no event. */
  end(): void {
    for (const sequence of this.left.keys()) {
      this.findings.add(`event ${sequence}, of which the hash was kept, is missing: the log ends at ${this.last}`);
    }
  }
}
