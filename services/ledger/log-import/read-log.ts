// Reads an export of events as a log: every event in its place, from the first to the end, in memory that is bounded.
import { LineSplitter, type Line } from '../../platform/ndjson.ts';
import { Refusal } from '../accounting.ts';
import { genesisHash } from '../log.ts';
import { invalidLine, readLine, type ExportEnd, type ImportedEvent } from './lines.ts';

/** Opens the bytes of an export; it is read more than once. */
export type OpenExport = () => AsyncIterable<Buffer>;

const maxLineBytes = 1 << 20;
const [maxEvents, maxBytes] = [500, 1 << 20];

/** Events that follow each other, or the end. */
export type LogPart = ImportedEvent[] | ExportEnd;

/**
 * The events of an export in order, and then its end. Throws a {@link Refusal} that names the line where one is missing or of another log, and where the
 * end is missing or tells of another number or hash. Rules and hashes are left to the replay.
 */
export async function* readLog(bytes: AsyncIterable<Buffer>): AsyncGenerator<LogPart> {
  let last: ImportedEvent | undefined;
  let end: ExportEnd | undefined;
  let events: ImportedEvent[] = [];
  let size = 0;
  for await (const line of linesOf(bytes)) {
    if (end) throw invalidLine(line.number, 'nothing may follow the end of the export');
    const item = readLine(line);
    if ('count' in item) {
      end = checkedEnd(item, last);
      continue;
    }
    const expected = (last?.row.sequence ?? 0n) + 1n;
    const { sequence, tenant } = item.row;
    if (sequence !== expected) throw invalidLine(item.line, `its sequence is ${sequence}, where event ${expected} must follow`);
    if (tenant !== (last?.row.tenant ?? tenant)) throw invalidLine(item.line, 'it is of another tenant than the event before it');
    last = item;
    events.push(item);
    size += line.bytes?.length ?? 0;
    if (events.length < maxEvents && size < maxBytes) continue;
    yield events;
    [events, size] = [[], 0];
  }
  if (!end) throw new Refusal('import_invalid', 'the export was cut: its last line must be {"end": true, …}');
  if (events.length > 0) yield events;
  yield end;
}

function checkedEnd(end: ExportEnd, last: ImportedEvent | undefined): ExportEnd {
  const sequence = Number(last?.row.sequence ?? 0n);
  if (sequence === 0) throw invalidLine(end.line, 'the export has no events');
  if (end.count !== sequence || end.sequence !== sequence || end.hash !== (last?.row.hash ?? genesisHash).toString('hex'))
    throw invalidLine(end.line, `count, sequence and hash must be those of event ${sequence}, the last before it`);
  return end;
}

async function* linesOf(bytes: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  const splitter = new LineSplitter(maxLineBytes);
  for await (const piece of bytes) yield* splitter.split(piece);
  if (splitter.hasRest) yield* splitter.end();
}
