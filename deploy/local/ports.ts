// Finds free ports and explains why one can't be used.
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { StartFailure } from '../../services/platform/lifetime.ts';

/** The code of the error when listening on a port (`EADDRINUSE`, `EACCES` …), undefined if it is free. Waits up to `waitMs` for it to become free. */
export async function portProblem(host: string, port: number, waitMs = 0): Promise<string | undefined> {
  for (const until = Date.now() + waitMs; ; await pause(50)) {
    const problem = await new Promise<string | undefined>((resolve) => {
      const server = createServer();
      server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
    });
    if (problem !== 'EADDRINUSE' || Date.now() >= until) return problem;
  }
}

const given = new Set<number>();

/**
 * A free port of 127.0.0.1 from 20000 to 31999, below those of outgoing connections, so that it stays free while its process restarts. `share` of
 * `shares` splits the range between processes. Throws {@link StartFailure} where none is free.
 */
export async function freePort(share = 0, shares = 1): Promise<number> {
  const width = Math.floor(12_000 / shares);
  const start = Math.floor(Math.random() * width);
  let problem: string | undefined = 'all are in use';
  for (let step = 0; step < width; step++) {
    const port = 20_000 + share * width + ((start + step) % width);
    if (given.has(port)) continue;
    given.add(port);
    problem = await portProblem('127.0.0.1', port);
    if (problem === undefined) return port;
    if (problem !== 'EADDRINUSE' && problem !== 'EACCES') break;
  }
  throw new StartFailure(`no port of 127.0.0.1 can be listened on (${problem})`);
}
