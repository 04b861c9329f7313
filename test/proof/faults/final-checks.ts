// Checks after the last fault: nothing is stuck, lost or doubled, tables and log agree, and every event arrived.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { withClient } from '../../../deploy/local/databases.ts';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { LedgerService } from '../../../proto/gen/ledger/v1/ledger_pb.js';
import { openOperator } from '../../../services/ledger/audit/operator.ts';
import { rebuild } from '../../../services/ledger/audit/rebuild.ts';
import { withBalanceEvents } from '../../../services/platform/balance-events.ts';
import { verify } from '../../../services/ledger/audit/verify.ts';
import { openCaller } from '../../../services/platform/caller.ts';
import { toId, toUuid } from '../../../services/platform/ids.ts';
import { toMinor } from '../../../services/platform/money.ts';
import type { Cluster } from '../../cluster.ts';
import { sums, type Clients } from './clients.ts';

/** What the checks found. */
export interface FinalState {
  /** Keys of postings that were answered and do not exist, or under another id. */
  lost: string[];
  /** Keys with more than one transaction, or with one that was never answered. */
  doubled: string[];
  /** Of each event that was never delivered, the key of its posting. */
  eventsLost: string[];
  /** Seconds until everything was published and delivered. */
  quietAfter: number;
  events: number;
  transactions: number;
  /** Everything that is wrong, in words. */
  findings: string[];
}

/** All work must be done so many seconds after the last fault. */
const maxSettleSeconds = 180;

/** Runs the checks, after the clients have ended. `received`: ids of the events that have arrived, which may grow meanwhile. */
export async function finalChecks(cluster: Cluster, clients: Clients, received: ReadonlySet<string>): Promise<FinalState> {
  const began = performance.now();
  let left = await unfinished(cluster);
  while (left.length > 0 && performance.now() - began < maxSettleSeconds * 1000) {
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
  findings.push(...amountsDiffer(events, clients).slice(0, 10), ...(await sumsDiffer(cluster, clients)));
  findings.push(...lost.slice(0, 10).map((key) => `posting ${key} was answered and does not exist`));
  findings.push(...doubled.slice(0, 10).map((key) => `posting ${key} exists more than once, or was never answered`));
  const operator = await openOperator(cluster.databases.ledger.ownerUrl);
  try {
    await verify(operator, {}, (line) => findings.push(`verify: ${line}`));
    await rebuild(operator, { tenant: undefined, check: true }, (line) => findings.push(`rebuild: ${line}`));
  } finally {
    await operator.end();
  }
  return { lost, doubled, eventsLost, quietAfter, events: events.length, transactions, findings };
}

/** Work that is not done, one line each. */
async function unfinished(cluster: Cluster): Promise<string[]> {
  const count = (database: 'ledger' | 'notifier', what: string, text: string) =>
    withClient(cluster.databases[database].adminUrl, async (client) => {
      const { rows } = await client.query<{ n: string }>(`select count(*)::text as n ${text}`);
      return rows[0]?.n === '0' ? [] : [`${rows[0]?.n} ${what}`];
    });
  const all = [
    count(
      'ledger',
      'tenants with unpublished events',
      'from heads h left join relay_marks m using (tenant_id) where h.sequence > coalesce(m.sequence, 0)',
    ),
    count('ledger', 'dead letters of the relay', 'from relay_dead_letters where published_at is null'),
    behind(cluster),
    count('notifier', 'pending deliveries', `from deliveries where status = 'pending'`),
    count('notifier', 'failed deliveries', `from deliveries where status = 'failed'`),
    count('notifier', 'dead letters of the notifier', 'from dead_letters'),
    count('notifier', 'gaps in the inbox', 'from gaps'),
    count(
      'ledger',
      'transactions left open',
      `from pg_stat_activity where state like 'idle in transaction%' and state_change < now() - interval '4 s'`,
    ),
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

async function postings(cluster: Cluster, clients: Clients): Promise<Pick<FinalState, 'lost' | 'doubled' | 'transactions'>> {
  const stored = await withClient(cluster.databases.ledger.adminUrl, async (client) => {
    const text = 'select tenant_id as tenant, idempotency_key as key, id from transactions';
    return (await client.query<{ tenant: string; key: string; id: string }>(text)).rows;
  });
  const byKey = Map.groupBy(stored, ({ key }) => key);
  const tried = [...clients.tried.values()];
  const lost = tried.filter(({ tenantId, key, transactionId }) => {
    const isIt = (row: (typeof stored)[number]) => toId('tenant', row.tenant) === tenantId && toId('txn', row.id) === transactionId;
    return transactionId !== undefined && byKey.get(key)?.some(isIt) !== true;
  });
  const isAnswered = (key: string) => clients.tried.get(key)?.transactionId !== undefined;
  const doubled = [...byKey].filter(([key, rows]) => rows.length > 1 || !isAnswered(key));
  return { lost: lost.map(({ key }) => key), doubled: doubled.map(([key]) => key), transactions: stored.length };
}

/** Postings stored with another amount, tenant or reversed transaction than was sent: sums do not show two that are exchanged. */
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
      `posting ${tried.key} of ${tried.tenantId} was sent with ${tried.amount}, reversing ${tried.reverses}, and is stored for ${tenantId} with ${amount}, reversing ${reverses}`,
    ];
  });
}

/** Accounts whose credits are not the sum of the answered postings. */
async function sumsDiffer(cluster: Cluster, clients: Clients): Promise<string[]> {
  const { rows } = await withClient(cluster.databases.ledger.adminUrl, (client) =>
    client.query<{ tenant: string; code: string; currency: string; credits: string }>(
      `select b.tenant_id as tenant, a.code, b.currency, b.credits::text from balances b join accounts a on a.tenant_id = b.tenant_id and a.id = b.account_id`,
    ),
  );
  const differing: string[] = [];
  for (const { tenant } of clients.customers) {
    for (const [kind, { code, currency }] of Object.entries(sums)) {
      const own = [...clients.tried.values()].filter((each) => each.tenantId === tenant.id && each.kind === kind && each.transactionId);
      const answered = own.reduce((sum, { amount }) => sum + amount, 0n);
      const row = rows.find((each) => each.tenant === toUuid('tenant', tenant.id) && each.code === code && each.currency === currency);
      const credits = BigInt(row?.credits ?? 0);
      if (credits !== answered) differing.push(`${code} of ${tenant.id} was credited ${credits}, and ${answered} was answered`);
    }
  }
  return differing;
}

/** The events that must be delivered. */
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
