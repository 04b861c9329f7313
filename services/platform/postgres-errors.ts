// Classes of PostgreSQL errors: transient, stale connection, lock timeout, bad data.

// 08 connection, 28 login, 53 resources, 57P shutdown, 58 disk or memory, 57014 statement timeout, 55P03 lock timeout, 25P03 and 25P04 idle or
// long in a transaction, 25006 read-only, 40001 and 40P01 retry. The rest are Node's, of this machine and of the way to the server.
const transientCodes =
  /^(08...|28...|53...|57P..|58...|57014|55P03|25P0[34]|25006|40001|40P01|ECONN[A-Z]+|ENOENT|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|E[MN]FILE|ENOBUFS|EADDRNOTAVAIL)$/;

// The driver's own errors have no code.
const transientMessages =
  /^(There was an error establishing an SSL connection|Connection terminated|Query read timeout|timeout expired|timeout exceeded when trying to connect|Client (has encountered a connection error|was closed))/i;

/** True for transient errors: connection loss, failed login, shutdown, timeout, read-only. Safe to retry. Looks through wrapped errors. */
export function isTransient(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    // A server that refuses or ends a connection calls it FATAL, whatever the code.
    if (/^(FATAL|PANIC)$/.test(String((each as { severity?: unknown }).severity))) return true;
    if (transientCodes.test(codeOf(each)) || transientMessages.test(each.message) || isTlsFailure(each)) return true;
    // Out of transaction ids. (54000 is also the code of a row that is too large.)
    if (codeOf(each) === '54000' && /^GetNew(TransactionId|MultiXactId)$/.test(String((each as { routine?: unknown }).routine)))
      return true;
    if (each instanceof AggregateError && each.errors.some(isTransient)) return true;
  }
  return false;
}

/** Whether PostgreSQL itself reported the error, so that the connection works. */
export function isServerError(error: unknown): boolean {
  return typeof (error as { severity?: unknown } | undefined)?.severity === 'string';
}

/** Whether a connection failed by TLS, for example for a certificate that has expired. */
export function isTlsFailure(error: Error): boolean {
  return isTlsErrorCode(codeOf(error)) || error.message.startsWith('The server does not support SSL');
}

/** Whether an error code is of TLS, as Node and OpenSSL name it. A code of five characters is PostgreSQL's. */
export function isTlsErrorCode(code: string): boolean {
  return /^(?!.{5}$)(ERR_TLS|ERR_SSL|EPROTO|CERT|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|HOSTNAME|INVALID_CA|INVALID_PURPOSE|CRL|ERROR_IN_C|PATH_LENGTH|UNSPECIFIED)/.test(
    code,
  );
}

/** Whether a statement gave up waiting for a lock of another transaction. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === '55P03';
}

/**
 * Whether the cause lasts as long as the connection: a statement prepared before a migration (0A000, 26000), or a session that is read-only (25006).
 * The connection must be closed, and another one may work.
 */
export function isStaleConnection(error: unknown): boolean {
  return /^(0A000|26000|25006)$/.test(codeOf(error));
}

// A pool may be full of connections that were prepared before the migration.
const maxStaleRetries = 100;

/**
 * Runs work that takes a connection and closes it on an error; runs it again on another where a prepared statement was stale, which has changed
 * nothing. Throws every other error, and this one after 100 retries.
 */
export async function retryStaleConnection<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let retries = 0; ; retries++) {
    try {
      return await work();
    } catch (error) {
      if (retries === maxStaleRetries || !/^(0A000|26000)$/.test(codeOf(error))) throw error;
    }
  }
}

/**
 * Whether the same work would fail again: a bug, or an error of PostgreSQL that comes neither from the state of the database ({@link isTransient}),
 * nor from stale statements (0A, 26), nor from an earlier failure in the transaction (25).
 */
export function isPermanent(error: unknown): boolean {
  return !isTransient(error) && !/^(0A|25|26)/.test(codeOf(error));
}

/** Whether PostgreSQL rejects the data, so that a part of the work may succeed. A missing right or table (42, 3F) is no part's fault. */
export function isDataError(error: unknown): boolean {
  return isServerError(error) && isPermanent(error) && !/^(42|3F)/.test(codeOf(error));
}

/** Runs a batch; on a data error splits it in halves until the bad item is alone, and passes that to `reject`. Throws every other error. */
export async function bisect<Item>(
  items: readonly Item[],
  run: (part: readonly Item[]) => Promise<void>,
  reject: (item: Item, cause: unknown) => unknown,
): Promise<void> {
  try {
    await run(items);
  } catch (error) {
    if (!isDataError(error)) throw error;
    if (items.length > 1) for (const half of splitInHalf(items)) await bisect(half, run, reject);
    else for (const item of items) await reject(item, error);
  }
}

/** The two halves of a batch; the first is the larger one. */
export function splitInHalf<Item>(items: readonly Item[]): [Item[], Item[]] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)];
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : '';
}
