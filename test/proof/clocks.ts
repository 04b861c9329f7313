// Clocks that are wrong: each process of the cluster reads its own from a file, through libfaketime (https://github.com/wolfcw/libfaketime).
// The monotonic clock stays as it is, as it does when a real clock is set.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { writeAtomically } from '../../deploy/local/children.ts';
import type { Answer } from '../cluster.ts';
import { lastingMs, processes, type Fault, type Stage } from './stage.ts';

/** So far a clock is set, seconds: less and more than a token lives, and than receivers, brokers and log readers put up with. */
const distances = [30, 7_200];
/** A process reads its file again when that was more than a second ago, counted in whole seconds; milliseconds. */
const noticedMs = 3_000;
/** Lifetime of an access token, seconds. */
const tokenSeconds = 3_600;
/** How far what the database's clock says may be from this process's, which is the same, when it is read: a busy machine's, milliseconds. */
const toleranceMs = 10_000;
/** A key that has ended is dead everywhere within so many seconds; the rest is for a busy machine. */
const deadSeconds = 5 + 5;

/** Where the library is, or undefined where it is missing: beside the program `faketime`, or where distributions put it. */
function libraryFile(): string | undefined {
  const prefixes = (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, 'faketime'))
    .filter((program) => existsSync(program))
    .map((program) => dirname(dirname(realpathSync(program))));
  const libraries = [...prefixes, '/usr', '/usr/local'].map((prefix) => join(prefix, 'lib')).filter((each) => existsSync(each));
  return libraries
    .flatMap((library) => [library, ...readdirSync(library).map((each) => join(library, each))])
    .map((directory) => join(directory, 'faketime', 'libfaketimeMT.so.1'))
    .find((file) => existsSync(file));
}

let problem: string | undefined;

/** Why clocks can't be set here, or null where they can. */
export function clockProblem(): string | null {
  problem ??= findProblem();
  return problem === '' ? null : problem;
}

function findProblem(): string {
  const library = libraryFile();
  if (library === undefined) return 'libfaketime is missing (.ci/tools fetches it)';
  const script = 'process.exit(Date.now() > 7e12 ? 0 : 1)';
  const env = { LD_PRELOAD: library, FAKETIME: '+200y', DONT_FAKE_MONOTONIC: '1' };
  return spawnSync(process.execPath, ['-e', script], { env }).status === 0 ? '' : 'libfaketime does not move the clock of Node here';
}

/** The clocks of a cluster. */
export class Clocks {
  private readonly directory: string;

  /** Keeps the clocks in a directory, which is made. */
  constructor(directory: string) {
    this.directory = directory;
    mkdirSync(directory, { recursive: true });
    for (const name of processes) this.set(name, 0);
  }

  /** What each process has to be told, so that its clock can be set. */
  get environment(): Record<string, NodeJS.ProcessEnv> {
    const all = { LD_PRELOAD: libraryFile(), DONT_FAKE_MONOTONIC: '1', FAKETIME_CACHE_DURATION: '1' };
    return Object.fromEntries(processes.map((name) => [name, { ...all, FAKETIME_TIMESTAMP_FILE: this.fileOf(name) }]));
  }

  /** Sets a process's clock so many seconds ahead of what it is, or, where that is negative, back; it notices within {@link noticedMs}. */
  set(name: string, seconds: number): void {
    writeAtomically(this.fileOf(name), `${seconds < 0 ? '' : '+'}${seconds}\n`);
  }

  private fileOf(name: string): string {
    return join(this.directory, name);
  }
}

/** A clock of each process, set ahead and back. */
export const clockFaults: Fault[] = processes.flatMap((name) => [setClock(name, 1), setClock(name, -1)]);

function setClock(name: string, direction: 1 | -1): Fault {
  return {
    name: `set clock of ${name} ${direction === 1 ? 'ahead' : 'back'}`,
    target: `clock of ${name}`,
    run: async (stage, chance) => {
      const seconds = direction * chance.shuffled(distances)[0]!;
      const lasting = lastingMs(stage, chance);
      stage.clocks?.set(name, seconds);
      try {
        await pause(noticedMs);
        const [found] = await Promise.all([usersSee(stage, name === 'gateway' ? seconds : 0), pause(lasting)]);
        return { wrong: found.map((each) => `clock of ${name} by ${seconds} s: ${each}`) };
      } finally {
        stage.clocks?.set(name, 0);
      }
    },
  };
}

/**
 * What a user sees that he may not: of tokens, and of keys and their ends. Only the gateway's own clock is seen at all: it judges whether a
 * token has expired.
 */
async function usersSee({ cluster, customers }: Stage, gatewaySeconds: number): Promise<string[]> {
  const wrong: string[] = [];
  const { tenant } = customers[0]!;
  const { email, password } = tenant.owner;
  // Other faults may be there at once: a 503 says to ask again.
  const ask = async (method: string, path: string, key?: string, body?: unknown): Promise<Answer> => {
    for (const ending = performance.now() + 60_000; ; await pause(200)) {
      const signal = AbortSignal.timeout(12_000);
      const answer = await cluster
        .rest(method, path, { signal, ...(key && { key }), ...(body !== undefined && { body }) })
        .catch(() => null);
      if (answer && (answer.status < 500 || answer.status === 500)) return answer;
      if (performance.now() > ending) throw new Error(`${method} ${path} is not answered within a minute`);
    }
  };
  const expect = (what: string, { status, body }: Answer, wanted: number) => {
    if (status !== wanted) wrong.push(`${what} was answered ${status} ${JSON.stringify(body)}`);
    return status === wanted;
  };
  const login = await ask('POST', '/v1/auth/login', undefined, { email, password });
  if (!expect('a login', login, 200)) return wrong;
  const { token, expires_at } = login.body.data;
  const wait = Math.abs(Date.parse(expires_at) - Date.now() - tokenSeconds * 1000);
  if (wait > toleranceMs) wrong.push(`a token that is new ends at ${expires_at}`);
  const isOver = gatewaySeconds >= tokenSeconds;
  expect('a new token', await ask('GET', '/v1/user', token), isOver ? 401 : 200);
  if (isOver) return wrong;
  const keys = `/v1/tenants/${tenant.id}/api-keys`;
  const made = await ask('POST', keys, token, {
    name: 'of a wrong clock',
    scopes: ['balances:read'],
    expires_at: new Date(Date.now() + 600_000).toISOString(),
  });
  if (!expect('a new key', made, 201)) return wrong;
  const { id, key, created_at } = made.body.data.api_key;
  if (Math.abs(Date.parse(created_at) - Date.now()) > toleranceMs) wrong.push(`a key that is new was made at ${created_at}`);
  const balance = `/v1/tenants/${tenant.slug}/accounts/code/SETTLEMENT-NGN/balance`;
  expect('a balance to a new key', await ask('GET', balance, key), 200);
  const rotated = await ask('POST', `${keys}/${id}/rotate`, token, { overlap_seconds: 0 });
  // 404: it had been rotated when the answer was lost.
  if (rotated.status !== 404 && !expect('a rotation', rotated, 201)) return wrong;
  const since = performance.now();
  let last: Answer;
  do last = await ask('GET', balance, key);
  while (last.status === 200 && performance.now() - since < deadSeconds * 1000 && (await pause(200, true)));
  expect(`a key rotated ${deadSeconds} s ago`, last, 401);
  return wrong;
}
