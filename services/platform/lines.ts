// The lines of a log on their way to a file descriptor. Written here and not by pino's own `destination`: where that can't write, on a full disk,
// it ends the process, and then tries for ever to write what is left, so that the process neither answers nor ends.
// Not by `write` of `node:fs` either: it runs in a thread that may not have begun at the exit, and lines would be lost or in another order.
import { fstatSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';

const pieceBytes = 4096;
const everyMs = 1_000;
// Until the reader of a full pipe is looked for again.
const againMs = 10;

// Characters that wait at most, ten seconds of a busy ledger: what comes beyond, while nothing can be written, is lost.
const mostWaiting = 16 << 20;

/** Writes lines at 4 KiB, every second and when the process exits. What can't be written is tried again, and keeps nobody from going on. */
export class Lines {
  /** Lines that were lost because too much waited. */
  lost = 0;
  private readonly fd: number;
  private waiting = '';
  /** What was begun and is not written. */
  private begun = Buffer.alloc(0);
  private again: NodeJS.Timeout | undefined;

  /**
   * `fd`: where they go; it stays open. A pipe does not wait for its reader from then on, whoever writes to it, so each process wants one of its own:
   * the first that ends would make it wait again. A file or a terminal is waited for.
   */
  constructor(fd: number) {
    this.fd = fd;
    const kind = fstatSync(fd);
    if (kind.isFIFO() || kind.isSocket()) neverWait(fd);
    setInterval(() => this.flush(), everyMs).unref();
    process.once('exit', () => this.end());
  }

  /** Takes a line with its end. */
  write(line: string): void {
    if (this.waiting.length > mostWaiting) {
      this.lost++;
      return;
    }
    this.waiting += line;
    if (this.waiting.length >= pieceBytes) this.flush();
  }

  private flush(): void {
    if (this.again) return;
    const problem = this.writeAll();
    if (problem === undefined) return;
    const retry = () => {
      this.again = undefined;
      this.flush();
    };
    this.again = setTimeout(retry, problem === 'EAGAIN' ? againMs : everyMs).unref();
  }

  /** Writes what there is, and answers the code of the error that ended it before all was written. */
  private writeAll(): string | undefined {
    try {
      while (this.begin()) this.begun = this.begun.subarray(writeSync(this.fd, this.begun));
      return undefined;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code ?? String(error);
    }
  }

  /** Whether there is anything to write. */
  private begin(): boolean {
    if (this.begun.length === 0) {
      this.begun = Buffer.from(this.waiting);
      this.waiting = '';
    }
    return this.begun.length > 0;
  }

  // A pipe whose reader is slow gets a second more.
  private end(): void {
    const until = performance.now() + everyMs;
    while (this.writeAll() === 'EAGAIN' && performance.now() < until) Atomics.wait(moment, 0, 0, againMs);
  }
}

const moment = new Int32Array(new SharedArrayBuffer(4));

/** Lets a write to a pipe or a socket answer EAGAIN where it would wait. */
function neverWait(fd: number): void {
  try {
    // libuv sets it. Nothing refers to the handle, and yet it is not collected.
    new Socket({ fd, readable: false });
  } catch {
    // A socket of datagrams, which loses what nobody takes.
  }
}
