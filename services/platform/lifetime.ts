// How a process lives: started in order, stopped in the opposite order, with an exit status that tells why.
import type { AddressInfo, Server } from 'node:net';
import { BadSetting } from './settings.ts';

/** What has been started so far; stopped last first. */
export class Lifetime {
  private readonly stops: { name: string; stop: () => Promise<unknown> | void }[] = [];
  private ending: Promise<void> | undefined;
  /** Whether a signal would leave work undone, as that of a command until its end: who asked for it is then told with status 1. */
  hasUnfinishedWork = false;

  /** Registers how to stop what was just started. */
  add(name: string, stop: () => Promise<unknown> | void): void {
    this.stops.push({ name, stop });
  }

  /** Whether {@link end} was called. */
  get isEnding(): boolean {
    return this.ending !== undefined;
  }

  /** Stops everything, last started first; one failure does not keep the rest from stopping. A second call waits for the same end. */
  end(): Promise<void> {
    return (this.ending ??= this.stopAll());
  }

  private async stopAll(): Promise<void> {
    for (let last = this.stops.pop(); last; last = this.stops.pop()) {
      try {
        await last.stop();
      } catch (error) {
        process.stderr.write(`stopping ${last.name}: ${(error as Error).message}\n`);
      }
    }
  }
}

const graceSeconds = 25;

/**
 * Runs a process: `start` opens everything and returns. SIGTERM and SIGINT stop it and exit with 0, also while it still waits for what it needs,
 * or with 1 where that leaves work undone. A failed start is one line on standard error and exit status 1. A stop that takes longer than 25 s is cut, with status 1.
 */
export async function run(start: (lifetime: Lifetime) => Promise<void>): Promise<void> {
  const lifetime = new Lifetime();
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => {
      process.stderr.write(`did not stop within ${graceSeconds} s\n`);
      process.exit(1);
    }, graceSeconds * 1000).unref();
    void lifetime.end().then(() => process.exit(lifetime.hasUnfinishedWork ? 1 : 0));
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  try {
    await start(lifetime);
  } catch (error) {
    // What is stopped under a start fails it.
    if (lifetime.isEnding) return;
    await lifetime.end();
    const known = error instanceof BadSetting || error instanceof StartFailure;
    process.stderr.write(`${known ? error.message : ((error as Error).stack ?? String(error))}\n`);
    process.exit(1);
  }
}

/** A start that fails for a reason the operator can mend; its message is the one line printed. */
export class StartFailure extends Error {}

/** What a failure says. A name with several addresses fails with one error for each and no message of its own. */
export function errorMessage(error: unknown): string {
  const first = error instanceof AggregateError ? (error.errors[0] as Error) : (error as Error);
  return first.message;
}

/** Where a process wants to listen, and which variable names the port. */
export interface ListenAddress {
  variable: 'PORT' | 'OPS_PORT';
  host: string;
  port: number;
}

/** A running server. */
export interface RunningServer {
  port: number;
  /** Answers what is under way, for a while at most, then closes. */
  close: () => Promise<void>;
}

/** Waits until a process listens. Throws {@link StartFailure}, which names the variable that asks for what can't be had. */
export async function listening({ variable, host, port }: ListenAddress, listen: Promise<unknown>): Promise<void> {
  try {
    await listen;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE')
      throw new StartFailure(
        `${variable} can't be ${port}: another program listens on ${host}:${port}, or a connection from there has just ended`,
      );
    if (code === 'EACCES') throw new StartFailure(`${variable} can't be ${port}: this user may not listen there`);
    if (code === 'EMFILE' || code === 'ENFILE')
      throw new StartFailure(`${variable}: no descriptor is left to listen with (${code}): ulimit -n is too small`);
    throw new StartFailure(`HOST can't be ${host}: this machine can't listen there (${code ?? message})`);
  }
}

/** How a server ends: `release` lets what idles go, and what is then left after so many milliseconds is `cut`. */
export interface Closing {
  release: () => void;
  forceClose: () => void;
  ms: number;
}

/** Has a server listen. Throws as {@link listening}. */
export async function runningServer(server: Server, place: ListenAddress, { release, forceClose, ms }: Closing): Promise<RunningServer> {
  const { host, port } = place;
  await listening(place, new Promise<void>((done, fail) => server.once('error', fail).listen(port, host, done)));
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise<void>((done) => server.close(() => done()));
      release();
      const timer = setTimeout(forceClose, ms);
      await closed;
      clearTimeout(timer);
    },
  };
}
