// The load of the benchmark of webhooks: tenants that subscribe with a receiver, postings at a steady rate, events without end, and the bare loop
// that all of it is compared with.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, type Client } from '@connectrpc/connect';
import { pino } from 'pino';
import { Agent, request } from 'undici';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { EventSink } from '../../services/ledger/outbox/event-sink.ts';
import { grpcPublisher } from '../../services/ledger/outbox/grpc-publisher.ts';
import { kafkaPublisher } from '../../services/ledger/outbox/kafka-publisher.ts';
import { eventBody } from '../../services/notifier/envelope.ts';
import { deliveryHeaders } from '../../services/notifier/webhook.ts';
import type { Caller } from '../../services/platform/caller.ts';
import { newId } from '../../services/platform/ids.ts';
import { settingsOf } from '../kafka.ts';
import { newTenant, postingEvent } from '../notifier.ts';
import { callerOf } from './books.ts';
import { percentile } from './figures.ts';
import type { Cluster } from './cluster.ts';
import { Poster, type Postings } from './poster.ts';
import { wallet } from './posting.ts';
import { Door, now, secret } from './receiver.ts';

const accounts = 10;

/** Who feed the notifier, each with tenants of its own, whose events are in order. One alone kept six hundred before it: it waited for each answer. */
const publishers = 3;

/** What is sent to a cluster, and the door where its deliveries arrive. */
export class WebhookLoad {
  readonly door: Door;
  readonly notifier: Client<typeof NotifierService>;
  private readonly ledger: Client<typeof LedgerService>;
  private readonly callers: Caller[];
  private readonly poster: Poster;
  private readonly sink: EventSink;
  private series = 0;

  private constructor(cluster: Cluster, brokers: string | null, door: Door) {
    this.door = door;
    this.poster = new Poster(cluster);
    this.callers = [callerOf(cluster, 'ledger'), callerOf(cluster, 'notifier')];
    this.ledger = createClient(LedgerService, this.callers[0]!);
    this.notifier = createClient(NotifierService, this.callers[1]!);
    const { addresses, internalToken } = cluster.known;
    this.sink =
      brokers === null
        ? grpcPublisher(addresses.notifier, internalToken, 32 << 20)
        : kafkaPublisher(settingsOf(brokers, 'ledger.v1.Event'), pino({ level: 'silent' }));
  }

  /** `brokers`: those of the cluster's Kafka; null: events go over gRPC. */
  static async open(cluster: Cluster, brokers: string | null): Promise<WebhookLoad> {
    return new WebhookLoad(cluster, brokers, await Door.open());
  }

  async close(): Promise<void> {
    await this.sink.close();
    await this.poster.close();
    for (const caller of this.callers) caller.close();
    await this.door.close();
  }

  /** New tenants with accounts; `path`: where their postings are delivered. */
  async tenants(count: number, path: string | null): Promise<string[]> {
    const made = Array.from({ length: count }, () => newId('tenant'));
    await Promise.all(
      made.map(async (tenantId) => {
        if (path !== null) await this.subscribe(tenantId, path);
        for (let customer = 0; customer <= accounts; customer++) {
          const code = wallet(customer);
          await this.ledger.createAccount({ tenantId, accountCode: code, name: code, type: 'asset', allowNegative: true });
        }
      }),
    );
    return made;
  }

  private subscribe(tenantId: string, path: string): Promise<unknown> {
    return this.notifier.configureWebhook({ tenantId, url: this.door.url + path, secret, events: ['transaction.posted'] });
  }

  /** Posts at a steady rate, whatever the answers do. */
  post(tenants: string[], perSecond: number, seconds: number): Promise<Postings> {
    const series = `h${String(++this.series).padStart(5, '0')}`;
    return this.poster.post({ tenants, accounts, perSecond, seconds, series });
  }

  /** Waits until every posting has been delivered. Milliseconds from the answers; a delivery may be faster than the answer. */
  async arrive({ answered }: Postings): Promise<{ p50: number; p99: number; largest: number }> {
    const missing = () => [...answered.keys()].filter((id) => !this.door.times.has(id)).length;
    await until(
      () => missing() === 0,
      () => `${missing()} of ${answered.size} deliveries are missing`,
    );
    const delays = [...answered].map(([id, at]) => Math.max(0, this.door.times.get(id)! - at));
    return { p50: percentile(delays, 50), p99: percentile(delays, 99), largest: percentile(delays, 100) };
  }

  /** Keeps some four thousand events of many tenants before the notifier, of one as many as a publisher can; `end` waits until all are delivered. */
  async feed(count: number): Promise<{ end: () => Promise<void> }> {
    const tenants = Array.from({ length: count }, newTenant);
    await Promise.all(tenants.map(({ tenantId }) => this.subscribe(tenantId, '/hook')));
    const ending = new AbortController();
    const before = this.door.verified;
    let fed = 0;
    const loop = async (first: number) => {
      const mine = tenants.filter((_, place) => place % publishers === first);
      for (let next = 0; !ending.signal.aborted;) {
        if (fed - (this.door.verified - before) > 4000) await pause(5);
        else {
          fed += 400;
          await this.sink.publish(Array.from({ length: 400 }, () => mine[next++ % mine.length]!.posting()));
        }
      }
    };
    const looping = Promise.all(Array.from({ length: Math.min(count, publishers) }, (_, first) => loop(first)));
    // Told by end.
    looping.catch(() => undefined);
    const end = async () => {
      ending.abort();
      await looping;
      await until(
        () => this.door.verified - before >= fed,
        () => `${this.door.verified - before} of ${fed} were delivered`,
      );
    };
    return { end };
  }

  /** Requests a second that undici makes with the same headers and bodies, so many at a time. */
  async bare(concurrency: number, seconds: number): Promise<number> {
    const agent = new Agent();
    const event = postingEvent(newId('tenant'), 1n);
    const body = eventBody(event);
    const signed = { id: event.id, timestamp: Math.floor(Date.now() / 1000), body };
    const headers = deliveryHeaders([secret], signed, { id: newId('wh_delivery'), eventType: event.type, attempt: 1, traceparent: null });
    const before = this.door.verified;
    let sent = 0;
    const perSecond = async (milliseconds: number) => {
      const [started, already] = [now(), sent];
      const loop = async () => {
        while (now() < started + milliseconds) {
          const answer = await request(`${this.door.url}/hook`, { dispatcher: agent, method: 'POST', headers, body });
          await answer.body.dump();
          sent++;
        }
      };
      await Promise.all(Array.from({ length: concurrency }, loop));
      return (1000 * (sent - already)) / (now() - started);
    };
    // Compiles it and opens the connections.
    await perSecond(1000);
    const rate = await perSecond(seconds * 1000);
    await agent.close();
    // What the thread has not told yet would count for the next window.
    await until(
      () => this.door.verified - before >= sent,
      () => 'the bare loop has lost requests',
    );
    return rate;
  }
}

async function until(found: () => boolean, problem: () => string): Promise<void> {
  for (const end = now() + 60_000; !found(); await pause(10)) if (now() > end) throw new Error(problem());
}
