// The replicas of a service: a connection to each, by its address; which of them is asked next, and which are known to be away.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Channel, Question } from './channel.ts';
import { hostAndPort } from './settings.ts';

/** One of them. */
export interface Replica {
  /** `ip:port`. */
  address: string;
  channel: Channel;
  /** Calls in flight. */
  calls: number;
  avoidedUntil: number;
}

/** So long a replica that has let a call time out is asked only where there is no other. */
const avoidedMs = 10_000;
/** A shorter deadline says nothing about who did not meet it, milliseconds. */
const telling = 1_000;
/** How often names are looked up again: replicas come and go. */
const lookUpMs = 5_000;

/** All addresses of a host. */
export type Resolve = (host: string) => Promise<{ address: string; family: number }[]>;

/** All of them. */
export class Replicas {
  private readonly open: (address: string) => Channel;
  private readonly fixed: string[];
  /** What was found for each name; what can't be looked up any more stays as it was. */
  private readonly found = new Map<string, string[]>();
  private readonly known = new Map<string, Replica>();
  private readonly timer: NodeJS.Timeout | undefined;
  private readonly resolve: Resolve;
  private readonly lookingUp = new Set<string>();
  private turn = 0;
  /** Resolves when names have been looked up once. */
  readonly lookedUp: Promise<void>;

  /** `addresses`: `host:port`, a name once for all its addresses; `open` connects to an `ip:port`; `everyMs`: how often names are looked up. */
  constructor(
    addresses: string[],
    open: (address: string) => Channel,
    resolve: Resolve = (host) => lookup(host, { all: true }),
    everyMs = lookUpMs,
  ) {
    this.open = open;
    this.resolve = resolve;
    this.fixed = addresses.filter((address) => isIP(hostAndPort(address).host) !== 0);
    for (const name of addresses) if (!this.fixed.includes(name)) this.found.set(name, []);
    this.update();
    this.lookedUp = this.found.size > 0 ? this.lookUp() : Promise.resolve();
    if (this.found.size > 0) this.timer = setInterval(() => void this.lookUp(), everyMs).unref();
  }

  /**
   * Of those not known to be away, the one with the fewest calls in flight, in turn where several have as few: so a stalled replica gets no
   * more than the few calls that it does not answer. One that has let a call time out comes after all others for a while: it has no call in
   * flight then, and would get the same call again (a posting was answered after three time-outs). Where all are away, the next in turn, so
   * that the caller learns why. Never the one that was asked before, `besides`. Undefined where no name has an address, or no other one.
   */
  next(besides?: Replica): Replica | undefined {
    const all = [...this.known.values()].filter((each) => each !== besides);
    this.turn = (this.turn + 1) % Math.max(1, all.length);
    const inTurn = [...all.slice(this.turn), ...all.slice(0, this.turn)];
    const [first] = inTurn;
    const now = performance.now();
    const load = ({ calls, avoidedUntil }: Replica) => calls + (avoidedUntil > now ? 1e6 : 0);
    const connected = inTurn.filter(({ channel }) => channel.isAvailable);
    return connected.reduce<Replica | undefined>((best, each) => (best && load(best) <= load(each) ? best : each), undefined) ?? first;
  }

  /** Those not known to be away, or to have let a call time out just now; where all are, all. */
  available(): Replica[] {
    const now = performance.now();
    const all = [...this.known.values()];
    const connected = all.filter(({ channel }) => channel.isAvailable);
    const prompt = connected.filter(({ avoidedUntil }) => avoidedUntil <= now);
    return [prompt, connected].find((each) => each.length > 0) ?? all;
  }

  /** Asks one of them, as {@link Channel.call} does, and remembers how it went. */
  async ask(replica: Replica, question: Question): Promise<Uint8Array> {
    replica.calls++;
    try {
      const answer = await replica.channel.call(question);
      replica.avoidedUntil = 0;
      return answer;
    } catch (error) {
      const late = error instanceof ConnectError && error.code === Code.DeadlineExceeded;
      if (late && question.patienceMs >= telling) replica.avoidedUntil = performance.now() + avoidedMs;
      throw error;
    } finally {
      replica.calls--;
    }
  }

  close(): void {
    clearInterval(this.timer);
    for (const { channel } of this.known.values()) channel.close();
  }

  // Of one name, one look-up at a time: with a slow resolver they would take each other's place, and an older one might end last.
  private async lookUp(): Promise<void> {
    const names = [...this.found.keys()].filter((name) => !this.lookingUp.has(name));
    await Promise.all(
      names.map(async (name) => {
        const { host, port } = hostAndPort(name);
        this.lookingUp.add(name);
        const addresses = await this.resolve(host).catch(() => []);
        this.lookingUp.delete(name);
        if (addresses.length === 0) return;
        this.found.set(
          name,
          addresses.map(({ address, family }) => (family === 6 ? `[${address}]:${port}` : `${address}:${port}`)),
        );
        this.update();
      }),
    );
  }

  // In the order of their addresses, which is the same in every process.
  private update(): void {
    const wanted = new Set([...this.fixed, ...[...this.found.values()].flat()].sort());
    for (const [address, { channel }] of this.known) {
      if (wanted.has(address)) continue;
      this.known.delete(address);
      // Its calls in flight are still answered.
      channel.close();
    }
    for (const address of wanted) {
      if (!this.known.has(address)) this.known.set(address, { address, channel: this.open(address), calls: 0, avoidedUntil: 0 });
    }
  }
}
