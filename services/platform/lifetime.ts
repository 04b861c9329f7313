// Runs a process: starts its parts in order, stops them in reverse, and sets the exit status.
import { BadSetting } from './settings.ts';

/** The parts that were started; stopped last first. */
export class Lifetime {
  private readonly stops: { name: string; stop: () => Promise<unknown> | void }[] = [];
  private ending: Promise<void> | undefined;
  /** While true a signal ends the process with status 1: a command that was interrupted has not done its work. */
  hasUnfinishedWork = false;

  /** Registers how to stop a part that was just started. */
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

const stopTimeoutSeconds = 25;

/**
 * Runs a process: `start` opens everything and returns. SIGTERM and SIGINT stop it with status 0, also during the start, or with 1 while work is
 * unfinished or where stopping takes longer than 25 s. A failed start prints one line on standard error and exits with 1.
 */
export async function run(start: (lifetime: Lifetime) => Promise<void>): Promise<void> {
  const lifetime = new Lifetime();
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => {
      process.stderr.write(`did not stop within ${stopTimeoutSeconds} s\n`);
      process.exit(1);
    }, stopTimeoutSeconds * 1000).unref();
    void lifetime.end().then(() => process.exit(lifetime.hasUnfinishedWork ? 1 : 0));
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  try {
    await start(lifetime);
  } catch (error) {
    // A stop during the start makes it fail.
    if (lifetime.isEnding) return;
    await lifetime.end();
    const isKnown = error instanceof BadSetting || error instanceof StartFailure;
    process.stderr.write(`${isKnown ? error.message : ((error as Error).stack ?? String(error))}\n`);
    process.exit(1);
  }
}

/** A start that failed for a reason the operator can fix; its message is the one line that is printed. */
export class StartFailure extends Error {}

/** The message of an error. An AggregateError, as of a name with several addresses, has none of its own: that of its first error. */
export function errorMessage(error: unknown): string {
  const first = error instanceof AggregateError ? (error.errors[0] as Error) : (error as Error);
  return first.message;
}

/** Where a process listens, and which variable sets the port. */
export interface ListenAddress {
  variable: 'PORT' | 'OPS_PORT';
  host: string;
  port: number;
}

/** A running server. */
export interface RunningServer {
  port: number;
  /** Stops accepting, waits a while for requests in flight, then closes. */
  close: () => Promise<void>;
}

/** Waits until a server listens. Throws {@link StartFailure}, which names the variable to change. */
export async function listening({ variable, host, port }: ListenAddress, listen: Promise<unknown>): Promise<void> {
  try {
    await listen;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') throw new StartFailure(`${variable} can't be ${port}: ${host}:${port} is in use`);
    if (code === 'EACCES') throw new StartFailure(`${variable} can't be ${port}: this user may not listen there`);
    throw new StartFailure(`HOST can't be ${host}: this machine can't listen there (${code ?? message})`);
  }
}
