// Who waits for a turn: callers in turn, so that one who asks for a thousand keeps nobody else waiting for more than one of them.

/** Those that wait, by caller. */
export class Turns {
  private readonly callers = new Map<string, ((mine: boolean) => void)[]>();
  private readonly most: number;
  private waiting = 0;

  /** `most`: turns waited for in all. */
  constructor(most: number) {
    this.most = most;
  }

  /** Turns waited for. */
  get size(): number {
    return this.waiting;
  }

  /**
   * Resolves when it is the caller's turn, false where there is no room for it. Where no more may wait, whoever would have most waiting gives up his
   * newest: the caller himself, or another.
   */
  wait(caller: string): Promise<boolean> {
    const own = this.callers.get(caller) ?? [];
    if (this.waiting >= this.most) {
      const largest = [...this.callers.values()].reduce((most, each) => (each.length > most.length ? each : most), own);
      if (largest.length <= own.length + 1) return Promise.resolve(false);
      this.waiting--;
      largest.pop()?.(false);
    }
    this.waiting++;
    this.callers.set(caller, own);
    return new Promise((turn) => own.push(turn));
  }

  /** Gives the next caller his oldest turn, and lets him stand behind the others; false where nobody waits. */
  next(): boolean {
    for (const [caller, own] of this.callers) {
      this.callers.delete(caller);
      const turn = own.shift();
      if (own.length > 0) this.callers.set(caller, own);
      this.waiting--;
      turn?.(true);
      return true;
    }
    return false;
  }
}
