// A ledger database with writers and relays as the ledger's replicas have them, for tests of the outbox.
import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import pg from 'pg';
import { Registry } from 'prom-client';
import type { Event } from '../proto/gen/ledger/v1/events_pb.js';
import { PostingSchema } from '../proto/gen/ledger/v1/ledger_pb.js';
import { createAccount } from '../services/ledger/accounts.ts';
import { listEvents } from '../services/ledger/events.ts';
import type { EventSink } from '../services/ledger/outbox/event-sink.ts';
import { Relay } from '../services/ledger/outbox/relay.ts';
import { withDerivedEvents } from '../services/platform/derived-events.ts';
import { validatePosting } from '../services/ledger/mapping.ts';
import { Writer } from '../services/ledger/writer.ts';
import { toId } from '../services/platform/ids.ts';
import { openPool, type Pool } from '../services/platform/postgres.ts';
import type { Logger } from '../services/platform/telemetry.ts';
import { freshDatabase, longTransactionTimeouts, longLockTimeouts, type FreshDatabase } from './cluster.ts';
import { until } from './notifier.ts';
import { by, logger, postingTimeoutMs, unspecified } from './writers.ts';

/** A writer and its relay, as each replica of the ledger has them. */
export interface Replica {
  relay: Relay;
  writer: Writer;
  metrics: Registry;
  /** Ends both; a second call does nothing. */
  end: () => Promise<void>;
}

/** A database with relays. A relay takes the events of all tenants, so each test has a database of its own. */
export interface RelayDatabase {
  database: FreshDatabase;
  /** Sees all tenants' rows. */
  owner: pg.Client;
  /** Connections of the service's role. */
  pool: Pool;
  /** Connections of the relay. */
  relayed: Pool;
  /** What ends before the database, in reverse order. */
  ends: (() => Promise<unknown>)[];
  openReplica: (sink: EventSink | null, log?: Logger) => Replica;
  /** A new tenant (UUID) with the accounts `a` and `b`. */
  newTenant: () => Promise<string>;
  /** All events of a tenant, in the order of their first publication. */
  eventsOf: (tenant: string) => Promise<Event[]>;
  /** Resolves when nothing is left to publish. */
  published: () => Promise<void>;
  /** Keeps claims from expiring until the returned function is called. */
  keepClaims: () => () => void;
  end: () => Promise<void>;
}

/** Makes the database. */
export async function openRelayDatabase(): Promise<RelayDatabase> {
  const database = await freshDatabase('ledger', { migrated: true });
  const owner = new pg.Client({ connectionString: database.adminUrl });
  await owner.connect();
  const pool = openPool(database.serviceUrl, { name: 'test', max: 8, logger, settings: longLockTimeouts });
  const relayed = openPool(database.serviceUrl, {
    name: 'relay',
    max: 8,
    logger,
    settings: longTransactionTimeouts,
    flag: 'app.relay',
  });
  const ends: RelayDatabase['ends'] = [];
  return {
    ...{ database, owner, pool, relayed, ends },
    openReplica(sink, log = logger) {
      const metrics = new Registry();
      const relay = new Relay({ pool: relayed, sink, pollMs: 50, logger: log, metrics });
      const limits = { waiting: 8_000, waitingBytes: 64e6, items: 64, entries: 2_000, bytes: 2e6 };
      const committed = (tenant: string) => relay.wake(tenant);
      const writer = new Writer({ pool, pipelines: 1, waiters: 1, limits, maxCachedAccounts: 1000, committed, logger, metrics });
      let ended: Promise<void> | undefined;
      const end = () => (ended ??= writer.close().then(() => relay.close()));
      ends.push(end);
      return { relay, writer, metrics, end };
    },
    async newTenant() {
      const tenant = randomUUID();
      for (const code of ['a', 'b'])
        await createAccount(pool, tenant, { code, name: code, type: 'asset', allowNegative: true, ...unspecified }, by);
      return tenant;
    },
    async eventsOf(tenant) {
      const { events } = await listEvents(pool, tenant, 0n, 10_000);
      return events.flatMap(withDerivedEvents);
    },
    async published() {
      await until(async () => {
        const { rows } = await owner.query<{ behind: number }>(
          `select count(*)::int as behind from heads h left join relay_marks m using (tenant_id)
            where m.sequence is distinct from h.sequence or m.claim_id is not null`,
        );
        return rows[0]?.behind === 0;
      });
    },
    keepClaims() {
      const keep = () =>
        void relayed
          .query(`update relay_marks set claimed_until = clock_timestamp() + interval '9 s' where claim_id is not null`)
          .catch(() => undefined);
      const timer = setInterval(keep, 1_000);
      const stop = () => clearInterval(timer);
      ends.push(() => Promise.resolve(stop()));
      keep();
      return stop;
    },
    async end() {
      for (const end of ends.splice(0).reverse()) await end();
      await Promise.all([relayed.end(), pool.end(), owner.end()]);
      await database.drop();
    },
  };
}

/** Posts between `a` and `b` of a tenant (UUID): a debit and a credit a leg, in turn. */
export async function post(
  writer: Writer,
  tenant: string,
  { legs = 1, ...more }: { metadata?: string; description?: string; legs?: number } = {},
): Promise<void> {
  const sides = Array.from({ length: legs }, (_, leg) => (leg % 2 === 0 ? ['debit', 'credit'] : ['credit', 'debit'])).flat();
  const entries = sides.map((side, place) => ({ accountCode: place % 2 === 0 ? 'a' : 'b', side, amount: '1.00', currency: 'NGN' }));
  const outcome = await writer.post(
    validatePosting(create(PostingSchema, { tenantId: toId('tenant', tenant), entries, timeoutMs: postingTimeoutMs, ...more })),
  );
  if ('refusal' in outcome) throw outcome.refusal;
}

/** The value of a metric without labels, 0 where there is none. */
export async function metricOf(metrics: Registry, name: string): Promise<number> {
  return (await metrics.getSingleMetric(name)?.get())?.values[0]?.value ?? 0;
}
