// What is reckoned when all faults are over: that nothing is stuck, lost or doubled, that books and log agree, and that every event arrived.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { withClient } from '../../deploy/local/databases.ts';
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { openOperator } from '../../services/ledger/audit/operator.ts';
import { rebuild } from '../../services/ledger/audit/rebuild.ts';
import { withBalanceEvents } from '../../services/platform/balance-events.ts';
import { verify } from '../../services/ledger/audit/verify.ts';
import { openCaller } from '../../services/platform/caller.ts';
import { toId, toUuid } from '../../services/platform/ids.ts';
import { toMinor } from '../../services/platform/money.ts';
import type { Cluster } from '../cluster.ts';
import { sums, type Clients } from './clients.ts';

/** What was found. */
export interface Reckoning {
  /** Keys of postings that were answered and are not there, or under another id. */
  lost: string[];
  /** Keys under which more than one transaction is there, or one that nobody was told of. */
  doubled: string[];
  /** Of each event that never arrived, the key of its posting. */
  eventsLost: string[];
  /** Seconds until everything was published and delivered. */
  quietAfter: number;
  events: number;
  transactions: number;
  /** Everything that is wrong, in words. */
  findings: string[];
}

/** How long everything that waits may take to be done when nothing is broken any more, seconds. */
const patience = 180;

/**
 * Reckons. The clients have ended; `received` are the ids of the events that have arrived, and may grow meanwhile; `since`: when the cluster was
 * yet to be started, by the database's clock.
 */
export async function reckon(cluster: Cluster, clients: Clients, received: ReadonlySet<string>, since: Date): Promise<Reckoning> {
  const began = performance.now();
  let left = await unfinished(cluster);
  while (left.length > 0 && performance.now() - began < patience * 1000) {
    await pause(200);
    left = await unfinished(cluster);
  }
  const quietAfter = (performance.now() - began) / 1000;
  const findings = left.map((each) => `stuck: ${each}`);
  const { lost, doubled, transactions } = await postings(cluster, clients);
  const events = await eventsOf(cluster, clients);
  const keys = new Map([...clients.tried.values()].map(({ key, transactionId }) => [transactionId, key]));
  const missing = events.filter(({ id }) => !received.has(id));
  const eventsLost = missing.map((event) => keys.get(transactionOf(event)) ?? '');
  for (const { type, id, tenantId, sequence } of missing.slice(0, 10)) {
    findings.push(`${type} ${id} of ${tenantId}, sequence ${sequence}, never arrived`);
  }
  findings.push(
    ...amountsDiffer(events, clients).slice(0, 10),
    ...(await sumsDiffer(cluster, clients)),
    ...(await timesOff(cluster, since)),
  );
  findings.push(...lost.slice(0, 10).map((key) => `posting ${key} was answered and is not there`));
  findings.push(...doubled.slice(0, 10).map((key) => `posting ${key} is there more than once, or unanswered`));
  const operator = await openOperator(cluster.databases.ledger.ownerUrl);
  try {
    await verify(operator, {}, (line) => findings.push(`verify: ${line}`));
    await rebuild(operator, { tenant: undefined, check: true }, (line) => findings.push(`rebuild: ${line}`));
  } finally {
    await operator.end();
  }
  return { lost, doubled, eventsLost, quietAfter, events: events.length, transactions, findings };
}

/** What is still to be done, in words. */
async function unfinished(cluster: Cluster): Promise<string[]> {
  const count = (database: 'ledger' | 'notifier', what: string, text: string) =>
    withClient(cluster.databases[database].adminUrl, async (client) => {
      const { rows } = await client.query<{ n: string }>(`select count(*)::text as n ${text}`);
      return rows[0]?.n === '0' ? [] : [`${rows[0]?.n} ${what}`];
    });
  const postingsIn = async (name: string, metric: string) => {
    const text = await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text();
    const line = text.split('\n').find((each) => each.startsWith(`${metric}{`) || each.startsWith(`${metric} `));
    return Number(line?.split(' ').at(-1)) === 0 ? [] : [`${line} (postings of ${name})`];
  };
  const all = [
    count(
      'ledger',
      'tenants with unpublished events',
      'from heads h left join relay_marks m using (tenant_id) where h.sequence > coalesce(m.sequence, 0)',
    ),
    count('ledger', 'dead letters of the relay', 'from relay_dead_letters where published_at is null'),
    behind(cluster),
    count('notifier', 'deliveries that are pending', `from deliveries where status = 'pending'`),
    count('notifier', 'deliveries that failed', `from deliveries where status = 'failed'`),
    count('notifier', 'dead letters of the notifier', 'from dead_letters'),
    count('notifier', 'gaps in what the notifier has taken', 'from gaps'),
    count(
      'ledger',
      'transactions left open',
      `from pg_stat_activity where state like 'idle in transaction%' and state_change < now() - interval '4 s'`,
    ),
    postingsIn('gateway', 'gateway_postings_in_flight'),
    postingsIn('ledger', 'ledger_postings_waiting'),
    postingsIn('ledger-2', 'ledger_postings_waiting'),
  ];
  return (await Promise.all(all)).flat();
}

/** Tenants whose published events the notifier has not all taken: over Kafka they may still lie on the topic. */
async function behind(cluster: Cluster): Promise<string[]> {
  const sequences = (database: 'ledger' | 'notifier', table: string) =>
    withClient(cluster.databases[database].adminUrl, async (client) => {
      const { rows } = await client.query<{ tenant_id: string; sequence: string }>(`select tenant_id, sequence from ${table}`);
      return new Map(rows.map((row) => [row.tenant_id, BigInt(row.sequence)]));
    });
  const [heads, inbox] = await Promise.all([sequences('ledger', 'heads'), sequences('notifier', 'inbox')]);
  const left = [...heads].filter(([tenant, sequence]) => (inbox.get(tenant) ?? 0n) < sequence).length;
  return left === 0 ? [] : [`${left} tenants whose events the notifier has not all taken`];
}

async function postings(cluster: Cluster, clients: Clients): Promise<Pick<Reckoning, 'lost' | 'doubled' | 'transactions'>> {
  const there = await withClient(cluster.databases.ledger.adminUrl, async (client) => {
    const text = 'select tenant_id as tenant, idempotency_key as key, id from transactions';
    return (await client.query<{ tenant: string; key: string; id: string }>(text)).rows;
  });
  const byKey = Map.groupBy(there, ({ key }) => key);
  const tried = [...clients.tried.values()];
  const lost = tried.filter(({ tenantId, key, transactionId }) => {
    const isIt = (row: (typeof there)[number]) => toId('tenant', row.tenant) === tenantId && toId('txn', row.id) === transactionId;
    return transactionId !== undefined && byKey.get(key)?.some(isIt) !== true;
  });
  const told = (key: string) => clients.tried.get(key)?.transactionId !== undefined;
  const doubled = [...byKey].filter(([key, rows]) => rows.length > 1 || !told(key));
  return { lost: lost.map(({ key }) => key), doubled: doubled.map(([key]) => key), transactions: there.length };
}

/** Postings that are there with another amount, for another tenant or of another transaction than was asked for: two exchanged ones have the same sum. */
function amountsDiffer(events: Event[], clients: Clients): string[] {
  return events.flatMap(({ data, tenantId }) => {
    const tried = data.case === 'transactionPosted' ? clients.tried.get(data.value.idempotencyKey) : undefined;
    if (data.case !== 'transactionPosted' || !tried) return [];
    const { code, currency } = sums[tried.kind];
    const entry = data.value.entries.find((each) => each.accountCode === code && each.currency === currency && each.side === 'credit');
    const amount = entry && toMinor(entry.amount);
    const { reverses } = data.value;
    if (tenantId === tried.tenantId && amount === tried.amount && reverses === tried.reverses) return [];
    return [
      `posting ${tried.key} of ${tried.tenantId} asked for ${tried.amount}, reversing ${tried.reverses}, and is there for ${tenantId} with ${amount}, reversing ${reverses}`,
    ];
  });
}

/** Where what an account has taken is not the sum of what was answered. */
async function sumsDiffer(cluster: Cluster, clients: Clients): Promise<string[]> {
  const { rows } = await withClient(cluster.databases.ledger.adminUrl, (client) =>
    client.query<{ tenant: string; code: string; currency: string; credits: string }>(
      `select b.tenant_id as tenant, a.code, b.currency, b.credits::text from balances b join accounts a on a.tenant_id = b.tenant_id and a.id = b.account_id`,
    ),
  );
  const differing: string[] = [];
  for (const { tenant } of clients.customers) {
    for (const [kind, { code, currency }] of Object.entries(sums)) {
      const mine = [...clients.tried.values()].filter((each) => each.tenantId === tenant.id && each.kind === kind && each.transactionId);
      const answered = mine.reduce((sum, { amount }) => sum + amount, 0n);
      const row = rows.find((each) => each.tenant === toUuid('tenant', tenant.id) && each.code === code && each.currency === currency);
      const credits = BigInt(row?.credits ?? 0);
      if (credits !== answered) differing.push(`${code} of ${tenant.id} was credited ${credits}, and ${answered} was answered`);
    }
  }
  return differing;
}

/** What the database's clock says. */
export async function databaseClock(adminUrl: string): Promise<Date> {
  return withClient(adminUrl, async (client) => (await client.query<{ at: Date }>('select clock_timestamp() as at')).rows[0]!.at);
}

/** Times that are told to tenants: the database's clock decides, whatever the processes' own say. */
const times = {
  identity: ['users.created_at', 'tenants.created_at', 'api_keys.created_at', 'sessions.created_at'],
  ledger: ['log.created_at', 'transactions.created_at', 'accounts.created_at', 'accounts.updated_at', 'balances.updated_at'],
  notifier: ['webhooks.created_at', 'deliveries.created_at', 'deliveries.delivered_at', 'attempts.started_at'],
} as const;

async function timesOff(cluster: Cluster, since: Date): Promise<string[]> {
  const off: string[] = [];
  for (const service of ['identity', 'ledger', 'notifier'] as const) {
    await withClient(cluster.databases[service].adminUrl, async (client) => {
      for (const place of times[service]) {
        const [table = '', column = ''] = place.split('.');
        const text = `select count(*)::int as n from ${table} where ${column} not between $1 and clock_timestamp()`;
        const { n } = (await client.query<{ n: number }>(text, [since])).rows[0]!;
        if (n > 0) off.push(`${n} times of ${place} are outside of this run`);
      }
    });
  }
  return off;
}

/** The events that the receiver is owed. */
async function eventsOf(cluster: Cluster, clients: Clients): Promise<Event[]> {
  const caller = openCaller({ addresses: cluster.addresses.ledger, token: cluster.internalToken, maxMessageBytes: 1 << 25 });
  const ledger = createClient(LedgerService, caller);
  const all: Event[] = [];
  try {
    for (const { tenant } of clients.customers) {
      let after = 0n;
      for (let more = true; more;) {
        const page = await ledger.listEvents({ tenantId: tenant.id, afterSequence: after, limit: 100 });
        all.push(
          ...page.events.flatMap(withBalanceEvents).filter(({ type }) => type === 'transaction.posted' || type === 'balance.updated'),
        );
        after = page.events.at(-1)?.sequence ?? after;
        more = page.hasMore;
      }
    }
  } finally {
    caller.close();
  }
  return all;
}

function transactionOf({ data }: Event): string {
  return data.case === 'transactionPosted' || data.case === 'balanceUpdated' ? data.value.transactionId : '';
}
