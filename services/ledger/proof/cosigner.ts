// Has witnesses cosign the newest checkpoint of each log, and tells whether enough of them do.
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import { openGauge } from '../../platform/gauges.ts';
import { inTransaction, withClient, type Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { consistencyProof } from './merkle.ts';
import { readCheckpoint, readNote } from './note.ts';
import { readOnly, storedSubtrees } from './stored-tiles.ts';
import { cosign, isOf, NotCosigned } from './witness.ts';
import type { Witness } from './witness-list.ts';

/** What it needs. */
export interface CosignerOptions {
  /** Connections with `app.indexer` on, which see the trees and checkpoints of all tenants. */
  pool: Pool;
  witnesses: readonly Witness[];
  /** Cosignatures that a checkpoint should have. */
  quorum: number;
  /** Between two checkpoints of a log, milliseconds. */
  everyMs: number;
  /** For so long a witness that fails is left alone, milliseconds; then for twice as long each time, up to a minute. */
  retryMs: number;
  logger: Logger;
  metrics: Registry;
}

interface Uncosigned {
  tenant: string;
  origin: number;
  size: number;
  note: string;
}

/** Logs whose checkpoints are cosigned at a time. */
const atOnce = 8;
/** Between looks, milliseconds, at most; a look that takes long is followed by a longer rest. */
const maxPollMs = 5_000;
const restFactor = 9;
const maxRetryMs = 60_000;

// Lines after the first signature.
const uncosigned = `select t.tenant_id as tenant, t.origin, c.size::float8 as size, c.note
  from trees t join heads h on h.tenant_id = t.tenant_id and h.frozen_at is null cross join lateral (
    select size, note from checkpoints c where c.tenant_id = t.tenant_id and c.origin = t.origin order by c.size desc limit 1) c
  where cardinality(string_to_array(c.note, E'\\n— ')) - 2 < $1`;

/** Asks until it is closed. Every replica does: of two answers of a witness one joins the note. */
export class Cosigner {
  private readonly options: CosignerOptions;
  private readonly closed = new AbortController();
  private readonly answers: Counter;
  /** How far each witness has cosigned each log, by the last answers. */
  private readonly cosigned = new Map<string, number>();
  private readonly failing = new Map<string, { restMs: number; until: number }>();
  private short = 0;
  private readonly loop: Promise<void>;

  constructor(options: CosignerOptions) {
    this.options = options;
    this.answers = new Counter({
      name: 'ledger_cosignatures_total',
      help: 'Checkpoints that were sent to witnesses',
      labelNames: ['witness', 'outcome'],
      registers: [options.metrics],
    });
    const help = 'Logs whose newest checkpoint has fewer cosignatures than WITNESS_QUORUM, by the last look';
    openGauge(options.metrics, 'ledger_checkpoints_uncosigned', help, () => this.short);
    this.loop = this.run();
  }

  /** `degraded` where a checkpoint has too few cosignatures. */
  state(): 'ok' | 'degraded' {
    return this.short > 0 ? 'degraded' : 'ok';
  }

  /** Ends the loop; what is being asked is given up. */
  async close(): Promise<void> {
    this.closed.abort();
    await this.loop;
  }

  private async run(): Promise<void> {
    const { everyMs, logger } = this.options;
    const { signal } = this.closed;
    const pollMs = Math.min(maxPollMs, everyMs / 4);
    while (!signal.aborted) {
      const started = performance.now();
      await this.round().catch((error: unknown) => {
        if (!signal.aborted) logger.warn({ err: error }, 'cosigning checkpoints failed');
      });
      const restMs = Math.max(pollMs, restFactor * (performance.now() - started));
      await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }

  private async round(): Promise<void> {
    const { pool, witnesses, quorum } = this.options;
    const { rows } = await withClient(pool, (client) =>
      client.query<Uncosigned>({ name: 'uncosigned', text: uncosigned, values: [witnesses.length] }),
    );
    let short = 0;
    const waiting = rows.values();
    const work = async () => {
      for (const checkpoint of waiting) {
        const has = await this.complete(checkpoint);
        if (has < quorum) short += 1;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    if (!this.closed.signal.aborted) this.short = short;
  }

  /** Asks the witnesses that a checkpoint lacks; how many of all have cosigned it then. */
  private async complete(checkpoint: Uncosigned): Promise<number> {
    const { pool, witnesses } = this.options;
    const { signatures } = readNote(checkpoint.note);
    const missing = witnesses.filter((witness) => !signatures.some((each) => isOf(witness, each)));
    const lines = await Promise.all(missing.map((witness) => this.ask(witness, checkpoint)));
    const added = missing.flatMap((witness, index) => (lines[index] === undefined ? [] : [{ witness, line: lines[index] }]));
    if (added.length > 0) {
      await inTransaction(pool, [checkpoint.tenant], async (client) => {
        for (const { witness, line } of added) {
          await client.query({
            name: 'add_cosignature',
            text: `update checkpoints set note = note || $4 where tenant_id = $1 and origin = $2 and size = $3 and strpos(note, $5) = 0`,
            values: [checkpoint.tenant, checkpoint.origin, checkpoint.size, line, `\n— ${witness.name} `],
          });
        }
      });
    }
    return witnesses.length - missing.length + added.length;
  }

  private async ask(witness: Witness, { tenant, size, note }: Uncosigned): Promise<string | undefined> {
    const { pool, logger } = this.options;
    const { origin } = readCheckpoint(note);
    const ofLog = `${witness.name} ${origin}`;
    const now = performance.now();
    if ([witness.name, ofLog].some((key) => (this.failing.get(key)?.until ?? 0) > now)) return undefined;
    const prove = (old: number) => consistencyProof(old, size, storedSubtrees(readOnly(pool, tenant), tenant));
    try {
      const line = await cosign(witness, { size, note, prove }, this.cosigned.get(ofLog) ?? 0, this.closed.signal);
      this.cosigned.set(ofLog, size);
      for (const key of [witness.name, ofLog]) this.failing.delete(key);
      this.answers.inc({ witness: witness.name, outcome: 'cosigned' });
      return line;
    } catch (error) {
      if (!(error instanceof NotCosigned)) throw error;
      if (this.closed.signal.aborted) return undefined;
      this.answers.inc({ witness: witness.name, outcome: error.ofLog ? 'refused' : 'failed' });
      this.rest(error.ofLog ? ofLog : witness.name, () =>
        logger.warn({ witness: witness.name, log: origin, reason: error.message }, 'a witness has not cosigned a checkpoint'),
      );
      return undefined;
    }
  }

  /** Leaves a witness alone for a while; `first` is called where it had not failed before. */
  private rest(key: string, first: () => void): void {
    const before = this.failing.get(key);
    if (!before) first();
    const restMs = Math.min(maxRetryMs, before ? 2 * before.restMs : this.options.retryMs);
    if (!before || before.until <= performance.now()) this.failing.set(key, { restMs, until: performance.now() + restMs });
  }
}
