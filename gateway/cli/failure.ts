// What ends a command: its message and its exit code.
import { LedgerError } from '../clients/typescript/ledger.ts';

/** Exit codes, as the reference page lists them. */
export const exitCodes = { done: 0, refused: 1, usage: 2, credential: 3, notFound: 4, unavailable: 5 } as const;

/** Ends the command with a message for a person and a code for a script. */
export class Failure extends Error {
  readonly exitCode: number;
  /** The next step, on a line of its own. */
  readonly hint: string | undefined;

  constructor(kind: keyof typeof exitCodes, message: string, hint?: string) {
    super(message);
    this.exitCode = exitCodes[kind];
    this.hint = hint;
  }
}

/** What is printed of an error, line by line. Throws one that is no answer to the user: a fault of this program. */
export function report(error: unknown): { lines: string[]; exitCode: number } {
  if (error instanceof Failure)
    return { lines: [error.message, ...(error.hint === undefined ? [] : [error.hint])], exitCode: error.exitCode };
  if (!(error instanceof LedgerError)) throw error;
  const { message, code, requestId, errors = [], status, idempotencyKey } = error;
  const lines = [`${message} (${code}${requestId === undefined ? '' : `, request ${requestId}`})`];
  for (const { field, message: wrong } of errors) lines.push(wrong.includes(field) ? `  ${wrong}` : `  ${field}: ${wrong}`);
  if (error.isOutcomeUnknown && idempotencyKey !== undefined) lines.push(...unknownOutcome(idempotencyKey));
  if (code === 'no_credential' || status === 401) lines.push('Run: ledger login');
  return { lines, exitCode: code === 'no_credential' ? exitCodes.credential : exitCodeOf(status) };
}

/** What is printed where a posting may have been done. */
export function unknownOutcome(key: string): string[] {
  return ['It may have been done. Run the same again with this key: it is done once.', `  --key ${key}`];
}

/** The exit code of an HTTP status that is an error; 0 is no answer. */
function exitCodeOf(status: number): number {
  if (status === 401 || status === 403) return exitCodes.credential;
  if (status === 404) return exitCodes.notFound;
  return status === 0 || status === 429 || status >= 500 ? exitCodes.unavailable : exitCodes.refused;
}
