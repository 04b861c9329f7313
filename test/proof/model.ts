// Drives a model of the ledger and a real cluster side by side with sequences from a seed; where they differ, the sequence is shrunk and printed.
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import pg from 'pg';
import { toUuid } from '../../services/platform/ids.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { Books } from './books.ts';
import { chartMoves } from './chart-moves.ts';
import { script } from './curl.ts';
import { Doors } from './doors.ts';
import { refusals } from './expectation.ts';
import { startReceiver } from './hook.ts';
import { hookMoves, settle } from './hook-moves.ts';
import { ledgerMoves } from './ledger-moves.ts';
import { readMoves } from './read-moves.ts';
import { sequences, stepNames, type Step } from './steps.ts';
import type { Task } from './task.ts';
import { mustBeDead, tenantMoves } from './tenant-moves.ts';
import { Divergence, GivenUp, Tally, World, type Key, type Surroundings, type Tenant } from './world.ts';

const moves = { ...ledgerMoves, ...chartMoves, ...readMoves, ...tenantMoves, ...hookMoves };

/** Sequences run side by side, each on tenants of its own. */
const lanes = 12;
/** Steps in a sequence, at most. */
const longest = 120;
/** A failing sequence is made smaller for no longer, milliseconds: what was found is worth more than how short it is. */
const longestShrink = 120_000;

/** A sequence in which cluster and model went apart. */
export interface Failure {
  /** Of this sequence alone. */
  seed: number;
  steps: Step[];
  why: string;
  script: string;
}

export interface Drive {
  seed: number;
  /** Ends when this says so; asked before each sequence. */
  enough: (tally: Tally) => boolean;
  newBooks?: () => Books;
  /** How often a failing sequence may be run again to make it smaller, within two minutes. */
  shrinks?: number;
}

/** A cluster with everything that sequences need around it. */
export class Arena {
  readonly cluster: Cluster;
  readonly around: Omit<Surroundings, 'tally' | 'newBooks'>;
  private readonly books: pg.Pool;

  private constructor(cluster: Cluster, around: Arena['around'], books: pg.Pool) {
    this.cluster = cluster;
    this.around = around;
    this.books = books;
  }

  /** Starts a cluster whose failed deliveries are tried again at once, and a receiver. */
  static async open(): Promise<Arena> {
    const receiver = await startReceiver();
    const cluster = await startCluster({ environment: { notifier: { WEBHOOK_RETRY_DELAYS: '0.05,0.05' } } });
    const books = new pg.Pool({ connectionString: cluster.databases.ledger.adminUrl, max: 2 });
    books.on('error', () => undefined);
    const consumed = async (tenantId: string, sequence: number): Promise<void> => {
      const reached = `select 1 from relay_marks where tenant_id = $1 and sequence >= $2`;
      for (const until = Date.now() + 60_000; sequence > 0; await pause(10)) {
        if ((await books.query(reached, [toUuid('tenant', tenantId), sequence])).rowCount) return;
        if (Date.now() > until) throw new Divergence(`event ${sequence} was not published within 60 s`);
      }
    };
    const swell = async (tenantId: string, accountId: string, currency: string, units: bigint): Promise<void> => {
      const where = `where tenant_id = $1 and account_id = $2 and currency = $3`;
      const whose = [toUuid('tenant', tenantId), toUuid('acc', accountId), currency];
      await books.query(`update balances set debits = debits + $4, credits = credits + $4 ${where}`, [...whose, units]);
      // Ledgers forget the books that they remember.
      await books.query(`update heads set rebuilt = rebuilt + 1 where tenant_id = $1`, whose.slice(0, 1));
    };
    return new Arena(cluster, { doors: new Doors(cluster), receiver, owner: await cluster.signUp(), swell, consumed }, books);
  }

  async close(): Promise<void> {
    await this.around.doors.close();
    await this.books.end();
    await this.cluster.stop();
    await this.around.receiver.close();
  }

  /** Runs sequences until there have been enough, or one has failed; answers the smallest failure found. */
  async drive({ seed, enough, newBooks = () => new Books(), shrinks = 500 }: Drive): Promise<{ tally: Tally; failure: Failure | null }> {
    const tally = new Tally();
    const around = { ...this.around, tally, newBooks };
    const revoked: [World, Tenant, Key][] = [];
    let failure = null as Failure | null;
    let failedAt = Infinity;
    let turn = 0;
    const lane = async () => {
      while (!failure && !enough(tally)) {
        const own = (seed + turn++ * 7_919) % 2 ** 31;
        let runs = 0;
        const property = fc.asyncProperty(sequences(longest), async (steps) => {
          // Only the first failure is made smaller: the lanes would take the machine from each other.
          const late = runs > shrinks || performance.now() > failedAt + longestShrink;
          if (failure ? failure.seed !== own || late : runs > 0) return;
          runs++;
          let world = new World(around);
          try {
            await play(world, steps).catch((error: unknown) => {
              if (!(error instanceof GivenUp)) throw error;
              // On a machine that stood still it goes well the next time, on tenants of its own; what is at fault itself fails again.
              tally.givenUp++;
              world = new World(around);
              return play(world, steps);
            });
            for (const tenant of world.tenants) {
              for (const key of tenant.keys) if (key.revokedAt !== undefined) revoked.push([world, tenant, key]);
            }
          } catch (error) {
            if (failure && failure.seed !== own) return;
            failedAt = Math.min(failedAt, performance.now());
            failure = this.told(world, steps, error as Error, own);
            throw error;
          }
        });
        await fc.check(property, { seed: own, numRuns: 1 });
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    for (const [world, tenant, key] of failure ? [] : revoked) {
      while (!(await mustBeDead(world, tenant, key))) await pause(100);
    }
    return { tally, failure };
  }

  private told(world: World, steps: Step[], error: Error, seed: number): Failure {
    const why = error instanceof Divergence ? error.message : (error.stack ?? String(error));
    const calls = world.made.filter((made, place) => !world.checks.has(made) && (isChange(made.call) || place === world.made.length - 1));
    const { owner, receiver } = this.around;
    const last = world.made.at(-1);
    const comments = [
      `Sequence of seed ${seed}. The last call differs from the model: ${why}`,
      `It answered ${last?.answer.slice(0, 2000) ?? 'nothing'}`,
    ];
    const lines = comments.map((each) => each.replaceAll('\n', ' '));
    return { seed, steps, why, script: script(calls, { token: owner.token, name: world.name, receiver: receiver.url }, lines) };
  }
}

function isChange(call: World['made'][number]['call']): boolean {
  return call.via === 'grpc' ? !/^(get|list)/.test(call.method) : call.method !== 'GET';
}

async function play(world: World, steps: Step[]): Promise<void> {
  const { tally } = world.around;
  await world.newTenant();
  for (const step of steps) {
    await moves[step.do]!(world, world.tenant(step), step);
    tally.steps++;
    tally.count(tally.kinds, step.do);
  }
  for (const tenant of world.tenants) await settle(world, tenant);
}

function counted(counts: Map<string, number>): string {
  return [...counts]
    .sort(([, one], [, two]) => two - one)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}

/** The refusals of the specification that nothing was answered. */
export function unreached(tally: Tally): string[] {
  return refusals.filter((each) => !tally.refusals.has(each));
}

/** What has been run, a line each. */
export function report(tally: Tally): string[] {
  const never = stepNames.filter((name) => !tally.kinds.has(name));
  return [
    `${tally.steps} steps, ${tally.calls} calls, ${tally.postings} postings, ${tally.deliveries} requests to receivers`,
    ...(tally.givenUp > 0 ? [`${tally.givenUp} sequences begun again, as a change was told 503 or nothing in time`] : []),
    `steps by kind: ${counted(tally.kinds)}${never.length > 0 ? `; never: ${never.join(', ')}` : ''}`,
    `refusals: ${counted(tally.refusals)}${unreached(tally).length > 0 ? `; never: ${unreached(tally).join(', ')}` : ''}`,
  ];
}

/** At least so many steps, however short the time. */
const fewest = 10_000;

/** `npm run proof -- model`. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const arena = await Arena.open();
  try {
    const until = Date.now() + minutes * 60_000;
    let told = Date.now();
    const enough = (tally: Tally) => {
      if (Date.now() - told > 30_000) {
        told = Date.now();
        say(`${tally.steps} steps`);
      }
      return Date.now() > until && tally.steps >= fewest;
    };
    const { tally, failure } = await arena.drive({ seed, enough });
    report(tally).forEach(say);
    if (!failure) say(`cluster and model agree; seed ${seed}`);
    else say(`cluster and model went apart; seed ${seed}\nsteps: ${JSON.stringify(failure.steps)}\n${failure.script}`);
    return failure === null && unreached(tally).length === 0;
  } finally {
    await arena.close();
  }
}
