// `npm run mutants [-- file…]`: changes the pure files, one place at a time, and counts the changes that the tests beside them notice.
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../../deploy/local/plan.ts';
import { pureFiles } from './files.ts';

/** What became of one change, in Stryker's words. */
interface Mutant {
  fileName: string;
  status: 'Killed' | 'Timeout' | 'Survived' | 'NoCoverage' | 'Ignored' | 'RuntimeError' | 'CompileError' | 'Pending';
}

type Stryker = new (options: object) => { runMutationTest(): Promise<Mutant[]> };

/** Of all changes together, and of those of any one file, so many hundredths must be noticed. */
const leastOfAll = 90;
const leastOfOne = 80;

async function loadStryker(): Promise<Stryker> {
  const directory = execFileSync(join(root, '.ci/stryker'), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
  const entry = createRequire(join(directory, 'package.json')).resolve('@stryker-mutator/core');
  return ((await import(pathToFileURL(entry).href)) as { Stryker: Stryker }).Stryker;
}

/** The tests of `derive.ts` are those of `derive.test.ts` and of every `derive-….test.ts` beside it. */
const testsOf = (file: string) => file.replace(/\.ts$/, '?(-*).test.ts');

/** What Stryker is told: one file, and jest as it is, but without the PostgreSQL that all other tests need. */
function options(file: string): object {
  return {
    mutate: [file],
    plugins: ['@stryker-mutator/jest-runner'],
    testRunner: 'jest',
    testRunnerNodeArgs: ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning'],
    jest: {
      projectType: 'custom',
      // Put over jest.config.js; what is undefined would get lost on the way to Stryker's processes.
      config: {
        globalSetup: null,
        globalTeardown: null,
        // Jest looks through its roots for each change.
        roots: [`<rootDir>/${dirname(file)}`],
        testMatch: [`<rootDir>/${testsOf(file)}`],
        // Loading it takes longer than most tests.
        setupFiles: globSync(join(root, testsOf(file))).some((each) => readFileSync(each, 'utf8').includes("'fast-check'"))
          ? ['<rootDir>/test/mutants/properties.ts']
          : [],
      },
      enableFindRelatedTests: false,
    },
    coverageAnalysis: 'perTest',
    concurrency: 2,
    tempDirName: '.data-mutants',
    // Without the compiler's settings it does not ask for a compiler to read them with: types are only taken away.
    ignorePatterns: ['.git', '.data*', 'coverage', 'tsconfig.json'],
    reporters: ['clear-text'],
    clearTextReporter: { allowColor: false, logTests: false, reportTests: false, reportScoreTable: false },
    logLevel: 'warn',
    allowConsoleColors: false,
    warnings: false,
  };
}

interface Count {
  noticed: number;
  of: number;
}

/** Changes that were noticed, of those that could be run. A test that no longer ends has noticed, too. */
function counted(mutants: Mutant[]): Count {
  const noticed = mutants.filter(({ status }) => status === 'Killed' || status === 'Timeout').length;
  return { noticed, of: noticed + mutants.filter(({ status }) => status === 'Survived' || status === 'NoCoverage').length };
}

const share = ({ noticed, of }: Count) => (of === 0 ? 100 : (noticed / of) * 100);
const row = (name: string, count: Count) => `| ${name} | ${count.noticed} | ${count.of} | ${share(count).toFixed(1)} |\n`;

async function main(asked: string[]): Promise<boolean> {
  const files = asked.length > 0 ? asked.map((file) => relative(root, file)) : [...pureFiles];
  const missing = files.find((file) => !existsSync(join(root, file)));
  if (missing !== undefined) {
    process.stderr.write(`there is no file ${missing}\n`);
    return false;
  }
  const Stryker = await loadStryker();
  const counts: [file: string, count: Count][] = [];
  for (const file of files) {
    const count = counted(await new Stryker(options(file)).runMutationTest());
    process.stdout.write(row(file, count));
    counts.push([file, count]);
  }
  const all = counts.reduce((sum, [, count]) => ({ noticed: sum.noticed + count.noticed, of: sum.of + count.of }), { noticed: 0, of: 0 });
  process.stdout.write('\n| File | noticed | of | % |\n|---|---|---|---|\n');
  for (const [file, count] of counts) process.stdout.write(row(`\`${file}\``, count));
  process.stdout.write(row('all', all));
  return share(all) >= leastOfAll && counts.every(([, count]) => share(count) >= leastOfOne);
}

main(process.argv.slice(2)).then(
  (held) => process.exit(held ? 0 : 1),
  (error: unknown) => {
    process.stderr.write(`${(error as Error).stack ?? String(error)}\n`);
    process.exit(2);
  },
);
