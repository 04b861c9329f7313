// Heads of logs that somebody keeps where the database's owner can't change them: what is removed from a log's end, or made anew with a chain of
// its own, is found by nothing that is in the database.
import type pg from 'pg';
import { toId, toUuid } from '../../platform/ids.ts';
import type { LogRow } from '../log.ts';
import { inTenantTransaction, tenantsOf, snapshot, type Findings, type Projection } from './operator.ts';

/** Hashes (hex) that were kept, by tenant (UUID) and sequence. */
export type KeptHeads = Map<string, Map<bigint, string>>;

/** Gives `say` a line of each tenant, or of one (UUID): `<tenant's id> <sequence> <hash>`, of the last event of his log; none of who has no log. */
export async function printHeads(
  client: pg.Client,
  tables: Projection[],
  { only, findings }: { only: string | undefined; findings: Findings },
  say: (line: string) => void,
): Promise<void> {
  for await (const tenant of tenantsOf(client, tables, only)) {
    await inTenantTransaction(client, tenant, snapshot, findings, async () => {
      const { rows } = await client.query<{ sequence: string; hash: string }>(
        `select sequence::text, encode(hash, 'hex') as hash from log where tenant_id = $1 order by log.sequence desc limit 1`,
        [tenant],
      );
      for (const { sequence, hash } of rows) say(`${toId('tenant', tenant)} ${sequence} ${hash}`);
    });
  }
}

/**
 * Reads lines of {@link printHeads}, of whatever times; empty ones are passed over, and npm's own, which begin with `>`. Throws at any other line, also
 * where two contradict, and where there is none: then nothing was kept.
 */
export function parseHeads(text: string): KeptHeads {
  const kept: KeptHeads = new Map();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('> ')) continue;
    const [, id = '', sequence = '', hash = ''] = /^(tenant_\S+) ([1-9][0-9]{0,18}) ([0-9a-f]{64})$/.exec(line.trim()) ?? [];
    const tenant = toUuid('tenant', id);
    if (tenant === null) throw new Error(`line ${index + 1} is none of \`heads\`: <tenant's id> <sequence> <hash>`);
    const ofTenant = kept.get(tenant) ?? new Map<bigint, string>();
    kept.set(tenant, ofTenant);
    const place = BigInt(sequence);
    if ((ofTenant.get(place) ?? hash) !== hash)
      throw new Error(`line ${index + 1} has another hash of event ${place} than a line before it`);
    ofTenant.set(place, hash);
  }
  if (kept.size === 0) throw new Error('it has no line of a head');
  return kept;
}

/** Holds a tenant's log against the heads that were kept of it, event by event. */
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

  /** Tells of kept heads that the log has no event of. */
  end(): void {
    for (const sequence of this.left.keys()) {
      this.findings.add(`event ${sequence}, of which the hash was kept, is missing: the log ends at ${this.last}`);
    }
  }
}
