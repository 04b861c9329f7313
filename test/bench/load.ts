// Load over REST: wrk where it is on the PATH, else autocannon in this process.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import autocannon from 'autocannon';
import { percentile } from './figures.ts';
import { bodyOf, currency, transfer, wallet } from './posting.ts';
import type { TenantGroup } from './tenants.ts';

/** One window of load. */
export interface Window {
  /** What each request is; `page`: the newest transactions, `history`: the newest entries of a balance, `past`: a balance as of `asOf`. */
  kind: 'posting' | 'balance' | 'page' | 'history' | 'past';
  group: TenantGroup;
  /** Every request concerns the merchant's account. */
  hot: boolean;
  connections: number;
  seconds: number;
  /** Six characters, unique to the window, with which idempotency keys begin. */
  series: string;
  /** RFC 3339. */
  asOf?: string;
}

/** The result of a window. */
export interface Loaded {
  /** Answers of any status. */
  requests: number;
  perSecond: number;
  /** Milliseconds. */
  p50: number;
  p99: number;
  /** Answers other than 2xx, and requests without an answer. */
  failures: number;
  /** At most so many were in flight when the window ended. */
  cutOff: number;
}

const wrkVersion = /^wrk \S+/.exec(spawnSync('wrk', ['-v'], { encoding: 'utf8' }).stdout || '')?.[0];
const running = new Set<ChildProcess>();

/** The tool and its version. */
export const loadTool = wrkVersion ?? `autocannon ${autocannonVersion()} (wrk is not installed; this takes more of the machine)`;

function autocannonVersion(): string {
  return (createRequire(import.meta.url)('autocannon/package.json') as { version: string }).version;
}

/** Runs one window. */
export function load(url: string, window: Window): Promise<Loaded> {
  return wrkVersion === undefined ? withAutocannon(url, window) : withWrk(url, window);
}

/** Kills running load tools. */
export function endLoad(): void {
  for (const child of running) child.kill('SIGKILL');
}

interface WrkResult {
  requests: number;
  sent: number;
  microseconds: number;
  p50: number;
  p99: number;
  refused: number;
  broken: number;
}

async function withWrk(url: string, { kind, group, hot, connections, seconds, series, asOf = '' }: Window): Promise<Loaded> {
  const threads = Math.min(2, connections);
  const script = join(import.meta.dirname, 'wrk.lua');
  const args = [`-t${threads}`, `-c${connections}`, `-d${seconds}s`, '--timeout', '15s', '-s', script, url, '--'];
  const child = spawn('wrk', [...args, kind, group.file, String(group.accounts), series, hot ? 'hot' : 'spread', asOf]);
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve());
  });
  running.delete(child);
  const line = /^RESULT (.*)$/m.exec(output)?.[1];
  if (line === undefined) throw new Error(`wrk failed: ${output}`);
  const result = JSON.parse(line) as WrkResult;
  return {
    requests: result.requests,
    perSecond: result.requests / (result.microseconds / 1e6),
    p50: result.p50 / 1000,
    p99: result.p99 / 1000,
    failures: result.refused + result.broken,
    // wrk prepares one request that it does not send.
    cutOff: Math.min(connections, Math.max(0, result.sent - result.requests)),
  };
}

async function withAutocannon(url: string, { kind, group, hot, connections, seconds, series, asOf = '' }: Window): Promise<Loaded> {
  let counter = 0;
  const latencies: number[] = [];
  let failures = 0;
  const options: autocannon.Options = {
    url,
    connections,
    duration: seconds,
    timeout: 15,
    requests: [
      {
        setupRequest: (request) => {
          const { slug, key } = group.tenants[Math.floor(Math.random() * group.tenants.length)]!;
          const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
          if (kind !== 'posting') {
            const path = readPath(kind, slug, wallet(hot ? 0 : transfer(group.accounts).from), asOf);
            return { ...request, method: 'GET', path, headers };
          }
          const body = bodyOf(series, ++counter, group.accounts, hot);
          return { ...request, method: 'POST', path: `/v1/tenants/${slug}/transactions/double-entry`, headers, body };
        },
      },
    ],
  };
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const instance = autocannon(options, (error: Error | null, answer) => (error ? reject(error) : resolve(answer)));
    instance.on('response', (_client, status, _bytes, milliseconds) => {
      latencies.push(milliseconds);
      if (status < 200 || status > 299) failures++;
    });
  });
  const requests = latencies.length;
  return {
    requests,
    perSecond: requests / result.duration,
    p50: percentile(latencies, 50),
    p99: percentile(latencies, 99),
    failures: failures + result.errors,
    cutOff: kind === 'posting' ? Math.min(connections, counter - requests) : 0,
  };
}

function readPath(kind: Exclude<Window['kind'], 'posting'>, slug: string, account: string, asOf: string): string {
  if (kind === 'page') return `/v1/tenants/${slug}/transactions`;
  const bound = kind === 'past' ? `&as_of=${asOf}` : '';
  return `/v1/tenants/${slug}/accounts/code/${account}/balance${kind === 'history' ? '/history' : ''}?currency=${currency}${bound}`;
}
