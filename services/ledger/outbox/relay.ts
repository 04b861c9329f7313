// The relay: takes what lies beyond each tenant's mark to Kafka or the notifier, then raises the mark. At least once, and the first time in the
// tenant's order, also over several replicas: every claim begins at the mark and reads on without a gap.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import { openGauges } from '../../platform/gauges.ts';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../../platform/ids.ts';
import type { Pool } from '../../platform/postgres.ts';
import { splitInHalf, isTransient, isDataError } from '../../platform/postgres-errors.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { claim, claimEnds, claimsOf, lag, leaseSeconds, findUnpublished, renew, settle, type Claimed } from './relay-claims.ts';
import { SinkUnavailable, EventsDeferred, toldApart, type DeadLetter, type EventSink, type UnpublishedRange } from './event-sink.ts';
import { countDeadLetters, lineOf, publishDueDeadLetters } from './dead-letters.ts';
import { Subscriptions } from './subscriptions.ts';
import { publishClaims, type Publication } from './publication.ts';
import { Rounds } from './relay-scheduler.ts';

/** What a relay needs. */
export interface RelayOptions {
  /** Connections with `app.relay` on, which lets them look for work across tenants. */
  pool: Pool;
  /** Null: events are kept until there is one. */
  sink: EventSink | null;
  /** Between looks for what others have left, milliseconds. */
  pollMs?: number;
  /** How long the other side may leave something unanswered before it counts as away, milliseconds. */
  waitingMs?: number;
  logger: Logger;
  metrics: Registry;
}

/** A round: events and bytes of payload, shared by its tenants. */
const bounds = { events: 512, bytes: 512 * 1024 };

/** How far a round came. */
interface Settlement {
  claimId: string;
  /** Of `performance.now()`: about then its claims run out. */
  ends: number;
  marks: Raised[];
  refused: DeadLetter[];
}

/** A mark to raise, with which its claim is given back. */
interface Raised {
  tenant: string;
  sequence: bigint;
  /** Events. */
  published: number;
  passed: number;
}

/** What a round claimed, and what came of it. */
interface Handed {
  claims: Claimed[];
  publication: Publication;
  /** Of tenants without a webhook, as far as is known. */
  stretches: UnpublishedRange[];
  /** Tenants of them who have one after all: nothing of theirs was passed over. */
  wanted: Set<string>;
  /** Claims of which more may lie behind. */
  cut: Set<Claimed>;
}

/** Relays the events of all tenants. */
export class Relay {
  private readonly options: RelayOptions;
  private readonly listeners: Subscriptions;
  private readonly rounds: Rounds;
  private readonly loops: Promise<void>[] = [];
  private readonly closed = new AbortController();
  private pausedUntil = 0;
  /** Events of the last round. */
  private carried = 0;
  private failures = 0;
  /** Whether the last round, or the last look for leftovers, failed for the ledger's own database. */
  private isBlind = false;
  /** What could not be written down, at most one of each lane: those tenants are claimed until it is, or until the claim runs out. */
  private readonly unsettled: Settlement[] = [];
  private answeredAt = -Infinity;
  /** What the other side was asked and has not answered yet, with when that was. */
  private readonly asking = new Set<{ at: number }>();
  private readonly published: Counter;
  private readonly passed: Counter;
  private readonly refusals: Counter;
  private readonly failed: Counter;

  constructor(options: RelayOptions) {
    this.options = options;
    this.listeners = new Subscriptions(options.sink?.pass !== undefined);
    this.rounds = new Rounds((tenant) => this.listeners.noneFor(tenant));
    const registers = [options.metrics];
    this.published = new Counter({
      name: 'ledger_relay_published_total',
      help: 'Events published, repetitions included, and without those that the other side derives',
      registers,
    });
    this.passed = new Counter({ name: 'ledger_relay_passed_total', help: 'Events of tenants without a webhook, passed over', registers });
    this.refusals = new Counter({ name: 'ledger_relay_refused_total', help: 'Events that became dead letters', registers });
    this.failed = new Counter({ name: 'ledger_relay_failures_total', help: 'Rounds that failed', registers });
    const letters = openGauges(options.metrics, () => countDeadLetters(options.pool));
    letters('ledger_relay_dead_letters', 'Dead letters not published since: alert on any', (each) => each);
    const gauge = openGauges(options.metrics, () => lag(options.pool));
    gauge('ledger_relay_lag_events', 'Events of the logs that are not published', (each) => each.events);
    gauge('ledger_relay_lag_seconds', 'Age of the oldest event that is not published', (each) => each.seconds);
    if (!options.sink) return;
    const exit = toldApart(options.sink);
    // Two rounds at a time: while one waits for the other side, the next one reads.
    this.loops.push(this.lane(exit), this.lane(exit), this.poll(exit), this.letters(exit));
  }

  /** Says that a tenant's log (UUID) has grown. To be called after the commit. */
  wake(tenant: string): void {
    if (this.options.sink) this.rounds.wake(tenant);
  }

  /** What readiness says: the other side's name and `ok`, or `away`; and of the `relay` itself, where its own tables keep it. */
  state(): Record<string, string> {
    const { sink } = this.options;
    if (!sink) return { relay: 'idle: neither KAFKA_BROKERS nor NOTIFIER_ADDR is set' };
    const isWell = this.answeredAt > -Infinity && (this.failures === 0 || this.isBlind) && !this.isKeptWaiting;
    return { [sink.name]: isWell ? 'ok' : 'away', ...(this.isBlind && { relay: 'waits for postgresql' }) };
  }

  // A Kafka that throttles us answers whoever asks anew, and takes nothing for minutes.
  private get isKeptWaiting(): boolean {
    const since = performance.now() - (this.options.waitingMs ?? 15_000);
    return [...this.asking].some(({ at }) => at < since);
  }

  /** What the other side answers; while it does not, that is known. */
  private async answerOf<Answer>(ask: Promise<Answer>): Promise<Answer> {
    const asked = { at: performance.now() };
    this.asking.add(asked);
    return ask.finally(() => this.asking.delete(asked));
  }

  /** Publishes what is known to wait, then stops, both for five seconds at most; what is left is found by others, or after the next start. */
  async close(): Promise<void> {
    this.rounds.end();
    const until = performance.now() + 5_000;
    while (this.rounds.isBusy && this.failures === 0 && performance.now() < until) await pause(20);
    this.closed.abort();
    this.rounds.close();
    const ended = Promise.all(this.loops).then(() => this.options.sink?.close());
    // A send that is not answered is left behind: its claims run out, and who takes them sends again.
    await Promise.race([ended, pause(5_000, undefined, { ref: false })]);
  }

  private async lane(exit: EventSink): Promise<void> {
    while (!this.closed.signal.aborted) {
      const pauseMs = Math.max(this.pausedUntil, this.rounds.from) - performance.now();
      const tenants = pauseMs > 0 ? [] : this.rounds.take(this.carried);
      if (pauseMs > 0) await this.pause(pauseMs);
      else if (tenants.length === 0) await this.rounds.idle();
      else {
        await this.round(exit, tenants);
        this.rounds.done(tenants);
      }
    }
  }

  /** Claims, reads, publishes or passes over, raises. Whatever fails on the way leaves the marks where they were. */
  private async round(exit: EventSink, tenants: string[]): Promise<void> {
    try {
      await this.settleRest();
    } catch (error) {
      this.tell(error, tenants);
      return;
    }
    const began = performance.now();
    const claimId = randomUUID();
    let handed: Handed | undefined;
    let failure: unknown;
    try {
      handed = await this.handOver(exit, claimId, tenants);
    } catch (error) {
      failure = error;
    }
    // They were renewed until now.
    const ends = performance.now() + leaseSeconds * 1000;
    const marks = handed ? raisedBy(handed) : givenBack(tenants);
    let unsettled: ReadonlyMap<string, unknown> = new Map();
    try {
      unsettled = await this.settle({ claimId, ends, marks, refused: handed?.publication.refused ?? [] });
    } catch (error) {
      failure ??= error;
    }
    if (!handed || failure !== undefined) {
      if (isDataError(failure)) await this.apart(exit, tenants, failure);
      else this.tell(failure, tenants);
      return;
    }
    this.conclude(tenants, handed, unsettled);
    const events = marks.reduce((sum, each) => sum + each.published, 0);
    const line = { tenants: handed.claims.length, events, ms: Math.round(performance.now() - began) };
    if (events > 0) this.options.logger.info(line, 'events published');
  }

  /** Claims what lies beyond the tenants' marks, and has it published or passed over. */
  private async handOver(exit: EventSink, claimId: string, tenants: string[]): Promise<Handed> {
    const { pool, logger } = this.options;
    const { heard, unheard } = this.listeners.split(tenants);
    // At most so much of each tenant; who has more takes another turn.
    const share = { events: Math.ceil(bounds.events / heard.length), bytes: Math.ceil(bounds.bytes / heard.length) };
    // The other side may take its time; whoever stalls, or is killed, lets go.
    const held = setInterval(() => {
      renew(pool, claimId, tenants).catch((error: unknown) => logger.debug({ err: error }, 'claims could not be renewed'));
    }, leaseSeconds * 300);
    try {
      const rows = heard.length > 0 ? await claim(pool, heard, claimId, share.events, share.bytes) : [];
      const claims = claimsOf(rows, exit.derives === true);
      const full = claims.filter((each) => each.read > 0);
      // Before anything is published: what is refused here is asked for again, and would be published again.
      const stretches = unheard.length > 0 ? await claimEnds(pool, unheard, claimId) : [];
      const publication = await this.answerOf(publishClaims(exit, full));
      const grown = stretches.filter(({ mark, through }) => through > mark);
      const wanted = exit.pass && grown.length > 0 ? await this.answerOf(exit.pass(grown)) : new Set<string>();
      const asked = full.length > 0 || grown.length > 0;
      // A round that found nothing to hand over, for another replica holds it, has not asked the other side anything yet.
      if (!asked && this.failures > 0) await exit.probe();
      if (asked || this.failures > 0) this.answered();
      const cut = full.filter((each) => each.read >= share.events || each.bytes > share.bytes);
      return { claims, publication, stretches, wanted, cut: new Set(cut) };
    } finally {
      clearInterval(held);
    }
  }

  /** What is next for each tenant of a round that came to its end, but for those that were put off as it was written down. */
  private conclude(
    tenants: string[],
    { claims, publication, stretches, wanted, cut }: Handed,
    unsettled: ReadonlyMap<string, unknown>,
  ): void {
    this.carried = countOf(claims);
    let isTold = false;
    for (const each of claims) {
      const why = publication.postponed.get(each) ?? each.unreadable;
      if (unsettled.has(each.tenant)) continue;
      // They may be many, and kept nobody back.
      if (why instanceof EventsDeferred && why.tenants) {
        if (!isTold) this.options.logger.warn({ err: why, tenants: why.tenants.size }, 'events of tenants were not taken');
        isTold = true;
        this.rounds.putOff(each.tenant, { spared: true });
      } else if (why !== undefined) this.putOff(each.tenant, why);
      else {
        this.rounds.reached(each.tenant);
        if (cut.has(each)) this.rounds.repeat([each.tenant]);
      }
    }
    for (const { tenant, mark, through } of stretches) {
      if (unsettled.has(tenant)) continue;
      this.rounds.reached(tenant);
      // Of whom there was nothing to pass over was not asked.
      if (through > mark) this.listeners.learn(tenant, wanted.has(tenant));
      if (wanted.has(tenant)) this.rounds.repeat([tenant]);
    }
    const claimed = new Set([...claims, ...stretches].map((each) => each.tenant));
    for (const tenant of tenants) if (!claimed.has(tenant)) this.rounds.missed(tenant);
  }

  /** What PostgreSQL refuses is of one tenant, mostly, a page that can't be read: he is told apart by halving, and put off; the others go on. */
  private async apart(exit: EventSink, tenants: string[], error: unknown): Promise<void> {
    if (tenants.length > 1) for (const half of splitInHalf(tenants)) await this.round(exit, half);
    else for (const tenant of tenants) this.putOff(tenant, error);
    this.failed.inc();
  }

  private putOff(tenant: string, why: unknown): void {
    this.options.logger.warn({ err: why, tenant: toId('tenant', tenant) }, 'events of a tenant were not taken');
    this.rounds.putOff(tenant);
  }

  /**
   * Writes down how far a round came; what can't be is tried again before the next round. Answers the tenants of whom that is refused, who are put
   * off.
   */
  private async settle(settlement: Settlement): Promise<ReadonlyMap<string, unknown>> {
    const { claimId, marks, refused } = settlement;
    let unsettled: Map<string, unknown>;
    try {
      unsettled = await settle(this.options.pool, claimId, marks, refused);
    } catch (error) {
      // A mark that somebody holds would else keep all tenants waiting.
      if (isTransient(error) && performance.now() < settlement.ends) this.unsettled.push(settlement);
      throw error;
    }
    for (const [tenant, why] of unsettled) this.putOff(tenant, why);
    if (unsettled.size > 0) this.failed.inc();
    for (const { tenant, published, passed } of marks) {
      if (unsettled.has(tenant)) continue;
      this.published.inc(published);
      this.passed.inc(passed);
    }
    const letters = refused.filter(({ tenant }) => !unsettled.has(tenant));
    this.refusals.inc(letters.length);
    if (letters.length > 0) this.options.logger.error({ refused: letters.length, letters: letters.map(lineOf) }, 'events were refused');
    return unsettled;
  }

  /** Those tenants would else wait for the end of their claims each time the database was away, and what was published would be again. */
  private async settleRest(): Promise<void> {
    for (let next = this.unsettled.shift(); next; next = this.unsettled.shift()) await this.settle(next);
  }

  /** A failed round: everything waits a little, longer each time, and nothing is lost. */
  private tell(error: unknown, tenants: string[]): void {
    this.rounds.repeat(tenants);
    this.failed.inc();
    this.failures += 1;
    this.isBlind = !(error instanceof SinkUnavailable);
    this.pausedUntil = performance.now() + Math.min(100 * 2 ** (this.failures - 1), 2_000);
    const line = { err: error as Error, tenants: tenants.length };
    if (this.failures === 1) this.options.logger.warn(line, isTransient(error) ? 'the relay waits' : 'the relay could not publish');
    else this.options.logger.debug(line, 'the relay still could not publish');
  }

  private answered(): void {
    if (this.failures > 0) this.options.logger.info({ failures: this.failures }, 'the relay publishes again');
    this.failures = 0;
    this.isBlind = false;
    this.answeredAt = performance.now();
  }

  private async poll(exit: EventSink): Promise<void> {
    let after: string | null = null;
    // A replica that was killed may have left anything.
    let everything = true;
    let isTold = false;
    let wasKeptWaiting = false;
    while (!this.closed.signal.aborted) {
      let more = false;
      if (this.isKeptWaiting && !wasKeptWaiting) this.options.logger.warn(`the relay waits for an answer of ${exit.name}`);
      wasKeptWaiting = this.isKeptWaiting;
      try {
        const found = await findUnpublished(this.options.pool, after, everything);
        for (const tenant of found.behind) if (!this.rounds.isMissed(tenant)) this.wake(tenant);
        after = found.next;
        everything &&= after !== null;
        more = everything;
        if (performance.now() - this.answeredAt > 5_000) {
          await exit.probe();
          // A round that failed is judged by a round.
          if (this.failures > 0 && !this.rounds.isBusy) this.answered();
          else if (this.failures === 0 || this.isBlind) this.answeredAt = performance.now();
        }
        if (this.failures === 0) this.isBlind = false;
        isTold = false;
      } catch (error) {
        // Where there is nothing to publish no round says why. Once: of several addresses each has its own reason, in turn.
        const isNews: boolean = error instanceof SinkUnavailable && this.failures === 0 && !isTold;
        if (isNews) this.options.logger.warn({ err: error }, 'the relay can reach nobody');
        else this.options.logger.debug({ err: error }, 'a look for leftovers failed');
        isTold ||= isNews;
        if (!(error instanceof SinkUnavailable)) this.isBlind = true;
        else if (performance.now() - this.answeredAt > 5_000) this.answeredAt = -Infinity;
      }
      if (!more) await this.pause(this.options.pollMs ?? 1_000);
    }
  }

  /** Apart from the looks for leftovers, which would wait for them. */
  private async letters(exit: EventSink): Promise<void> {
    const { logger, pollMs } = this.options;
    let isTold = false;
    while (!this.closed.signal.aborted) {
      try {
        if (this.failures === 0) await publishDueDeadLetters({ ...this.options, exit, signal: this.closed.signal });
        isTold = false;
      } catch (error) {
        logger[isTold || isTransient(error) ? 'debug' : 'warn']({ err: error }, 'dead letters could not be published');
        isTold = true;
      }
      await this.pause(pollMs ?? 1_000);
    }
  }

  /** Until the time is over, or this closes. */
  private async pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.closed.signal }).catch(() => undefined);
  }
}

/** How far a round came that handed over. */
function raisedBy({ claims, publication, stretches, wanted }: Handed): Raised[] {
  // What a refused posting would have stood for is refused beside it, and is none of the claim's own events.
  const isRefused = ({ tenant }: Claimed, event: Event) =>
    publication.refused.some((letter) => letter.tenant === tenant && letter.sequence === event.sequence && letter.part === event.part);
  const ofClaims = claims.map((each): Raised => {
    const { tenant, mark, through, events } = each;
    if (publication.postponed.has(each)) return { tenant, sequence: mark, published: 0, passed: 0 };
    const published = publication.refused.length === 0 ? events : events.filter((event) => !isRefused(each, event));
    return { tenant, sequence: through, published: published.length, passed: 0 };
  });
  const ofStretches = stretches.map(({ tenant, mark, through }): Raised => {
    const sequence = wanted.has(tenant) ? mark : through;
    return { tenant, sequence, published: 0, passed: Number(sequence - mark) };
  });
  return [...ofClaims, ...ofStretches];
}

/** Nothing is raised where a round failed, and given back is also what was claimed without an answer: no mark is ever lowered. */
function givenBack(tenants: string[]): Raised[] {
  return tenants.map((tenant) => ({ tenant, sequence: 0n, published: 0, passed: 0 }));
}

function countOf(claims: Claimed[]): number {
  return claims.reduce((sum, each) => sum + each.events.length, 0);
}
