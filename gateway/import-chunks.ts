// Reads an import: lines become items as they arrive, in chunks that the ledger decides with one call.
import { ConnectError } from '@connectrpc/connect';
import { entriesOf, maxEntries, type Item } from './batch-items.ts';
import { ApiError, apiErrorOf } from './errors.ts';
import { LineSplitter, type Line } from '../services/platform/ndjson.ts';

/** A line as an item. */
export interface ImportedLine {
  number: number;
  item: Item;
}

const maxLineBytes = 1 << 20;
const [maxLines, maxBytes] = [250, 1 << 20];

/** Chunks of the lines of a stream. */
export class ChunkReader {
  private readonly pieces: AsyncIterator<Buffer>;
  private readonly read: (bytes: Buffer) => Promise<Item>;
  private readonly splitter = new LineSplitter(maxLineBytes);
  /** Lines that are in no chunk yet, from `position` on. */
  private waiting: Line[] = [];
  private position = 0;
  private piece: Promise<IteratorResult<Buffer>> | undefined;
  private readonly isCut: () => boolean;
  /** Whether the stream has ended. */
  hasEnded = false;

  /** `isCut`: whether the stream has ended before the last of its lines. */
  constructor(pieces: AsyncIterable<Buffer>, read: (bytes: Buffer) => Promise<Item>, isCut: () => boolean) {
    this.pieces = pieces[Symbol.asyncIterator]();
    this.read = read;
    this.isCut = isCut;
  }

  /** Whether the stream has ended before the last of its lines. */
  get wasCut(): boolean {
    return this.hasEnded && this.isCut();
  }

  /** Lines that have arrived, blank ones too. */
  get lines(): number {
    return this.splitter.count;
  }

  /**
   * The next lines, at most 250 of 2,000 entries. Once `busy` is settled it does not wait for more: an input that pauses makes a smaller chunk, or
   * an empty one. `isLast`: whether a line ends the chunk.
   */
  async next(busy: Promise<unknown> | undefined, isLast: (line: ImportedLine) => boolean): Promise<ImportedLine[]> {
    const chunk: ImportedLine[] = [];
    const size = { bytes: 0, entries: 0 };
    const isFree = (busy ?? new Promise(setImmediate)).then(() => true);
    for (;;) {
      for (let line = this.waiting[this.position]; line; line = this.waiting[this.position]) {
        const item = await itemOf(line, this.read);
        size.bytes += line.bytes?.length ?? 0;
        size.entries += item.command instanceof ApiError ? 0 : entriesOf(item.command);
        if (chunk.length > 0 && (chunk.length === maxLines || size.bytes > maxBytes || size.entries > maxEntries)) return chunk;
        this.position++;
        const last = { number: line.number, item };
        chunk.push(last);
        if (isLast(last)) return chunk;
      }
      if (this.hasEnded) return chunk;
      this.piece ??= this.pieces.next();
      const mayReturn = chunk.length > 0 || busy !== undefined;
      const hasPaused = mayReturn && (await Promise.race([this.piece.then(() => false), isFree]));
      if (hasPaused) return chunk;
      this.take(await this.piece);
    }
  }

  private take({ done, value }: IteratorResult<Buffer>): void {
    this.piece = undefined;
    this.position = 0;
    this.hasEnded = done === true;
    if (done !== true) this.waiting = this.splitter.split(value);
    else this.waiting = this.splitter.hasRest && !this.isCut() ? this.splitter.end() : [];
  }
}

async function itemOf({ bytes }: Line, read: (bytes: Buffer) => Promise<Item>): Promise<Item> {
  try {
    if (bytes) return await read(bytes);
    throw new ApiError('payload_too_large', { message: 'the line is larger than 1 MiB' });
  } catch (error) {
    // The time zone of its date may be unknown, because the ledger is away.
    const command = error instanceof ConnectError ? apiErrorOf(error, undefined) : error;
    if (command instanceof ApiError) return { op: undefined, id: undefined, body: undefined, command };
    throw error;
  }
}
