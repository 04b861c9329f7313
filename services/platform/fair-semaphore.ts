// Work for many (tenants, or addresses of strangers) that needs what they share: so much of it at once, for one no more than his part, and those who
// wait take turns.

/** How much is done at once, and may wait. */
export interface FairSemaphoreOptions {
  /** In all; without a bound unless given. */
  most?: number | undefined;
  /** For one of them. */
  ofOne: number;
  /** What may wait in all, 4,000 unless given. */
  waiting?: number | undefined;
  /** Of one of them; half of all unless given. */
  waitingOfOne?: number | undefined;
  /** Milliseconds that one waits at most; as long as his caller unless given. */
  patienceMs?: number | undefined;
}

/** Thrown where too many wait, or somebody has waited too long: nothing was begun. */
export class Overloaded extends Error {}

interface Waiting {
  begin: () => void;
  refuse: (why: Error) => void;
}

/** What is one's. */
interface Share {
  name: string;
  begun: number;
  waiting: Waiting[];
}

/** Whose turn it is. What finds room begins at once, without a wait. */
export class FairSemaphore {
  private readonly most: number;
  private readonly ofOne: number;
  private readonly mostWaiting: number;
  private readonly mostOfOne: number;
  private readonly patienceMs: number | undefined;
  private readonly shares = new Map<string, Share>();
  /** Those who wait though they have not their part; the next one first. Empty where there is room. */
  private readonly line = new Set<Share>();
  private begun = 0;
  private waiting = 0;

  constructor({ most = Infinity, ofOne, waiting = 4_000, waitingOfOne = waiting / 2, patienceMs }: FairSemaphoreOptions) {
    this.most = most;
    this.ofOne = ofOne;
    this.mostWaiting = waiting;
    this.mostOfOne = waitingOfOne;
    this.patienceMs = patienceMs;
  }

  /** What waits. */
  get size(): number {
    return this.waiting;
  }

  /**
   * Does one's work in his turn; answers or throws what the work does. `signal`, if given, tells that the caller is gone: then it is not begun,
   * and the signal's reason is thrown. Throws {@link Overloaded}.
   */
  async run<Result>(name: string, signal: AbortSignal | undefined, work: () => Promise<Result>): Promise<Result> {
    await this.begin(name, signal);
    try {
      return await work();
    } finally {
      this.end(name);
    }
  }

  /**
   * Begins one's work, which is to be ended once: at once where nothing is answered, else when the promise is kept. Throws or rejects as
   * {@link run}; then there is nothing to end.
   */
  begin(name: string, signal: AbortSignal | undefined): Promise<void> | undefined {
    signal?.throwIfAborted();
    const known = this.shares.get(name);
    const share = known ?? { name, begun: 0, waiting: [] };
    const waits = this.begun >= this.most || share.begun >= this.ofOne;
    if (waits) this.makeRoom(share);
    if (!known) this.shares.set(name, share);
    if (waits) return this.wait(share, signal);
    share.begun++;
    this.begun++;
    return undefined;
  }

  /** Ends one's work that was begun. */
  end(name: string): void {
    const share = this.shares.get(name);
    if (!share || share.begun === 0) throw new Error('what ends was not begun');
    share.begun--;
    this.begun--;
    this.stand(share);
    for (const next of this.line) {
      if (this.begun >= this.most) return;
      // To the end of the line, where he waits for more.
      this.line.delete(next);
      next.begun++;
      this.begun++;
      const first = next.waiting[0] as Waiting;
      this.remove(next, first);
      first.begin();
    }
  }

  private wait(share: Share, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((begin, refuse) => {
      const settled = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', gone);
      };
      const waiting: Waiting = {
        begin: () => {
          settled();
          begin();
        },
        refuse: (why) => {
          settled();
          this.remove(share, waiting);
          refuse(why);
        },
      };
      const gone = () => waiting.refuse(signal?.reason as Error);
      const tooLong = () => waiting.refuse(new Overloaded('too many calls are waiting, and this one has waited too long'));
      const timer = this.patienceMs === undefined ? undefined : setTimeout(tooLong, this.patienceMs);
      signal?.addEventListener('abort', gone, { once: true });
      share.waiting.push(waiting);
      this.waiting++;
      this.stand(share);
    });
  }

  /** Throws where one has all his places; where all are taken, the newest of who has most is refused, unless the newcomer would then have more. */
  private makeRoom(share: Share): void {
    const tooMany = 'too many calls are waiting';
    if (share.waiting.length >= this.mostOfOne) throw new Overloaded(tooMany);
    if (this.waiting < this.mostWaiting) return;
    const largest = [...this.shares.values()].reduce((most, each) => (each.waiting.length > most.waiting.length ? each : most), share);
    if (largest.waiting.length <= share.waiting.length + 1) throw new Overloaded(tooMany);
    largest.waiting.at(-1)?.refuse(new Overloaded(tooMany));
  }

  private remove(share: Share, waiting: Waiting): void {
    share.waiting.splice(share.waiting.indexOf(waiting), 1);
    this.waiting--;
    this.stand(share);
  }

  // In the line while he waits and has not his part; forgotten when he has nothing here.
  private stand(share: Share): void {
    if (share.waiting.length === 0) {
      this.line.delete(share);
      if (share.begun === 0) this.shares.delete(share.name);
    } else if (share.begun < this.ofOne) this.line.add(share);
  }
}
