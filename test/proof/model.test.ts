// The model and a real house side by side, many clients at once, and whether these proofs would notice a fault.
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { Books } from './books.ts';
import { Arena, report } from './model.ts';
import type { Tally } from './world.ts';

let arena: Arena;

beforeAll(async () => {
  arena = await Arena.open();
});

afterAll(() => arena.close());

const random = randomInt(2 ** 31);

test.each([
  ['a fixed seed', 5],
  ['a new seed', random],
])('house and model agree on what follows from %s (%i)', async (_, seed) => {
  const { tally, failure } = await arena.drive({ seed, enough: ({ steps }: Tally) => steps >= 1_000, shrinkMs: 20_000 });
  if (failure) throw new Error(`${failure.why}\nseed ${seed}, steps: ${JSON.stringify(failure.steps)}\n${failure.script}`);
  console.log([`seed ${seed}`, ...report(tally)].join('\n'));
  expect(tally.steps).toBeGreaterThanOrEqual(1_000);
});

/** Books that take every balance for one that grows by debits. */
class WrongBooks extends Books {
  override net(account: Parameters<Books['net']>[0], totals: Parameters<Books['net']>[1]): bigint {
    return super.net({ ...account, normal_balance: 'debit' }, totals);
  }
}

test('a wrong rule in the model is found, shrunk to a few steps and printed as a script that shows it', async () => {
  const { failure } = await arena.drive({ seed: 5, enough: () => false, newBooks: () => new WrongBooks(), shrinkMs: 5_000 });
  expect(failure?.why).toMatch(/balance|refus|answered/);
  expect(failure!.steps.length).toBeLessThanOrEqual(6);
  const { house } = arena;
  const env = { PATH: process.env['PATH'], API: house.url, LEDGER: house.addresses.ledger[0], INTERNAL: house.internalToken };
  const shell = spawnSync('bash', ['-u'], { input: failure!.script, env, encoding: 'utf8' });
  expect(shell.stderr).toBe('');
  expect(shell.status).toBe(0);
  const said = /^# It answered \d+ (.*)$/m.exec(failure!.script)?.[1] ?? '';
  const balances = (text: string) => [...text.matchAll(/"balance(?:_after)?": ?"(-?[0-9.]+)"/g)].map(([, balance]) => balance);
  expect(said).not.toBe('');
  expect(balances(shell.stdout.trimEnd().split('\n\n').at(-1)!)).toEqual(balances(said));
});
