// `npm run proof -- <name> [--seed N] [--minutes M] [--fault NAME,…] [--data DIR]`: tries to break what the ledger promises, for as long as it is told, and says its seed.
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { beginRun, endRun } from '../run.ts';
import { Misuse, type Prove, type Task } from './task.ts';

/** By name; each is loaded only where it is asked for. */
const proofs: Record<string, () => Promise<{ prove: Prove }>> = {
  faults: () => import('./faults.ts'),
  grpc: () => import('./grpc.ts'),
  histories: () => import('./histories.ts'),
  idle: () => import('./idle.ts'),
  model: () => import('./model.ts'),
  neighbour: () => import('./neighbour.ts'),
  rest: () => import('./rest.ts'),
  scale: () => import('./scale.ts'),
  soak: () => import('./soak.ts'),
};

const usage = `npm run proof -- ${Object.keys(proofs).join('|')} [--seed N] [--minutes M]
  --seed N     makes the choices of an earlier run again; default: a new one, which is printed
  --minutes M  how long, default 5; of scale: how long the filling may take
  --fault NAME[,NAME...]  faults only: chooses from these, each once and alone to begin with; a wrong name lists them
  --data DIR   scale only: keeps the filled cluster there, and goes on with what is there`;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function asked(): Omit<Task, 'say'> & { load: () => Promise<{ prove: Prove }> } {
  const text = { type: 'string' } as const;
  const options = { seed: text, minutes: { ...text, default: '5' }, fault: text, data: text, help: { type: 'boolean' } } as const;
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
  if (values.data !== undefined && positionals[0] !== 'scale') throw new Error('only scale keeps data');
  if (values.fault !== undefined && positionals[0] !== 'faults') throw new Error('--fault: only faults has any');
  const chosen = values.fault?.split(',').map((name) => name.trim());
  return { load, seed, minutes, faults: chosen && [...new Set(chosen)], data: values.data };
}

function task(): ReturnType<typeof asked> {
  try {
    return asked();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}\n`);
    process.exit(2);
  }
}

async function main({ load, ...task }: ReturnType<typeof asked>): Promise<boolean> {
  say(`seed ${task.seed}, ${task.minutes} minutes`);
  await beginRun();
  try {
    return await (await load()).prove({ ...task, say });
  } finally {
    await endRun();
  }
}

main(task()).then(
  (held) => process.exit(held ? 0 : 1),
  (error: unknown) => {
    // Whoever misspells something needs no stack.
    const said = error instanceof Misuse ? error.message : ((error as Error).stack ?? String(error));
    process.stderr.write(`${said}\n`);
    process.exit(2);
  },
);
