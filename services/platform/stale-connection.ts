// What lasts as long as a connection and may be outdated before it ends: what was prepared on it, and what its server is.

/** So often work is begun again. Each time one connection is closed, and whatever it is given next may be as old: a pool may be full of 100. */
const mostRepetitions = 100;

/**
 * Whether what a statement was refused for lasts as long as its connection: it was prepared before a migration changed what it answers, or is not
 * prepared any more; or the server, or what it had to say when the connection was made, allows only reading.
 */
export function isStaleConnection(error: unknown): boolean {
  return wasPrepared(error) || codeOf(error) === '25006';
}

/**
 * Runs work that takes a connection, closes it where a statement is refused for what was prepared on it, and has changed nothing then: so it is
 * run again, on another. Without that whoever met such a connection after a migration of running services was told of an internal error. Throws
 * what else `work` throws, and such a refusal when it does not end with the connection.
 */
export async function retryStaleConnection<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let left = mostRepetitions; ; left--) {
    try {
      return await work();
    } catch (error) {
      if (left === 0 || !wasPrepared(error)) throw error;
    }
  }
}

function wasPrepared(error: unknown): boolean {
  return /^(0A000|26000)$/.test(codeOf(error));
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown }).code);
}
