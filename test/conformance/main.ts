// `npm run conformance -- --adapter NAME|PATH --url URL`: accounting checks of any running ledger: one key, one effect; no money from nowhere.
import { randomInt } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import type { AdapterModule } from './adapter.ts';
import { checkLedger, checks, table, type Finding } from './check-ledger.ts';
import { Http } from './http.ts';
import type { Check } from './check-run.ts';

const adapters: Record<string, () => Promise<AdapterModule>> = { ours: () => import('./ours.ts') };

const usage = `npm run conformance -- --adapter ${Object.keys(adapters).join('|')}|PATH --url URL [--seed N] [--check NAME]...
  --adapter PATH  a module that exports open as adapter.ts describes it
  --seed N        repeats the choices of an earlier run; default: a new seed, which is printed
  --check NAME    only this check; may be given several times
Exits with 0 if nothing is broken, 1 if something is, 2 if the ledger could not be checked.
Checks:
${checks.map(({ name, holds }) => `  ${name}: ${holds}`).join('\n')}`;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

interface Task {
  load: () => Promise<AdapterModule>;
  url: string;
  seed: number;
  only: Check[];
}

function readTask(): Task {
  const options = {
    adapter: { type: 'string' },
    url: { type: 'string' },
    seed: { type: 'string' },
    check: { type: 'string', multiple: true },
  } as const;
  const { adapter, url, seed: given, check: wanted } = parseArgs({ options }).values;
  if (adapter === undefined || url === undefined) throw new Error('name an adapter and a URL');
  if (!URL.canParse(url)) throw new Error(`${url} is no URL`);
  const seed = given === undefined ? randomInt(2 ** 31) : Number(given);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed must be a whole number');
  const unknown = wanted?.filter((name) => !checks.some((each) => each.name === name)) ?? [];
  if (unknown.length > 0) throw new Error(`there is no check ${unknown.join(', ')}`);
  return {
    load: adapters[adapter] ?? (() => import(pathToFileURL(resolve(adapter)).href) as Promise<AdapterModule>),
    url: url.replace(/\/+$/, ''),
    seed,
    only: checks.filter(({ name }) => wanted?.includes(name) ?? true),
  };
}

async function main({ load, url, seed, only }: Task): Promise<boolean> {
  const { open } = await load();
  const http = new Http();
  try {
    say(`seed ${seed}`);
    const ledger = await open({ url, http });
    const findings = await checkLedger(ledger, { seed, only, takeScript: () => http.takeScript() });
    say(table(ledger, findings));
    return keep(
      findings.filter(({ outcome }) => outcome === 'broken'),
      seed,
    );
  } finally {
    http.close();
  }
}

/** Writes the requests of broken checks to files; returns whether there are none. */
function keep(broken: Finding[], seed: number): boolean {
  if (broken.length === 0) return true;
  const directory = mkdtempSync(join(tmpdir(), 'conformance-'));
  for (const { check, seen, script } of broken) {
    const file = join(directory, `${check.name.replaceAll(' ', '-')}.sh`);
    const head = [`${check.name}: ${check.holds}`, ...seen.slice(0, 20)].map((line) => `# ${line.replaceAll(/\s+/g, ' ')}\n`).join('');
    writeFileSync(file, script.replace('\n', `\n${head}`), { mode: 0o700 });
    say(`${check.name}: requests and answers are in ${file}; repeat with --seed ${seed} --check '${check.name}'`);
  }
  return false;
}

let task: Task | undefined;
try {
  task = readTask();
  process.exitCode = (await main(task)) ? 0 : 1;
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${task ? '' : `\n${usage}\n`}`);
  process.exitCode = 2;
}
