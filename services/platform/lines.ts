// The lines of a log on their way to a file descriptor. Written here and not by pino's own `destination`: where that can't write, on a full disk,
// it ends the process, and then tries for ever to write what is left, so that the process neither answers nor ends.
import { write, writeSync } from 'node:fs';

const pieceBytes = 4096;
const everyMs = 1_000;
const againMs = 100;

// Bytes of one write, as many as a pipe holds: behind a slow reader a longer one holds up an exit until all of it is taken, and what is then
// written beside it goes into the midst of its lines.
const mostAtOnce = 64 << 10;

// Characters that wait at most, ten seconds of a busy ledger: what comes beyond, while nothing can be written, is lost.
const mostWaiting = 16 << 20;

/** Writes lines at 4 KiB, every second and when the process exits. What can't be written is tried again, and keeps nobody from going on. */
export class Lines {
  private readonly fd: number;
  private waiting = '';
  /** What was begun and is not written. */
  private begun = Buffer.alloc(0);
  private isWriting = false;
  private again: NodeJS.Timeout | undefined;

  /** `fd`: where they go; it stays open. */
  constructor(fd: number) {
    this.fd = fd;
    setInterval(() => this.flush(), everyMs).unref();
    process.once('exit', () => this.end());
  }

  /** Takes a line with its end. */
  write(line: string): void {
    if (this.waiting.length > mostWaiting) return;
    this.waiting += line;
    if (this.waiting.length >= pieceBytes) this.flush();
  }

  private flush(): void {
    if (this.isWriting || this.again || !this.begin()) return;
    this.isWriting = true;
    write(this.fd, this.piece(), (error, written) => {
      this.isWriting = false;
      if (error) {
        this.again = setTimeout(() => {
          this.again = undefined;
          this.flush();
        }, againMs).unref();
        return;
      }
      this.begun = this.begun.subarray(written);
      if (this.begun.length > 0 || this.waiting.length >= pieceBytes) this.flush();
    });
  }

  /** Whether there is anything to write. */
  private begin(): boolean {
    if (this.begun.length === 0) {
      this.begun = Buffer.from(this.waiting);
      this.waiting = '';
    }
    return this.begun.length > 0;
  }

  /** What is written next. */
  private piece(): Buffer {
    return this.begun.subarray(0, mostAtOnce);
  }

  // What is being written at this moment is left to the system.
  private end(): void {
    if (this.isWriting) this.begun = this.begun.subarray(mostAtOnce);
    const until = performance.now() + everyMs;
    while (this.begin() && performance.now() < until) {
      try {
        this.begun = this.begun.subarray(writeSync(this.fd, this.piece()));
      } catch (error) {
        // A pipe whose reader is slow.
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      }
    }
  }
}
