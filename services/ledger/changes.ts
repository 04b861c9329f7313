// What a batch changes: the events, accounts, entries and balances of its postings.
import type { AccountRecord, SealedData, TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toUuid } from '../platform/ids.ts';
import { nothing, type Balance, type Books, type Posted, type Side } from './accounting.ts';
import { post } from './posting-rules.ts';
import { accountRules } from './account-rules.ts';
import type { CachedAccount, AccountState, TenantState } from './account-cache.ts';
import { createdEvent, newSystemAccount, nextPosition, type NewAccount } from './chart.ts';
import { append, type Head, type LogRow, type NewEvent } from './log.ts';
import { encodedPosted } from './encoding.ts';
import type { Reversal } from './reversals.ts';
import { defaultBooks } from './books-rules.ts';
import { indexedTexts, type MetadataWrite, type ShiftedWrite } from './dated-writes.ts';
import { assertNotSpentEarly, effectiveTime, type DatedOriginal, type EffectiveTime } from './effective-time.ts';
import { isFxPosition, suspenseCode } from './templates.ts';
import { addUse, subjectKey, type LimitRules, type Use } from './velocity.ts';
import { postedEventOf, transactionOf, type ValidatedPosting } from './mapping.ts';
import type { BalanceWrite, PostedWrite } from './write.ts';
import type { Extras, HoldWrite, PartWrite, SubjectWrite, VelocityWrite } from './write-extras.ts';

const lists = ['log', 'newAccounts', 'posted', 'parts', 'shifted', 'metadata', 'subjects'] as const;
type List = (typeof lists)[number];

/** A point to go back to. */
export interface Mark {
  head: Head;
  /** The head as it was. */
  was: Head;
  /** Lengths of what the batch has collected. */
  log: number;
  newAccounts: number;
  posted: number;
  parts: number;
  shifted: number;
  metadata: number;
  subjects: number;
}

/** What the commands of a batch change, in their order. It also changes the tenant states they are applied to. */
export class Changes {
  readonly log: LogRow[] = [];
  /** Suspense accounts that are created by their first use. */
  readonly newAccounts: NewAccount[] = [];
  readonly posted: PostedWrite[] = [];
  readonly parts: PartWrite[] = [];
  readonly shifted: ShiftedWrite[] = [];
  readonly metadata: MetadataWrite[] = [];
  readonly subjects: SubjectWrite[] = [];
  /** Holds after the batch, by what identifies them; {@link set} replaces them. */
  readonly holds = new Map<string, HoldWrite>();
  /** Counts of velocity limits after the batch, as `holds`. */
  readonly velocity = new Map<string, VelocityWrite>();
  /** By the balance after, with which the next change of the same balance begins. */
  private readonly latest = new Map<Balance, BalanceWrite>();
  /** Takes back the writes to maps since the mark, newest last; null while no mark is open. */
  private journal: (() => void)[] | null = null;

  /** One per account and currency. */
  get balances(): BalanceWrite[] {
    return [...this.latest.values()];
  }

  /** What the batch writes besides. */
  get extras(): Extras {
    const { parts, shifted, metadata, subjects } = this;
    return { parts, holds: [...this.holds.values()], velocity: [...this.velocity.values()], shifted, metadata, subjects };
  }

  /** Begins to record changes, until {@link undo} or {@link keep}. What a batch changes it changes by {@link set}, or behind these lengths. */
  mark(head: Head): Mark {
    this.journal = [];
    const lengths = Object.fromEntries(lists.map((list) => [list, this[list].length])) as Record<List, number>;
    return { head, was: { ...head }, ...lengths };
  }

  /** Goes back to the mark. Nothing may be awaited in between: the next batch would build on what is undone. */
  undo({ head, was, ...lengths }: Mark): void {
    for (const takeBack of this.journal?.reverse() ?? []) takeBack();
    this.journal = null;
    for (const list of lists) this[list].length = lengths[list];
    Object.assign(head, was);
  }

  /** Keeps what was changed since the mark. */
  keep(): void {
    this.journal = null;
  }

  /** Writes to a map; `undefined` deletes. */
  set<Key, Value>(map: Map<Key, Value>, key: Key, value: Value | undefined): void {
    if (this.journal) {
      const old = map.get(key);
      this.journal.push(() => write(map, key, old));
    }
    write(map, key, value);
  }

  /**
   * Applies the rules to a posting at `nowMs` of the database's clock (milliseconds since the Unix epoch), or later if the log is ahead.
   * `reversal` is what it takes of the transaction that it reverses. Throws a {@link Refusal}: nothing has changed then.
   */
  post(state: TenantState, posting: ValidatedPosting, reversal: Reversal | null, nowMs: number): Transaction {
    const { head, accounts, rules } = state;
    const effective = this.effectiveTime(state, posting, reversal?.dated ?? null, nowMs);
    // A tenant without the system account of a currency gets it with its first use, as an event of its own.
    const created: { record: AccountRecord; state: AccountState; row: LogRow }[] = [];
    const end = posting.kind === 'double' ? head : { ...head };
    const systemAccount = (code: string) => {
      const existing = accounts.get(code) ?? created.find(({ record }) => record.accountCode === code)?.state;
      if (existing) return existing.account;
      const record = newSystemAccount(code, nextPosition(end, nowMs));
      const opened = { account: accountOf(record), balances: new Map<string, Balance>() };
      created.push({ record, state: opened, row: append(end, createdEvent(record, null, posting), nowMs) });
      return opened.account;
    };
    const books: Books = {
      account: (code) => (posting.kind === 'exchange' && isFxPosition(code) ? systemAccount(code) : accounts.get(code)?.account),
      balance: (account, currency) => accounts.get(account.code)?.balances.get(currency) ?? nothing,
      suspense: (currency) => systemAccount(suspenseCode(currency)),
      velocity: rules ? { rules, atMs: nextPosition(head, nowMs).createdMs } : null,
    };
    const result = post(reversal ? { ...posting, entries: reversal.entries } : posting, books);
    if (effective) assertNotSpentEarly(posting, result.changes, effective.atMs, nextPosition(head, nowMs).createdMs);
    for (const { record, state: opened, row } of created) {
      this.log.push(row);
      this.newAccounts.push({ tenant: posting.tenant, account: record });
      this.set(accounts, record.accountCode, opened);
    }
    if (created.length > 0) Object.assign(head, end);
    const event = postedEventOf(posting, result);
    if (effective) setEffective(event, effective);
    if (reversal?.unreversed) event.unreversed = { $typeName: 'ledger.v1.Unreversed', amounts: reversal.unreversed };
    const { actor, requestId, traceparent } = posting;
    const row = this.append(
      state,
      { type: 'transaction.posted', actor, requestId, traceparent, payload: encodedPosted(event) },
      result,
      nowMs,
    );
    const of = posting.target?.uuid ?? null;
    this.posted.push({ posting, row: this.log.length - 1, result, reverses: reversal?.unreversed === null ? of : null });
    const number = reversal?.part ?? null;
    if (of !== null && number !== null) this.parts.push({ tenant: posting.tenant, of, number, sequence: row.sequence });
    this.date(state, posting, result, row, effective);
    if (posting.personal) this.subjects.push(...subjectsOf(posting.tenant, posting.personal, row.sequence));
    return transactionOf(event, { tenantId: posting.tenantId, sequence: row.sequence, createdMs: row.createdMs });
  }

  /** When a posting counts; null: when it is recorded. Throws {@link Refusal} as `effectiveTime`. */
  effectiveTime(
    { head, books }: TenantState,
    posting: ValidatedPosting,
    original: DatedOriginal | null,
    nowMs: number,
  ): EffectiveTime | null {
    if (posting.effectiveAt === null && original === null) return null;
    // A closing is dated into the period that its own commit closes.
    if (posting.kind === 'closing') return { atMs: posting.effectiveAt as number, requestedMs: null };
    return effectiveTime(posting.effectiveAt, original, nextPosition(head, nowMs).createdMs, books ?? defaultBooks);
  }

  /** Adds what a posting writes because of its time and its metadata; for most nothing. */
  date(state: TenantState, posting: ValidatedPosting, { lines }: Posted, { sequence }: LogRow, effective: EffectiveTime | null): void {
    const { tenant } = posting;
    if (effective) this.shifted.push({ tenant, sequence, effectiveMs: effective.atMs, lines });
    const keys = state.books?.indexedKeys ?? [];
    if (keys.length === 0) return;
    for (const [key, value] of indexedTexts(posting.metadata, keys)) this.metadata.push({ tenant, key, value, sequence });
  }

  /** Appends an event to a tenant's log, with the balances and counts that it changes. */
  append({ head, accounts, rules }: TenantState, event: NewEvent, { changes, uses }: Posted, nowMs: number): LogRow {
    const row = append(head, event, nowMs);
    const { tenant, createdMs: atMs } = row;
    for (const { account, currency, before, after } of changes) {
      const state = accounts.get(account.code) as AccountState;
      this.set(state.balances, currency, after);
      const earlier = this.latest.get(before);
      if (earlier) this.set(this.latest, before, undefined);
      const from = earlier?.from ?? before.version;
      this.set(this.latest, after, { tenant, account: state.account, currency, from, after, atMs });
    }
    if (rules && uses) this.count(tenant, rules, uses, atMs);
    this.log.push(row);
    return row;
  }

  private count(tenant: string, { steps }: LimitRules, uses: Use[], atMs: number): void {
    for (const use of uses) {
      const [limitId, { subject }] = [use.limit.id, use];
      const key = subjectKey(limitId, subject);
      const after = addUse(steps.get(key) ?? [], use, atMs);
      this.set(steps, key, after);
      this.set(this.velocity, `${tenant} ${key}`, { tenant, limitId, subject, steps: after });
    }
  }
}

function subjectsOf(tenant: string, personal: SealedData[], sequence: bigint): SubjectWrite[] {
  return personal.map(({ subjectId }) => ({ tenant, subject: toUuid('subj', subjectId) as string, sequence }));
}

/** Writes into an event when it counts. */
export function setEffective(event: TransactionPosted, { atMs, requestedMs }: EffectiveTime): void {
  event.effectiveMs = BigInt(atMs);
  if (requestedMs !== null) event.requestedEffectiveMs = BigInt(requestedMs);
}

function write<Key, Value>(map: Map<Key, Value>, key: Key, value: Value | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}

function accountOf(record: AccountRecord): CachedAccount {
  return {
    id: record.id,
    uuid: toUuid('acc', record.id) as string,
    code: record.accountCode,
    normalBalance: record.normalBalance as Side,
    currency: record.currency ?? null,
    isGroup: record.isGroup,
    allowNegative: record.allowNegative,
    closed: record.status === 'closed',
    system: record.system,
    rules: accountRules(record),
  };
}
