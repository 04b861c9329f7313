// Drives a model of the ledger and a real cluster with the same random steps; where they differ, shrinks the steps and prints them.
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import pg from 'pg';
import { toUuid } from '../../../services/platform/ids.ts';
import { startCluster, type Cluster } from '../../cluster.ts';
import { ApiClients, printed } from '../api-clients.ts';
import type { Task } from '../task.ts';
import { chartMoves } from './chart-moves.ts';
import { refusals } from './expectation.ts';
import { LedgerModel } from './ledger-model.ts';
import { Divergence, ModelRun, Tally, Unavailable, type Key, type RunContext, type Tenant } from './model-run.ts';
import { postingMoves } from './posting-moves.ts';
import { readMoves } from './read-moves.ts';
import { sequences, stepNames, type Step } from './steps.ts';
import { isRevoked, tenantMoves } from './tenant-moves.ts';
import { startReceiver } from './webhook-model.ts';
import { settle, webhookMoves } from './webhook-moves.ts';

const moves = { ...postingMoves, ...chartMoves, ...readMoves, ...tenantMoves, ...webhookMoves };

/** Sequences that run at once, each on tenants of its own. */
const concurrency = 12;
const maxSteps = 120;
/** Shrinking a failing sequence may take so long. */
const maxShrinkMs = 120_000;

/** A sequence in which cluster and model differ. */
export interface Failure {
  /** Of this sequence alone. */
  seed: number;
  steps: Step[];
  why: string;
  /** The calls that were made, one line each; the last is the one that differs. */
  calls: string[];
}

export interface Drive {
  seed: number;
  /** Whether to stop, asked before each sequence. */
  enough: (tally: Tally) => boolean;
  newLedger?: () => LedgerModel;
  /** How often a failing sequence may be run again to shrink it. */
  maxShrinks?: number;
}

/** A cluster with what sequences need. */
export class ModelBench {
  private readonly cluster: Cluster;
  private readonly context: Omit<RunContext, 'tally' | 'newLedger'>;
  private readonly database: pg.Pool;

  private constructor(cluster: Cluster, context: ModelBench['context'], database: pg.Pool) {
    this.cluster = cluster;
    this.context = context;
    this.database = database;
  }

  /** Starts a cluster that retries failed deliveries at once, and a receiver. */
  static async open(): Promise<ModelBench> {
    const receiver = await startReceiver();
    const cluster = await startCluster({ environment: { notifier: { WEBHOOK_RETRY_DELAYS: '0.05,0.05' } } });
    const database = new pg.Pool({ connectionString: cluster.databases.ledger.adminUrl, max: 2 });
    database.on('error', () => undefined);
    const published: RunContext['published'] = async (tenantId, sequence) => {
      const reached = `select 1 from relay_marks where tenant_id = $1 and sequence >= $2`;
      for (const until = Date.now() + 60_000; sequence > 0; await pause(10)) {
        if ((await database.query(reached, [toUuid('tenant', tenantId), sequence])).rowCount) return;
        if (Date.now() > until) throw new Divergence(`event ${sequence} was not published within 60 s`);
      }
    };
    const inflate: RunContext['inflate'] = async (tenantId, accountId, currency, units) => {
      const key = [toUuid('tenant', tenantId), toUuid('acc', accountId), currency];
      await database.query(
        `update balances set debits = debits + $4, credits = credits + $4 where tenant_id = $1 and account_id = $2 and currency = $3`,
        [...key, units],
      );
      // Ledgers drop what they have cached of this tenant.
      await database.query(`update heads set rebuilt = rebuilt + 1 where tenant_id = $1`, key.slice(0, 1));
    };
    const clients = new ApiClients(cluster);
    return new ModelBench(cluster, { clients, receiver, owner: await cluster.signUp(), inflate, published }, database);
  }

  async close(): Promise<void> {
    await this.context.clients.close();
    await this.database.end();
    await this.cluster.stop();
    await this.context.receiver.close();
  }

  /** Runs sequences until there are enough or one fails; resolves to the smallest failure found. */
  async drive({
    seed,
    enough,
    newLedger = () => new LedgerModel(),
    maxShrinks = 500,
  }: Drive): Promise<{ tally: Tally; failure: Failure | null }> {
    const tally = new Tally();
    const context = { ...this.context, tally, newLedger };
    const revoked: [ModelRun, Tenant, Key][] = [];
    let failure = null as Failure | null;
    let failedAt = Infinity;
    let started = 0;
    const runSequences = async () => {
      while (!failure && !enough(tally)) {
        const own = (seed + started++ * 7_919) % 2 ** 31;
        let runs = 0;
        const property = fc.asyncProperty(sequences(maxSteps), async (steps) => {
          const isOver = runs > maxShrinks || performance.now() > failedAt + maxShrinkMs;
          // Only the first failure is shrunk; others would take its machine time.
          if (failure ? failure.seed !== own || isOver : runs > 0) return;
          runs++;
          let run = new ModelRun(context);
          try {
            await play(run, steps).catch((error: unknown) => {
              if (!(error instanceof Unavailable)) throw error;
              // A machine that stood still answers the second time; a real fault fails again.
              tally.repeated++;
              run = new ModelRun(context);
              return play(run, steps);
            });
            for (const tenant of run.tenants) {
              for (const key of tenant.keys) if (key.revokedAt !== undefined) revoked.push([run, tenant, key]);
            }
          } catch (error) {
            if (failure && failure.seed !== own) return;
            failedAt = Math.min(failedAt, performance.now());
            failure = failureOf(run, steps, error as Error, own);
            throw error;
          }
        });
        await fc.check(property, { seed: own, numRuns: 1 });
      }
    };
    await Promise.all(Array.from({ length: concurrency }, runSequences));
    for (const [run, tenant, key] of failure ? [] : revoked) {
      while (!(await isRevoked(run, tenant, key))) await pause(100);
    }
    return { tally, failure };
  }
}

function failureOf(run: ModelRun, steps: Step[], error: Error, seed: number): Failure {
  const why = error instanceof Divergence ? error.message : (error.stack ?? String(error));
  return { seed, steps, why, calls: run.made.filter((each) => !run.checks.has(each)).map(printed) };
}

async function play(run: ModelRun, steps: Step[]): Promise<void> {
  const { tally } = run.context;
  await run.newTenant();
  for (const step of steps) {
    await moves[step.do]!(run, run.tenant(step), step);
    tally.steps++;
    tally.count(tally.kinds, step.do);
  }
  for (const tenant of run.tenants) await settle(run, tenant);
}

function counted(counts: Map<string, number>): string {
  const sorted = [...counts].sort(([, one], [, two]) => two - one);
  return sorted.map(([name, count]) => `${name} ${count}`).join(', ');
}

/** The refusals of the specification that were never answered. */
export function unreached(tally: Tally): string[] {
  return refusals.filter((each) => !tally.refusals.has(each));
}

/** What was run, in lines. */
export function report(tally: Tally): string[] {
  const never = stepNames.filter((name) => !tally.kinds.has(name));
  return [
    `${tally.steps} steps, ${tally.calls} calls, ${tally.postings} postings, ${tally.deliveries} requests to receivers`,
    ...(tally.repeated > 0 ? [`${tally.repeated} sequences repeated because the cluster was unavailable`] : []),
    `steps by kind: ${counted(tally.kinds)}${never.length > 0 ? `; never: ${never.join(', ')}` : ''}`,
    `refusals: ${counted(tally.refusals)}${unreached(tally).length > 0 ? `; never: ${unreached(tally).join(', ')}` : ''}`,
  ];
}

/** A failure in lines. */
export function describeFailure({ seed, steps, why, calls }: Failure): string {
  return [`cluster and model differ; seed ${seed}: ${why}`, ...calls, `steps: ${JSON.stringify(steps)}`].join('\n');
}

/** A proof takes at least so many steps, however short the time. */
const minSteps = 10_000;

/** `npm run proof -- model`. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const bench = await ModelBench.open();
  try {
    const until = Date.now() + minutes * 60_000;
    let reported = Date.now();
    const enough = (tally: Tally) => {
      if (Date.now() - reported > 30_000) {
        reported = Date.now();
        say(`${tally.steps} steps`);
      }
      return Date.now() > until && tally.steps >= minSteps;
    };
    const { tally, failure } = await bench.drive({ seed, enough });
    report(tally).forEach(say);
    say(failure ? describeFailure(failure) : `cluster and model agree; seed ${seed}`);
    return failure === null && unreached(tally).length === 0;
  } finally {
    await bench.close();
  }
}
