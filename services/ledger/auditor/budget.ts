// A share of one core: work is done one piece at a time, with rests between.
import { setTimeout as pause } from 'node:timers/promises';

/** Shares it among callers, each of whose pieces waits for its turn. */
export class Budget {
  private readonly restFactor: number;
  private readonly signal: AbortSignal;
  private turn: Promise<unknown> = Promise.resolve();
  private owedMs = 0;

  /** After a piece it rests so many times as long as that took. An aborted signal ends rests. */
  constructor(restFactor: number, signal: AbortSignal) {
    this.restFactor = restFactor;
    this.signal = signal;
  }

  /** Does a piece of work; answers how many milliseconds that took. `rest` false: the rest is owed, and comes after a later piece. */
  run(work: () => Promise<unknown>, rest = true): Promise<number> {
    const piece = this.turn.then(async () => {
      const started = performance.now();
      try {
        await work();
      } finally {
        this.owedMs += this.restFactor * (performance.now() - started);
      }
      return performance.now() - started;
    });
    this.turn = piece.catch(() => undefined).then(() => (rest ? this.rest() : undefined));
    return piece;
  }

  private async rest(): Promise<void> {
    const restMs = this.owedMs;
    this.owedMs = 0;
    await pause(restMs, undefined, { signal: this.signal }).catch(() => undefined);
  }
}
