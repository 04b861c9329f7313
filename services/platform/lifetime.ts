// How a process lives: started in order, stopped in the opposite order, with an exit status that tells why.
import { BadSetting } from './settings.ts';

/** What has been started so far; stopped last first. */
export class Lifetime {
  private readonly stops: { name: string; stop: () => Promise<unknown> | void }[] = [];

  /** Registers how to stop what was just started. */
  add(name: string, stop: () => Promise<unknown> | void): void {
    this.stops.push({ name, stop });
  }

  /** Stops everything, last started first; one failure does not keep the rest from stopping. */
  async end(): Promise<void> {
    for (const { name, stop } of this.stops.reverse()) {
      try {
        await stop();
      } catch (error) {
        process.stderr.write(`stopping ${name}: ${(error as Error).message}\n`);
      }
    }
    this.stops.length = 0;
  }
}

/**
 * Runs a process: `start` opens everything and returns. SIGTERM and SIGINT stop it and exit with 0; a failed start is one line on
 * standard error and exit status 1. A stop that takes longer than `graceSeconds` is cut, with status 1.
 */
export async function run(start: (lifetime: Lifetime) => Promise<void>, graceSeconds = 25): Promise<void> {
  const lifetime = new Lifetime();
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => {
      process.stderr.write(`did not stop within ${graceSeconds} s\n`);
      process.exit(1);
    }, graceSeconds * 1000).unref();
    void lifetime.end().then(() => process.exit(0));
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  try {
    await start(lifetime);
  } catch (error) {
    await lifetime.end();
    const known = error instanceof BadSetting || error instanceof StartFailure || (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    process.stderr.write(`${known ? (error as Error).message : ((error as Error).stack ?? String(error))}\n`);
    process.exit(1);
  }
}

/** A start that fails for a reason the operator can mend; its message is the one line printed. */
export class StartFailure extends Error {}
