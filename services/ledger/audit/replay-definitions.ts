// Velocity limits of a replay: how they change, what each event must count, and the steps that are left of it.
import { fromBinary } from '@bufbuild/protobuf';
import { DefinitionChangedSchema, type VelocityUse, type VelocityUses } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toDecimal } from '../../platform/money.ts';
import type { LogRow } from '../log.ts';
import type { ReplayedAccounts } from './replay-accounts.ts';
import { minorUnits, type Report, type Row } from './rows.ts';

/** A limit as its record has it. */
interface LimitRecord {
  limit_id: string;
  account_code: string;
  applies: string;
  currency: string;
  side: string;
  max_amount: string | null;
  max_count: number | null;
  window: { rolling_seconds?: number };
  status: string;
  version: number;
  created_at: string;
  updated_at: string;
}

interface Limit {
  kind: string;
  id: string;
  version: bigint;
  /** As it is stored. */
  text: string;
  record: LimitRecord;
  /** What was used by each account or group: amount (minor units) and count by the start of their step. */
  used: Map<string, Map<number, { amount: bigint; count: number }>>;
}

/** What an event has counted of an account or group: from it a hold gives back what is released. */
export interface Counted {
  limitId: string;
  subject: string;
  stepMs: number;
  /** Positions of the entries that count. */
  positions: number[];
}

/** An event that counts. */
interface Event {
  row: LogRow;
  /** Limits did not refuse it. */
  isOverridden: boolean;
  problem: Report;
}

interface Entry {
  accountCode: string;
  side: string;
  currency: string;
  amount: string;
}

// A step by the calendar can't be older than a year with a day of another time zone.
const longestMs = 367 * 86_400_000;

/** Limits of one tenant, and what they have counted. Steps of a calendar begin where the events say, because time zones change. */
export class ReplayedLimits {
  private readonly accounts: ReplayedAccounts;
  private readonly byId = new Map<string, Limit>();

  constructor(accounts: ReplayedAccounts) {
    this.accounts = accounts;
  }

  /** Takes a `definition.changed`. */
  change(row: LogRow, problem: Report): void {
    const { kind, id, version, record: text } = fromBinary(DefinitionChangedSchema, row.payload);
    const before = this.byId.get(id);
    if (kind !== 'limit') problem(`defines a ${kind}, which there is not`);
    if (version !== (before?.version ?? 0n) + 1n) problem(`makes version ${version} of ${id} after ${before?.version ?? 'none'}`);
    if (text === undefined) {
      if (!before) problem(`deletes ${id}, which there is not`);
      this.byId.delete(id);
      return;
    }
    const record = JSON.parse(text) as LimitRecord;
    const at = new Date(row.createdMs).toISOString();
    const [is, should] = [
      [record.limit_id, record.version, record.updated_at, record.created_at],
      [id, Number(version), at, before?.record.created_at ?? at],
    ];
    if (is.join() !== should.join()) problem(`has a record of ${is.join(' ')}, not ${should.join(' ')}`);
    if (before && constantsOf(before.record) !== constantsOf(record)) problem(`changes what can’t change of ${id}`);
    if (!this.accounts.has(record.account_code)) problem(`limits ${record.account_code}, which there is not`);
    const used: Limit['used'] = before?.used ?? new Map<string, never>();
    this.byId.set(id, { kind, id, version, text, record, used });
  }

  /** Compares what an event has counted of its entries with what it must, and adds it. */
  count(entries: readonly Entry[], uses: VelocityUses | undefined, event: Event): Counted[] {
    const expected = new Map<string, Counted & { limit: Limit; amount: bigint; count: number }>();
    for (const [position, { accountCode, side, currency, amount }] of this.byId.size === 0 ? [] : entries.entries()) {
      const above = this.accounts.above(accountCode);
      for (const limit of this.byId.values()) {
        const { account_code: code, applies, ...counts } = limit.record;
        if (counts.side !== side || counts.currency !== currency || !above.has(code)) continue;
        if (applies === 'account' && code !== accountCode) continue;
        const subject = applies === 'each' ? accountCode : code;
        const key = keyOf(limit.id, subject);
        const stepMs = stepOf(
          limit,
          uses?.uses.find((use) => keyOf(use.limitId, use.subject) === key),
          event.row.createdMs,
        );
        const use = expected.get(key) ?? { limit, limitId: limit.id, subject, stepMs, positions: [], amount: 0n, count: 1 };
        use.amount += minorUnits(amount);
        use.positions.push(position);
        expected.set(key, use);
      }
    }
    if (!event.isOverridden) for (const use of expected.values()) this.checkMaximum(use, event);
    this.add([...expected.values()], uses, event);
    return [...expected.values()].map(({ limitId, subject, stepMs, positions }) => ({ limitId, subject, stepMs, positions }));
  }

  /** Compares what an event gives back of a hold with what it must: `released` of each entry, and the count where nothing was `captured`. */
  giveBack(counted: Counted[], released: bigint[], captured: bigint[], uses: VelocityUses | undefined, event: Event): void {
    const sum = (amounts: bigint[], positions: number[]) => positions.reduce((all, position) => all + (amounts[position] ?? 0n), 0n);
    const expected = counted
      .filter(({ limitId, positions }) => this.byId.has(limitId) && sum(released, positions) > 0n)
      .map(({ positions, ...use }) => ({
        ...use,
        amount: -sum(released, positions),
        count: sum(captured, positions) === 0n ? -1 : 0,
      }));
    this.add(expected, uses, event);
  }

  /** The rules, and what they have counted. */
  rows(tenant: string): { definitions: Row[]; velocity: Row[] } {
    const limits = [...this.byId.values()];
    return {
      definitions: limits.map(({ kind, id, version, text }) => ({
        tenant_id: tenant,
        kind,
        id,
        version: version.toString(),
        record: text,
      })),
      velocity: limits.flatMap(({ id, used }) =>
        [...used].map(([subject, steps]) => ({
          tenant_id: tenant,
          limit_id: id,
          subject,
          steps: JSON.stringify([...steps].sort(([a], [b]) => a - b).map(([ms, { amount, count }]) => [ms, amount.toString(), count])),
        })),
      ),
    };
  }

  private checkMaximum({ limit, subject, stepMs, amount, count }: Counted & { limit: Limit; amount: bigint; count: number }, event: Event) {
    const { max_amount: maxAmount, max_count: maxCount, status } = limit.record;
    if (status !== 'active') return;
    const first = rollingOf(limit)?.firstAt(event.row.createdMs) ?? stepMs;
    let [amounts, counts] = [amount, count];
    for (const [ms, step] of limit.used.get(subject) ?? []) {
      if (ms < first) continue;
      amounts += step.amount;
      counts += step.count;
    }
    if (maxAmount !== null && amounts > minorUnits(maxAmount)) {
      event.problem(`brings ${subject} to ${toDecimal(amounts)} of the ${maxAmount} that ${limit.id} allows`);
    }
    if (maxCount !== null && counts > maxCount) event.problem(`brings ${subject} to ${counts} of the ${maxCount} that ${limit.id} allows`);
  }

  // The replay goes on with what the event says.
  private add(
    expected: { limitId: string; subject: string; stepMs: number; amount: bigint; count: number }[],
    uses: VelocityUses | undefined,
    { row, problem }: Event,
  ): void {
    const text = (use: { limitId: string; subject: string; stepMs: number | bigint; amount: string; count: number }) =>
      `${use.amount} and ${use.count} of ${use.subject} for ${use.limitId} at ${use.stepMs}`;
    const should = expected.map((use) => text({ ...use, amount: toDecimal(use.amount) })).sort();
    const is = (uses?.uses ?? []).map(text).sort();
    if (should.join() !== is.join()) problem(`counts ${is.join(', ') || 'nothing'}, not ${should.join(', ') || 'nothing'}`);
    for (const { limitId, subject, stepMs, amount, count } of uses?.uses ?? []) {
      const limit = this.byId.get(limitId);
      if (!limit) continue;
      const steps = limit.used.get(subject) ?? new Map<number, { amount: bigint; count: number }>();
      const before = steps.get(Number(stepMs)) ?? { amount: 0n, count: 0 };
      steps.set(Number(stepMs), { amount: before.amount + minorUnits(amount), count: before.count + count });
      const first = rollingOf(limit)?.firstAt(row.createdMs) ?? Math.max(...steps.keys());
      for (const ms of steps.keys()) if (ms < first) steps.delete(ms);
      limit.used.set(subject, steps);
    }
  }
}

function keyOf(limitId: string, subject: string): string {
  return `${limitId} ${subject}`;
}

// A rolling window moves in steps of a sixtieth, in whole seconds and rounded up; its oldest step counts whole.
function rollingOf({ record }: Limit): { stepMs: number; firstAt: (ms: number) => number } | null {
  const seconds = record.window.rolling_seconds;
  if (seconds === undefined) return null;
  const stepMs = Math.ceil(seconds / 60) * 1000;
  return { stepMs, firstAt: (ms) => Math.floor((ms - seconds * 1000) / stepMs) * stepMs };
}

function stepOf(limit: Limit, use: VelocityUse | undefined, atMs: number): number {
  const rolling = rollingOf(limit);
  if (rolling) return Math.floor(atMs / rolling.stepMs) * rolling.stepMs;
  const stepMs = Number(use?.stepMs ?? NaN);
  return stepMs <= atMs && stepMs > atMs - longestMs ? stepMs : NaN;
}

function constantsOf({ account_code, applies, currency, side, window }: LimitRecord): string {
  return JSON.stringify([account_code, applies, currency, side, window]);
}
