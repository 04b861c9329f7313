// Drives a model of the ledger and a real cluster with the same random steps; where they differ, shrinks the steps and prints them.
import fc from 'fast-check';
import { startCluster } from '../../cluster.ts';
import { startReceiver, type Received, type Receiver } from '../../notifier.ts';
import { LedgerApi } from '../ledger-api.ts';
import type { Task } from '../task.ts';
import { businessTypes, chartMoves, readMoves } from './chart-moves.ts';
import { deliveryMoves, settle } from './deliveries.ts';
import { refusals } from './expectation.ts';
import { holdMoves } from './hold-moves.ts';
import { LedgerModel } from './ledger-model.ts';
import { Divergence, ModelRun, Tally, Unavailable, printed, type RunContext, type Step } from './model-run.ts';
import { postingMoves } from './posting-moves.ts';
import { submitMoves } from './submit-moves.ts';

const moves = { ...postingMoves, ...holdMoves, ...submitMoves, ...chartMoves, ...readMoves, ...deliveryMoves };

const step: fc.Arbitrary<Step> = fc.oneof(
  ...Object.entries(moves).map(([name, { weight, own }]) => ({
    weight: weight * 2,
    arbitrary: fc.record({
      do: fc.constant(name),
      via: fc.constantFrom('rest', 'grpc'),
      tenant: fc.constantFrom(0, 0, 0, 1, 2),
      ...own,
    }) as fc.Arbitrary<Step>,
  })),
);

// Most tenants begin with a webhook or a chart.
const beginning: fc.Arbitrary<Step[]> = fc
  .tuple(fc.constantFrom(...businessTypes, ''), fc.boolean())
  .map(([type, isSubscribed]) => [
    ...(isSubscribed ? [{ do: 'subscribe', via: 'rest' as const, tenant: 0 }] : []),
    ...(type === '' ? [] : [{ do: 'setUp', via: 'rest' as const, tenant: 0, type }]),
  ]);

/** A sequence of at most so many random steps, which refer to things by index, so that it stays valid when shrinking removes some. */
function sequences(most: number): fc.Arbitrary<Step[]> {
  const steps = fc.array(step, { minLength: 1, maxLength: most, size: 'max' });
  return fc.noBias(fc.tuple(beginning, steps).map(([one, rest]) => [...one, ...rest]));
}

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
  private readonly context: Omit<RunContext, 'tally' | 'newLedger'>;
  private readonly receiver: Receiver;

  private constructor(context: ModelBench['context'], receiver: Receiver) {
    this.context = context;
    this.receiver = receiver;
  }

  static async open(): Promise<ModelBench> {
    const cluster = await startCluster();
    const received = new Map<string, Received[]>();
    const receiver = await startReceiver((request, response) => {
      const slug = request.path.slice(1);
      received.set(slug, received.get(slug) ?? []);
      received.get(slug)!.push(request);
      receiver.received.length = 0;
      response.end();
    });
    const hooks = new URL(receiver.url).origin;
    return new ModelBench({ cluster, api: new LedgerApi(cluster), hooks, received, owner: await cluster.signUp() }, receiver);
  }

  async close(): Promise<void> {
    await this.context.api.close();
    await this.context.cluster.stop();
    await this.receiver.close();
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
    return { tally, failure };
  }
}

function failureOf(run: ModelRun, steps: Step[], error: Error, seed: number): Failure {
  const why = error instanceof Divergence ? error.message : (error.stack ?? String(error));
  return { seed, steps, why, calls: run.made.map(printed) };
}

async function play(run: ModelRun, steps: Step[]): Promise<void> {
  const { tally } = run.context;
  await run.newTenant();
  for (const step of steps) {
    await moves[step.do]!.move(run, run.tenants[step.tenant % run.tenants.length]!, step);
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
  const never = Object.keys(moves).filter((name) => !tally.kinds.has(name));
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
