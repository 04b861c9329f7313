// `npm run proof -- <name> [--seed N] [--minutes M]`: tries to break what the ledger promises, for as long as it is told, and says its seed.
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { beginRun, endRun } from '../run.ts';

/** What a proof is asked for. */
export interface Task {
  /** The same seed makes the same choices. */
  seed: number;
  minutes: number;
  say: (line: string) => void;
}

/** A proof. Resolves true where everything held, and says what did not. */
export type Prove = (task: Task) => Promise<boolean>;

/** By name; each is loaded only where it is asked for. */
const proofs: Record<string, () => Promise<{ prove: Prove }>> = {
  faults: () => import('./faults.ts'),
  grpc: () => import('./grpc.ts'),
  histories: () => import('./histories.ts'),
  idle: () => import('./idle.ts'),
  model: () => import('./model.ts'),
  neighbour: () => import('./neighbour.ts'),
  rest: () => import('./rest.ts'),
  soak: () => import('./soak.ts'),
};

const usage = `npm run proof -- ${Object.keys(proofs).join('|')} [--seed N] [--minutes M]
  --seed N     makes the choices of an earlier run again; default: a new one, which is printed
  --minutes M  how long, default 5`;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function asked(): { load: () => Promise<{ prove: Prove }>; seed: number; minutes: number } {
  const options = { seed: { type: 'string' }, minutes: { type: 'string', default: '5' } } as const;
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  const load = proofs[positionals[0] ?? ''];
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  const minutes = Number(values.minutes);
  if (!load || positionals.length !== 1) throw new Error('name one proof');
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed must be a whole number');
  if (!(minutes > 0)) throw new Error('--minutes must be greater than zero');
  return { load, seed, minutes };
}

async function main(): Promise<boolean> {
  const { load, seed, minutes } = asked();
  say(`seed ${seed}, ${minutes} minutes`);
  await beginRun();
  try {
    return await (await load()).prove({ seed, minutes, say });
  } finally {
    await endRun();
  }
}

main().then(
  (held) => process.exit(held ? 0 : 1),
  (error: unknown) => {
    process.stderr.write(`${(error as Error).stack ?? String(error)}\n\n${usage}\n`);
    process.exit(2);
  },
);
