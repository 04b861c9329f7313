// Splits a stream of bytes into lines of NDJSON.

/** A line; lines count from 1, blank ones too. */
export interface Line {
  number: number;
  /** Without its end; null: longer than allowed. */
  bytes: Buffer | null;
}

const newline = 0x0a;
const maxBlank = 0x20;

/** Cuts pieces of a stream into lines of at most `maxBytes`, without those that are blank. */
export class LineSplitter {
  /** Lines that have ended so far, blank ones too. */
  count = 0;
  private readonly maxBytes: number;
  /** The beginning of a line whose end has not arrived; null: too long already. */
  private parts: Buffer[] | null = [];
  private bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** The lines that end in this piece. */
  split(piece: Buffer): Line[] {
    const lines: Line[] = [];
    let start = 0;
    for (let end = piece.indexOf(newline); end >= 0; end = piece.indexOf(newline, start)) {
      this.add(piece.subarray(start, end));
      lines.push(...this.end());
      start = end + 1;
    }
    this.add(piece.subarray(start));
    return lines;
  }

  /** The last line, where it has no end of its own. */
  end(): Line[] {
    const bytes = this.parts && Buffer.concat(this.parts);
    const hasStarted = this.bytes > 0;
    this.parts = [];
    this.bytes = 0;
    this.count++;
    return hasStarted && bytes?.every((byte) => byte <= maxBlank) !== true ? [{ number: this.count, bytes }] : [];
  }

  /** Whether the last line has no end of its own. */
  get hasRest(): boolean {
    return this.bytes > 0;
  }

  private add(part: Buffer): void {
    this.bytes += part.length;
    if (this.bytes > this.maxBytes) this.parts = null;
    else if (part.length > 0) this.parts?.push(part);
  }
}
