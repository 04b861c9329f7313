// `npm run proof -- <name> [--seed N] [--minutes M] [--fault NAME,…]`: a long randomised test of one promise; prints its seed.
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { beginRun, endRun } from '../run.ts';
import { UsageError, type Prove, type Task } from './task.ts';

/** Each is loaded only when it runs. */
const proofs: Record<string, () => Promise<{ prove: Prove }>> = {
  faults: () => import('./faults/faults.ts'),
  grpc: () => import('./grpc.ts'),
  model: () => import('./model/model.ts'),
  neighbour: () => import('./neighbour.ts'),
  rest: () => import('./rest.ts'),
  restore: () => import('./restore/restore.ts'),
  scale: () => import('./scale.ts'),
  size: () => import('./size.ts'),
  soak: () => import('./soak.ts'),
};

const usage = `npm run proof -- ${Object.keys(proofs).join('|')} [--seed N] [--minutes M]
  --seed N     repeats the choices of an earlier run; default: a new seed, which is printed
  --minutes M  how long, default 5; of scale: how long the filling may take
  --fault NAME[,NAME...]  faults only: only these, each at least once; a wrong name lists them`;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function readTask(): Omit<Task, 'say'> & { load: () => Promise<{ prove: Prove }> } {
  const text = { type: 'string' } as const;
  const options = { seed: text, minutes: { ...text, default: '5' }, fault: text, help: { type: 'boolean' } } as const;
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  if (values.help) {
    say(usage);
    process.exit();
  }
  const load = proofs[positionals[0] ?? ''];
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  const minutes = Number(values.minutes);
  if (!load || positionals.length !== 1) throw new Error('name one proof');
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed must be a whole number');
  if (!(minutes > 0)) throw new Error('--minutes must be greater than zero');
  if (values.fault !== undefined && positionals[0] !== 'faults') throw new Error('--fault: only for faults');
  const faults = values.fault?.split(',').map((name) => name.trim());
  return { load, seed, minutes, faults: faults && [...new Set(faults)] };
}

async function main(): Promise<boolean> {
  let read: ReturnType<typeof readTask>;
  try {
    read = readTask();
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n\n${usage}`);
  }
  const { load, ...task } = read;
  // That one has steps instead of choices.
  if (process.argv[2] !== 'restore') say(`seed ${task.seed}, ${task.minutes} minutes`);
  await beginRun({ sharedBuffers: '256MB' });
  try {
    return await (await load()).prove({ ...task, say });
  } finally {
    await endRun();
  }
}

main().then(
  (isProved) => process.exit(isProved ? 0 : 1),
  (error: unknown) => {
    process.stderr.write(`${error instanceof UsageError ? error.message : ((error as Error).stack ?? String(error))}\n`);
    process.exit(2);
  },
);
