// A walk over one tenant's log and tables, which compares all of them: in one snapshot, or in steps with a snapshot each.
import type pg from 'pg';
import { genesisHash, type LogRow } from '../log.ts';
import { describeDifference, differenceColumns, pluralize, type Difference, type Findings } from './findings.ts';
import { logChunk } from './operator.ts';
import { derivedRows, type Projection } from './projections.ts';
import type { IndexState } from './replay-indexes.ts';
import { Replay } from './replay.ts';
import { Reversals } from './reversals.ts';
import { joined, type Row } from './rows.ts';
import type { HeadComparison } from './stored-heads.ts';
import { TreeComparison } from './tree-comparison.ts';

/** What is walked. */
export interface WalkOf {
  /** UUID. */
  tenant: string;
  tables: Projection[];
  findings: Findings;
  /** Heads that were kept of the tenant. */
  kept?: HeadComparison;
}

/** Compares the events of a log one after the other, then what all of them have changed. */
export class Walk {
  events = 0;
  transactions = 0;
  /** The last event that was compared. */
  last: Pick<LogRow, 'sequence' | 'hash'> = { sequence: 0n, hash: genesisHash };
  private readonly of: WalkOf;
  private readonly indexes: IndexState;
  private readonly replay: Replay;
  private readonly reversals: Reversals;
  private readonly tree: TreeComparison;
  /** Rows that follow from the log, by table. */
  private readonly counts: Map<string, number>;

  /** `indexes`: how far they are when the walk begins. */
  constructor({ indexes, ...of }: WalkOf & { indexes: IndexState }) {
    this.of = of;
    this.indexes = indexes;
    this.replay = new Replay(of.tenant, (problem) => of.findings.add(problem), indexes);
    this.reversals = new Reversals(of.findings);
    this.tree = new TreeComparison(of.tenant, of.findings, of.findings);
    this.counts = new Map(of.tables.map(({ name }) => [name, 0]));
  }

  /**
   * Compares the next events, at most 500 and none after `until`, and the rows that they alone have made; false: there are none. `indexed`, in
   * steps: how far the auditor has indexed the log by now.
   */
  async next(client: pg.ClientBase, { until, indexed }: { until?: bigint; indexed?: bigint } = {}): Promise<boolean> {
    if (indexed !== undefined) this.replay.indexedThrough(indexed);
    const read = await logChunk(client, this.of.tenant, this.last.sequence);
    const events = until === undefined ? read : read.filter(({ sequence }) => sequence <= until);
    const replayed = events.map((event) => {
      this.of.kept?.apply(event);
      return this.replay.apply(event);
    });
    const added = joined(replayed.map(({ rows }) => rows));
    for (const [name, rows] of Object.entries(added)) await this.compare(client, name, rows);
    await this.reversals.check(
      client,
      this.of.tenant,
      replayed.flatMap(({ posted, effectiveMs = 0 }) => (posted?.kind === 'reversal' ? [{ posted, effectiveMs }] : [])),
    );
    await this.tree.apply(client, events);
    this.events += events.length;
    this.transactions += added.transactions.length;
    this.last = events.at(-1) ?? this.last;
    return events.length > 0;
  }

  /** Compares what later events can change, and finds rows without an event. In the snapshot in which there were no more events. */
  async end(client: pg.ClientBase): Promise<void> {
    const { tenant, tables, findings, kept } = this.of;
    for (const [name, rows] of Object.entries(this.replay.latest())) {
      for (let from = 0; from < rows.length; from += 1000) await this.compare(client, name, rows.slice(from, from + 1000));
    }
    kept?.end();
    await this.tree.end(client, this.replay.isRewound);
    if (this.counts.get('heads') === 0) findings.add('has no log');
    for (const { name } of tables) {
      const text = `select count(*)::text as n from ${name} where ${derivedRows(name, this.indexes)}`;
      const { rows } = await client.query<{ n: string }>(text, [tenant]);
      const surplus = Number(rows[0]?.n) - (this.counts.get(name) ?? 0);
      if (surplus > 0) findings.add(`${name} has ${pluralize(surplus, 'row')} without an event: \`rebuild --check\` says which`);
    }
    const noted = await client.query('select from deleted_tenants where tenant_id = $1', [tenant]);
    if (noted.rowCount !== 0) findings.add('is in deleted_tenants, and has a head');
  }

  // Whole rows are compared, so that no column can be forgotten. Without temporary tables, so that it runs on a standby and for a role that
  // only reads.
  private async compare(client: pg.ClientBase, name: string, rows: Row[]): Promise<void> {
    this.counts.set(name, (this.counts.get(name) ?? 0) + rows.length);
    const table = this.of.tables.find((each) => each.name === name);
    if (!table || rows.length === 0) return;
    const { rows: different } = await client.query<Difference>(
      `select ${differenceColumns}
        from json_to_recordset($1::json) as replayed (${table.definitions.join(', ')})
        left join (select ${table.plain.join(', ')} from ${table.name}) as stored
          on ${table.key.map((column) => `stored.${column} = replayed.${column}`).join(' and ')}
        where stored is distinct from replayed`,
      [JSON.stringify(rows)],
    );
    for (const difference of different) this.of.findings.add(describeDifference(table, difference));
  }
}
