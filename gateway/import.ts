// Runs an import: chunk after chunk is decided in the order of the lines, and the report is written as fast as the client reads it.
import { ConnectError } from '@connectrpc/connect';
import type { Command, CommandResult } from '../proto/gen/ledger/v1/ledger_pb.js';
import { failed, outcomeOf, type Outcome } from './batch-items.ts';
import { ApiError, apiErrorOf } from './errors.ts';
import type { ChunkReader, ImportedLine } from './import-chunks.ts';

/** What an import needs. */
export interface ImportParts {
  reader: ChunkReader;
  submit: (commands: Command[]) => Promise<CommandResult[]>;
  /** Why the import has to end before its next chunk, if it has. */
  mustEnd: () => Promise<ApiError | undefined>;
  /** Ends it after the first line that fails. */
  stopOnError: boolean;
  /** Reports lines that were posted too. */
  all: boolean;
  dryRun: boolean;
}

/** What became of the first lines of a chunk. `end`: why there are no more. */
interface Decided {
  outcomes: Outcome[];
  end?: ApiError | undefined;
}

const progressLines = 1_000;

/**
 * Yields the report. A chunk is read while the one before is decided, and the next one is sent before the report of that one is written: so a
 * client that does not read stops the import after two chunks.
 */
export async function* runImport(parts: ImportParts): AsyncGenerator<string> {
  const { reader, stopOnError } = parts;
  const report = new Report(parts.all);
  const isLast = ({ item }: ImportedLine) => stopOnError && item.command instanceof ApiError;
  let sent: { lines: ImportedLine[]; decided: Promise<Decided> } | undefined;
  for (;;) {
    const lines = await reader.next(sent?.decided, isLast);
    const { outcomes, end } = (await sent?.decided) ?? { outcomes: [] };
    const hasFailed = stopOnError && outcomes.some(({ result }) => result instanceof ApiError);
    const isUnfinished = lines.length > 0 || reader.wasCut;
    const stop = end ?? (isUnfinished && !hasFailed ? await parts.mustEnd() : undefined);
    const goesOn = !hasFailed && !stop && (lines.length > 0 || !reader.hasEnded);
    const reported = sent?.lines.slice(0, outcomes.length) ?? [];
    sent = goesOn && lines.length > 0 ? { lines, decided: decide(lines, parts) } : undefined;
    const text = report.of(reported, outcomes);
    if (text !== '') yield text;
    if (!goesOn) {
      yield report.end(stop, hasFailed || stop ? undefined : reader.lines);
      return;
    }
  }
}

/** Submits the lines that could be read. Never rejects. */
async function decide(lines: ImportedLine[], parts: ImportParts): Promise<Decided> {
  const commands = lines.flatMap(({ item: { command } }) => (command instanceof ApiError ? [] : [command]));
  let results: CommandResult[] = [];
  try {
    if (commands.length > 0) results = await parts.submit(commands);
    // Other requests have their turn, however many lines are wrong.
    else await new Promise(setImmediate);
  } catch (error) {
    const end = (error instanceof ConnectError ? apiErrorOf(error, undefined) : null) ?? new ApiError('internal');
    if (end.code !== 'validation_failed') return { outcomes: [], end };
    if (lines.length === 1) return { outcomes: [failed(end)] };
    // The answer to all of them might be too large for one message.
    const half = Math.ceil(lines.length / 2);
    const first = await decide(lines.slice(0, half), parts);
    if (first.end) return first;
    const second = await decide(lines.slice(half), parts);
    return { outcomes: [...first.outcomes, ...second.outcomes], end: second.end };
  }
  const next = results.values();
  const outcomes = lines.map(({ item }) => {
    if (item.command instanceof ApiError) return failed(item.command);
    const { value: result } = next.next();
    return result ? outcomeOf(item, result, parts.dryRun) : failed(new ApiError('internal'));
  });
  // What is in doubt is not reported: the client goes on from there.
  const doubtful = outcomes.find(({ status }) => status === 503);
  if (!doubtful) return { outcomes };
  return { outcomes: outcomes.slice(0, outcomes.indexOf(doubtful)), end: doubtful.result as ApiError };
}

/** The lines of an answer. */
class Report {
  private readonly all: boolean;
  private line = 0;
  private next = progressLines;
  private readonly sums = { posted: 0, replayed: 0, failed: 0 };

  constructor(all: boolean) {
    this.all = all;
  }

  /** What became of these lines. */
  of(lines: ImportedLine[], outcomes: Outcome[]): string {
    let text = '';
    outcomes.forEach((outcome, index) => {
      const { number } = lines[index] as ImportedLine;
      text += this.progressUpTo(number - 1);
      const isFailure = outcome.result instanceof ApiError;
      this.sums[isFailure ? 'failed' : outcome.replayed ? 'replayed' : 'posted']++;
      this.line = number;
      if (isFailure || this.all) text += lineJson(number, outcome);
      text += this.progressUpTo(number);
    });
    return text;
  }

  /** The last line. `stop`: why it ended early; `lines`: how many there were, if all were read. */
  end(stop: ApiError | undefined, lines = this.line): string {
    const early = stop ? { done: false, code: stop.code, error: stop.message } : { done: true };
    return `${this.progressUpTo(lines - 1)}${JSON.stringify({ line: lines, ...this.sums, ...early })}\n`;
  }

  private progressUpTo(line: number): string {
    let text = '';
    for (; this.next <= line; this.next += progressLines) text += `${JSON.stringify({ line: this.next, ...this.sums })}\n`;
    return text;
  }
}

function lineJson(line: number, { status, result }: Outcome): string {
  if (result instanceof ApiError) {
    const { code, message: error, details, errors } = result;
    return `${JSON.stringify({ line, status, code, error, details, errors })}\n`;
  }
  const { transaction, hold } = result;
  const id = transaction ? { transaction_id: transaction.transactionId || null } : { hold_id: hold?.holdId || null };
  return `${JSON.stringify({ line, status, ...id })}\n`;
}
