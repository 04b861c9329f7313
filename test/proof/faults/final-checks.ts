// Checks after the last fault: nothing is stuck, lost or doubled, tables and log agree, and every event arrived.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { withClient } from '../../../deploy/local/databases.ts';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { LedgerService } from '../../../proto/gen/ledger/v1/ledger_pb.js';
import { openOperator } from '../../../services/ledger/audit/operator.ts';
import { rebuild } from '../../../services/ledger/audit/rebuild.ts';
import { withDerivedEvents } from '../../../services/platform/derived-events.ts';
import { verify } from '../../../services/ledger/audit/verify.ts';
import { openCaller } from '../../../services/platform/caller.ts';
import type { Cluster } from '../../cluster.ts';
import type { Clients } from './clients.ts';
import { holdFaults } from './hold-history.ts';
import { historyFaults, type HistoryFaults } from './history.ts';

/** What the checks found. */
export interface FinalState extends HistoryFaults {
  /** Of each event that was never delivered, the key of its posting. */
  eventsLost: string[];
  /** Seconds until everything was published and delivered. */
  quietAfter: number;
  events: number;
  transactions: number;
}

/** What every tenant's webhook asks for. */
export const subscribed = ['transaction.posted', 'balance.updated', 'hold.created', 'hold.captured', 'hold.voided', 'hold.expired'];
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
  const events = await eventsOf(cluster, clients);
  const history = historyFaults(events, clients.tried, clients.reads);
  findings.push(...history.findings.slice(0, 20), ...holdFaults(events, clients.holds).slice(0, 20));
  const keys = new Map([...clients.tried.values()].map(({ key, transactionId }) => [transactionId, key]));
  const delivered = events.filter(({ type }) => subscribed.includes(type));
  const missing = delivered.filter(({ id }) => !received.has(id));
  const eventsLost = missing.map((event) => keys.get(transactionOf(event)) ?? '');
  for (const { type, id, tenantId, sequence } of missing.slice(0, 10)) {
    findings.push(`${type} ${id} of ${tenantId}, sequence ${sequence}, never arrived`);
  }
  const operator = await openOperator(cluster.databases.ledger.ownerUrl);
  try {
    await verify(operator, {}, (line) => findings.push(`verify: ${line}`));
    await rebuild(operator, { tenant: undefined, check: true }, (line) => findings.push(`rebuild: ${line}`));
  } finally {
    await operator.end();
  }
  const transactions = events.filter(({ type }) => type === 'transaction.posted').length;
  return { ...history, eventsLost, quietAfter, events: delivered.length, transactions, findings };
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
    count('ledger', 'balances with something pending', 'from balances where pending_debits + pending_credits > 0'),
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

/** All events, with the derived ones. */
async function eventsOf(cluster: Cluster, clients: Clients): Promise<Event[]> {
  const caller = openCaller({ addresses: cluster.addresses.ledger, token: cluster.internalToken, maxMessageBytes: 1 << 25 });
  const ledger = createClient(LedgerService, caller);
  const all: Event[] = [];
  try {
    for (const { tenant } of clients.customers) {
      let after = 0n;
      for (let more = true; more;) {
        const page = await ledger.listEvents({ tenantId: tenant.id, afterSequence: after, limit: 100 });
        all.push(...page.events.flatMap(withDerivedEvents));
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
