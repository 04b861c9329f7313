// Checks what concurrent clients have seen against the log: one effect per answer, in real-time order, and reads that never go back.
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toMinor } from '../../../services/platform/money.ts';
import { sums, type Read, type Tried } from './clients.ts';

/** What is wrong. */
export interface HistoryFaults {
  /** Keys of postings that were answered and are not in the log under their id. */
  lost: string[];
  /** Keys that are in the log more than once, or without having been answered. */
  doubled: string[];
  /** The same and everything else, in words. */
  findings: string[];
}

/** Checks the log of all tenants, each tenant's events in order, with the derived ones. Keys are unique over all tenants. */
export function historyFaults(events: Event[], tried: ReadonlyMap<string, Tried>, reads: readonly Read[]): HistoryFaults {
  const findings: string[] = [];
  const ids = new Map<string, string>();
  const doubled = new Set<string>();
  for (const { data } of events) {
    if (data.case !== 'transactionPosted') continue;
    const { idempotencyKey: key, transactionId } = data.value;
    if (ids.has(key) || tried.get(key)?.transactionId === undefined) doubled.add(key);
    ids.set(key, transactionId);
  }
  const answered = [...tried.values()].filter(({ transactionId }) => transactionId !== undefined);
  const lost = answered.filter(({ key, transactionId }) => ids.get(key) !== transactionId).map(({ key }) => key);
  findings.push(...lost.map((key) => `posting ${key} was answered and is not in the log`));
  findings.push(...[...doubled].map((key) => `posting ${key} is in the log more than once, or was never answered`));
  findings.push(...events.flatMap((event) => difference(event, tried)));
  for (const [tenantId, own] of Map.groupBy(events, (event) => event.tenantId)) {
    const effects = effectsOf(own, tried);
    findings.push(...disorder([...effects.values()]));
    findings.push(
      ...readFaults(
        own,
        effects,
        reads.filter((read) => read.tenantId === tenantId),
      ),
    );
  }
  return { lost, doubled: [...doubled], findings };
}

/** How the log differs from what was sent. */
function difference({ data, tenantId }: Event, tried: ReadonlyMap<string, Tried>): string[] {
  if (data.case !== 'transactionPosted') return [];
  const { idempotencyKey, entries, reverses } = data.value;
  const sent = tried.get(idempotencyKey);
  if (!sent) return [];
  const { code, currency } = sums[sent.kind];
  const entry = entries.find((each) => each.accountCode === code && each.currency === currency && each.side === 'credit');
  const amount = entry && toMinor(entry.amount);
  if (tenantId === sent.tenantId && amount === sent.amount && reverses === sent.reverses) return [];
  return [
    `posting ${sent.key} of ${sent.tenantId} was sent with ${sent.amount}, reversing ${sent.reverses}, and is stored for ${tenantId} with ${amount}, reversing ${reverses}`,
  ];
}

/** The postings of one tenant in the order of the log, by sequence. */
function effectsOf(events: Event[], tried: ReadonlyMap<string, Tried>): Map<bigint, Tried> {
  return new Map(
    events.flatMap(({ data, sequence }) => {
      const sent = data.case === 'transactionPosted' ? tried.get(data.value.idempotencyKey) : undefined;
      return sent ? [[sequence, sent]] : [];
    }),
  );
}

/** A posting that was answered before another was sent comes first in the log. */
function disorder(effects: Tried[]): string[] {
  let earliest = Infinity;
  return effects.reverse().flatMap(({ key, askedAt, answeredAt }) => {
    const isLate = earliest < askedAt;
    earliest = Math.min(earliest, answeredAt);
    return isLate ? [`posting ${key} was sent after one behind it in the log had been answered`] : [];
  });
}

/** Reads of one tenant's balances: each shows a state that there was meanwhile, and at least what an earlier read has shown. */
function readFaults(events: Event[], effects: Map<bigint, Tried>, reads: Read[]): string[] {
  const states = Map.groupBy(
    events.flatMap(({ data, sequence }) =>
      data.case === 'balanceUpdated' ? [{ ...data.value.balance!, sent: effects.get(sequence) }] : [],
    ),
    ({ accountCode, currency }) => `${accountCode} ${currency}`,
  );
  return [...Map.groupBy(reads, ({ place }) => place)].flatMap(([place, own]) => {
    const all = states.get(place) ?? [];
    const byEnd = own.toSorted((one, two) => one.end - two.end);
    let [next, seen] = [0, 0];
    return own
      .toSorted((one, two) => one.start - two.start)
      .flatMap((read) => {
        for (; byEnd[next]!.end < read.start; next++) seen = Math.max(seen, byEnd[next]!.version);
        const least = all.findLastIndex(({ sent }) => (sent?.answeredAt ?? Infinity) < read.start) + 1;
        const later = all.findIndex(({ sent }) => (sent?.askedAt ?? 0) > read.end);
        const { debits, credits } = all[read.version - 1] ?? { debits: '0.00', credits: '0.00' };
        const isState = debits === read.debits && credits === read.credits;
        const fits = read.version >= Math.max(least, seen) && read.version <= (later < 0 ? all.length : later);
        return isState && fits ? [] : [`${place}: ${JSON.stringify(read)} where at least version ${Math.max(least, seen)} had been seen`];
      });
  });
}
