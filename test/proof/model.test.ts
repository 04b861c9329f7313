// The model and a real cluster side by side, many clients at once, and whether these proofs would notice a fault.
import { spawnSync } from 'node:child_process';
import { Books } from './books.ts';
import type { Expected } from './expectation.ts';
import { Arena, report, unreached } from './model.ts';
import type { By, Request } from './records.ts';
import type { Tally } from './world.ts';

const thorough = 1_716_440_726;

let arena: Arena;

beforeAll(async () => {
  arena = await Arena.open();
});

afterAll(() => arena.close());

test.each([
  ['a fixed seed', 5, () => true],
  // Which once went apart. Some refusals are rare: all of them come within two or three thousand steps.
  ['another, until every refusal was answered', thorough, (tally: Tally) => unreached(tally).length === 0 || tally.steps >= 15_000],
])(
  'cluster and model agree on what follows from %s (%i)',
  async (_, seed, reached) => {
    const enough = (tally: Tally) => tally.steps >= 1_000 && reached(tally);
    const { tally, failure } = await arena.drive({ seed, enough, shrinks: 150 });
    if (failure) throw new Error(`${failure.why}\nseed ${seed}, steps: ${JSON.stringify(failure.steps)}\n${failure.script}`);
    console.log([`seed ${seed}`, ...report(tally)].join('\n'));
    expect(tally.steps).toBeGreaterThanOrEqual(1_000);
    if (seed === thorough) expect(unreached(tally)).toEqual([]);
  },
  400_000,
);

/** Takes every balance for one that grows by debits. */
class WrongWay extends Books {
  override net(account: Parameters<Books['net']>[0], totals: Parameters<Books['net']>[1]): bigint {
    return super.net({ ...account, normal_balance: 'debit' }, totals);
  }
}

/** Forgets that a posting changes balances. */
class Forgetful extends Books {
  override post(request: Request, by: By): Expected {
    const expected = super.post(request, by);
    for (const { changes } of this.log) changes.length = 0;
    return expected;
  }
}

const has = (program: string) => spawnSync(program, ['--version']).error === undefined;
/** An answer without what no two runs share. */
const bare = (text: string) =>
  text.replace(
    /"(?:request_id|created|hash|previous_hash)": ?[^,}]*|[a-z_]+_[0-7][0-9a-hjkmnp-tv-z]{25}|\d{4}-\d\d-\d\dT[0-9:.]+Z|\s+/g,
    '',
  );

test('a wrong rule of balances in the model is found, shrunk to a few steps and printed as a script that shows it', async () => {
  const { failure } = await arena.drive({ seed: 5, enough: () => false, newBooks: () => new WrongWay(), shrinks: 200 });
  const { steps, script } = failure!;
  expect(steps.length).toBeLessThanOrEqual(8);
  const [, status = '', answer = ''] = /^# It answered (\w+) (.*)$/m.exec(script) ?? [];
  expect(script).toMatch(/^# Sequence of seed \d+\. The last call differs from the model: ./m);
  // Over gRPC the script prints grpcurl's words, which are others.
  if (!has('curl') || script.includes('\nmessage ')) return;
  const { cluster } = arena;
  const env = { PATH: process.env['PATH'], API: cluster.url, LEDGER: cluster.addresses.ledger[0], INTERNAL: cluster.internalToken };
  const shell = spawnSync('bash', ['-u'], { input: script, env, encoding: 'utf8' });
  expect([shell.status, shell.stderr]).toEqual([0, '']);
  expect(shell.stdout.trimEnd().split('\n').at(-1)).toBe(status);
  // A long answer is told up to a point.
  expect(bare(shell.stdout)).toContain(bare(answer.replace(/,[^,]*$/, '')));
}, 180_000);

test('deliveries that the model does not expect are found', async () => {
  const { failure } = await arena.drive({ seed: 5, enough: () => false, newBooks: () => new Forgetful(), shrinks: 0 });
  expect(failure?.why).toMatch(/^a delivery that nothing asked for: .*balance\.updated/);
}, 180_000);
