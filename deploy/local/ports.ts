// Finds out whether a port can be listened on.
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { StartFailure } from '../../services/platform/lifetime.ts';

/** Tries to listen; the error's code (`EADDRINUSE`, `EACCES` …) or undefined if it can. */
export function portProblem(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

/** As {@link portProblem}, but waits up to 2 s for a program that is just ending. */
export async function lastingPortProblem(host: string, port: number): Promise<string | undefined> {
  for (const until = Date.now() + 2_000; ; await pause(50)) {
    const problem = await portProblem(host, port);
    if (problem !== 'EADDRINUSE' || Date.now() > until) return problem;
  }
}

const given = new Set<number>();
const kept = new Set<number>();

/** Keeps a port for who will listen there: {@link freePort} gives it to nobody. */
export function keepPort(port: number): void {
  kept.add(port);
}

/** Whether the port can be had of 127.0.0.1, and is for nobody else. */
export async function isFree(port: number): Promise<boolean> {
  return !kept.has(port) && (await portProblem('127.0.0.1', port)) === undefined;
}

/**
 * A free port of 127.0.0.1 below the range from which the system takes ports of outgoing connections (32768 and up on Linux): nobody takes it
 * while its process is restarted. `share` of `shares` parts the range between processes that look for ports at the same time. Throws
 * {@link StartFailure} where none is free, or this machine can't listen there, as one that has IPv6 alone.
 */
export async function freePort(share = 0, shares = 1): Promise<number> {
  const [first, width] = [20_000, Math.floor(12_000 / shares)];
  const begin = Math.floor(Math.random() * width);
  let problem: string | undefined;
  for (let step = 0; step < width; step++) {
    const port = first + share * width + ((begin + step) % width);
    if (given.has(port) || kept.has(port)) continue;
    given.add(port);
    problem = await portProblem('127.0.0.1', port);
    if (problem === undefined) return port;
    if (problem !== 'EADDRINUSE' && problem !== 'EACCES') break;
  }
  throw new StartFailure(`no port of 127.0.0.1 can be listened on (${problem ?? 'all are taken'})`);
}
