// `npm run check`: all static checks, two at a time. Prints one line per check, and its output where it fails.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { root } from '../deploy/local/plan.ts';

type Outcome = { passed: boolean; output: string } | { skipped: string };

const officialProtos = ['--exclude-path', 'proto/grpc', '--exclude-path', 'proto/google'];

const checks: Record<string, () => Promise<Outcome>> = {
  types: () => typed('types'),
  'format (prettier)': () => command('prettier', '--check', '.'),
  'lint (buf)': () => command('buf', 'lint'),
  'format (buf)': () => command('buf', 'format', '--diff', '--exit-code', ...officialProtos),
  'nothing breaking against the commit before (buf)': breaking,
  'generated code is fresh': generatedIsFresh,
  // Last: it comes with the types, so a worker only waits for it.
  lint: () => typed('lint'),
};

let both: Promise<Outcome> | undefined;

async function typed(part: 'types' | 'lint'): Promise<Outcome> {
  both ??= command('node', 'test/lint.ts');
  const outcome = await both;
  if (!isPassed(outcome)) return outcome;
  // Node's own warnings can come first.
  const line = outcome.output.split('\n').find((each) => each.startsWith('{"types":')) ?? '{}';
  const output = (JSON.parse(line) as Partial<Record<typeof part, string>>)[part];
  return { passed: output === '', output: output ?? outcome.output };
}

/** Against the commit before the last one's work: HEAD where files are not committed yet, else its parent. */
async function breaking(): Promise<Outcome> {
  const changed = await command('git', 'status', '--porcelain', '--', 'proto');
  if (!isPassed(changed)) return { skipped: 'this is no git repository' };
  const before = changed.output.trim() === '' ? 'HEAD~1' : 'HEAD';
  const contracts = await command('git', 'cat-file', '-e', `${before}:buf.yaml`);
  if (!isPassed(contracts)) return { skipped: `there is no ${before} with contracts` };
  return command('buf', 'breaking', '--against', `.git#ref=${before}`);
}

async function generatedIsFresh(): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), 'ledger-generated-'));
  try {
    const client = 'gateway/clients/typescript/gen';
    const dashboards = 'deploy/monitoring/dashboards';
    for (const [name, ...args] of [
      ['buf', 'generate', '--output', directory],
      ['node', 'gateway/clients/generate.ts', join(directory, client)],
      ['node', 'gateway/cli/generate.ts', directory],
      ['node', 'deploy/monitoring/generate.ts', join(directory, dashboards)],
    ] as const) {
      const generated = await command(name, ...args);
      if (!isPassed(generated)) return generated;
    }
    const stale = ['proto/gen', client, dashboards].flatMap((of) => {
      const [fresh, kept] = [contents(join(directory, of)), contents(join(root, of))];
      const files = new Set([...fresh.keys(), ...kept.keys()]);
      return [...files].filter((file) => fresh.get(file) !== kept.get(file)).map((file) => `${of}/${file} is stale: npm run generate\n`);
    });
    for (const file of ['gateway/cli/operations.ts', 'gateway/docs/reference/command-line.md']) {
      if (readFileSync(join(directory, file), 'utf8') !== readFileSync(join(root, file), 'utf8'))
        stale.push(`${file} is stale: npm run generate\n`);
    }
    return { passed: stale.length === 0, output: stale.join('') };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function contents(directory: string): Map<string, string> {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name));
  return new Map(paths.map((path) => [path.slice(directory.length + 1), readFileSync(path, 'utf8')]));
}

function isPassed(outcome: Outcome): outcome is { passed: true; output: string } {
  return 'passed' in outcome && outcome.passed;
}

function command(name: string, ...args: string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    const path = [join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter);
    const child = spawn(name, args, { cwd: root, env: { ...process.env, PATH: path }, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.once('error', (error) => resolve({ passed: false, output: `${error.message}\n` }));
    child.once('close', (code) => resolve({ passed: code === 0, output }));
  });
}

const counts = { passed: 0, failed: 0, skipped: 0 };
const waiting = Object.entries(checks);

async function work(): Promise<void> {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const [name, check] = next;
    const outcome = await check();
    if ('skipped' in outcome) {
      counts.skipped += 1;
      process.stdout.write(`skipped  ${name}: ${outcome.skipped}\n`);
    } else if (outcome.passed) {
      counts.passed += 1;
      process.stdout.write(`passed   ${name}\n`);
    } else {
      counts.failed += 1;
      process.stdout.write(`FAILED   ${name}\n${outcome.output}`);
    }
  }
}

await Promise.all([work(), work()]);
process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
process.exit(counts.failed === 0 ? 0 : 1);
