// What a batch changes: each posting, decided by the rules on its tenant's books, and the events, accounts and balances that come of it.
import type { AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toId, toUuid } from '../platform/ids.ts';
import type { Currency } from '../platform/money.ts';
import { Refusal, nothing, opposite, post, type Balance, type Books, type Side } from './accounting.ts';
import type { CachedAccount, AccountState, TenantState } from './account-cache.ts';
import { createdEvent, newSuspenseAccount, nextPosition } from './chart.ts';
import { append, type LogRow } from './log.ts';
import { encodedPosted } from './encoding.ts';
import { eventOfOriginal, type Original } from './writer-queries.ts';
import { suspenseCode } from './templates.ts';
import { postedEventOf, transactionOf, type ValidatedPosting } from './mapping.ts';
import type { ChangedBalance, DecidedPosting } from './write.ts';

/** What the postings of a batch change, in their order. The books that they are posted on are changed by it. */
export class Changes {
  /** What happened. */
  readonly log: LogRow[] = [];
  /** Accounts that come into being. */
  readonly newAccounts: { tenant: string; account: AccountRecord }[] = [];
  readonly posted: DecidedPosting[] = [];
  /** One an account and currency, in the order in which they were first changed. */
  readonly balances: ChangedBalance[] = [];
  /** By what each has come to: the next change of it begins with that. */
  private readonly latest = new Map<Balance, ChangedBalance>();

  /**
   * Posts an order on its tenant's books, at `nowMs` of the database's clock (milliseconds since the Unix epoch) unless the log is further;
   * `original` is what it reverses. Throws a {@link Refusal}: nothing has changed then.
   */
  post({ head, accounts }: TenantState, order: ValidatedPosting, original: Original | null, nowMs: number): Transaction {
    let made: { record: AccountRecord; open: AccountState } | undefined;
    const books: Books = {
      account: (code) => accounts.get(code)?.account,
      balance: (account, currency) => accounts.get(account.code)?.balances.get(currency) ?? nothing,
      suspense: (currency) => {
        const open = accounts.get(suspenseCode(currency));
        if (open) return open.account;
        const record = newSuspenseAccount(currency as Currency, nextPosition(head, nowMs));
        made = { record, open: { account: accountOf(record), balances: new Map() } };
        return made.open.account;
      },
    };
    const result = post(original ? { kind: order.kind, entries: this.mirrored(order, original) } : order, books);
    // The first single entry in a currency of a tenant without a chart: its suspense account comes into being, as an event of its own.
    if (made) {
      this.log.push(append(head, createdEvent(made.record, null, order), nowMs));
      this.newAccounts.push({ tenant: order.tenant, account: made.record });
      accounts.set(made.open.account.code, made.open);
    }
    const said = postedEventOf(order, result);
    const { actor, requestId, traceparent } = order;
    const row = append(head, { type: 'transaction.posted', actor, requestId, traceparent, payload: encodedPosted(said) }, nowMs);
    for (const { account, currency, before, after } of result.changes) {
      const open = accounts.get(account.code) as AccountState;
      open.balances.set(currency, after);
      let changed = this.latest.get(before);
      if (changed) {
        this.latest.delete(before);
        changed.after = after;
        changed.atMs = row.createdMs;
      } else {
        changed = { tenant: order.tenant, account: open.account, currency, from: before.version, after, atMs: row.createdMs };
        this.balances.push(changed);
      }
      this.latest.set(after, changed);
    }
    this.posted.push({ posting: order, row: this.log.length, result });
    this.log.push(row);
    return transactionOf(said, { tenantId: order.tenantId, sequence: row.sequence, createdMs: row.createdMs });
  }

  private mirrored(order: ValidatedPosting, original: Original): ValidatedPosting['entries'] {
    const reverses = order.reverses as { id: string; uuid: string };
    const event = eventOfOriginal(original);
    if (!event && original.reversed_by === null) throw new Refusal('already_reversed', `transaction ${reverses.id} is a reversal itself`);
    const taken = this.posted.some((each) => each.posting.tenant === order.tenant && each.posting.reverses?.uuid === reverses.uuid);
    if (original.reversed_by !== null || taken) {
      const by = original.reversed_by === null ? '' : `, by ${toId('txn', original.reversed_by)}`;
      throw new Refusal('already_reversed', `transaction ${reverses.id} is reversed already${by}`);
    }
    return (event as NonNullable<typeof event>).entries.map((entry) => ({
      code: entry.accountCode,
      amount: BigInt(entry.amount.replace('.', '')),
      side: opposite(entry.side as Side),
      currency: entry.currency,
      counter: entry.counter,
    }));
  }
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
  };
}
