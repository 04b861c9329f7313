// What an error of PostgreSQL, or of the way to it, says of the work: whether it may be tried again, and whether a part of it may be taken.
import pg from 'pg';
import { isTlsErrorCode } from './tls.ts';

/**
 * Whether an error says that the database can't be reached or does not take the work just now (no connection, shutting down, too many
 * connections, a password that is no longer right, a time-out), rather than that something is wrong with the work. Looks through wrapped errors.
 */
export function isTransient(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    const code = (each as NodeJS.ErrnoException).code ?? '';
    // Who is refused a connection, or loses it: to a database that takes none, or is not there while it is moved.
    if (/^(FATAL|PANIC)$/.test(String((each as { severity?: unknown }).severity))) return true;
    // 08: connection; 28: another password, or a role that may not log in; 53: resources; 57P: shutdown; 58: its disk or memory; 57014: statement
    // time-out; 55P03: lock time-out; 25P03 and 25P04: idle in transaction, or long in one; 25006: read-only, as a standby is, or a server whose disk is full; 40001 and
    // 40P01: it may be tried again; ENOENT: a socket of this machine that is not there; EMFILE, ENFILE, ENOBUFS, EADDRNOTAVAIL: this machine has no
    // descriptors or ports left.
    if (
      /^(08...|28...|53...|57P..|58...|57014|55P03|25P0[34]|25006|40001|40P01|ECONN[A-Z]+|ENOENT|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|E[MN]FILE|ENOBUFS|EADDRNOTAVAIL)$/.test(
        code,
      )
    )
      return true;
    // Nobody's work is wrong. (54000 is also what a tuple says that is too large.)
    if (isTlsFailure(each)) return true;
    if (code === '54000' && /^GetNew(TransactionId|MultiXactId)$/.test(String((each as { routine?: unknown }).routine))) return true;
    // pg's own words carry no code.
    if (
      /^(There was an error establishing an SSL connection|Connection terminated|Query read timeout|timeout expired|timeout exceeded when trying to connect|Client (has encountered a connection error|was closed))/i.test(
        each.message,
      )
    )
      return true;
    if (each instanceof AggregateError && each.errors.some(isTransient)) return true;
  }
  return false;
}

/** Whether PostgreSQL itself has said an error, so that something was answered: what it says has a severity. */
export function isServerError(error: unknown): boolean {
  return typeof (error as { severity?: unknown }).severity === 'string';
}

/** By TLS: a certificate that has run out, say. The words are pg's own, and carry no code. */
export function isTlsFailure(error: Error): boolean {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return isTlsErrorCode(code) || message.startsWith('The server does not support SSL');
}

/** Whether work waited in vain for a row, or a table, that another transaction holds: what does not need that may go on. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && (error as { code?: unknown }).code === '55P03';
}

/**
 * Whether work that failed would only fail again, for something in it: a fault of this program, or whatever PostgreSQL refuses that does not come of
 * how the database is ({@link isTransient}), of what was prepared on the connection (0A000, 26000), or of what went wrong before in the transaction
 * (class 25). A trigger may raise any code, and a page that can't be read is of one tenant, mostly.
 */
export function isPermanent(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return !isTransient(error) && !(typeof code === 'string' && /^(0A|25|26)/.test(code));
}

/**
 * Whether PostgreSQL refuses work for something in it, see {@link isPermanent}, so that a part of it may be taken. A right that is missing, a table or a
 * column (classes 42 and 3F) are everybody's: told apart by halving, each would be found to blame.
 */
export function isDataError(error: unknown): boolean {
  return error instanceof pg.DatabaseError && isPermanent(error) && !/^(42|3F)/.test(error.code ?? '');
}

/**
 * Takes work, and where PostgreSQL refuses a part of it, by halves: whoever is to blame is left, and the others are taken. Throws what is not of
 * the work, see {@link isDataError}.
 */
export async function bisect<Part>(
  work: readonly Part[],
  take: (part: readonly Part[]) => Promise<void>,
  leave: (one: Part, why: unknown) => unknown,
): Promise<void> {
  try {
    await take(work);
  } catch (error) {
    if (!isDataError(error)) throw error;
    if (work.length > 1) for (const half of splitInHalf(work)) await bisect(half, take, leave);
    else for (const one of work) await leave(one, error);
  }
}

/** The halves of work of which a part is refused: whoever is to blame is found by trying them. */
export function splitInHalf<Part>(work: readonly Part[]): [Part[], Part[]] {
  const middle = Math.ceil(work.length / 2);
  return [work.slice(0, middle), work.slice(middle)];
}
