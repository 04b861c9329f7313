// What a batch changes: each posting, decided by the rules on its tenant's books, and the events, accounts and balances that come of it.
import type { AccountRecord, TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toUuid } from '../platform/ids.ts';
import type { Currency } from '../platform/money.ts';
import { Refusal, nothing, opposite, post, type Books, type Side } from './accounting.ts';
import type { BookedAccount, OpenAccount, TenantBooks } from './books.ts';
import { createdEvent, newSuspenseAccount, nextPlace } from './chart.ts';
import { chain, place, type Head, type LogRow, type PlacedEvent } from './log.ts';
import type { ChangedBalance, Original, PostedOrder } from './store.ts';
import { suspenseCode } from './templates.ts';
import { encodedTogether, eventOf, postedEvent, transactionOf, type Order } from './wire.ts';

/** What the postings of a batch change, in their order. The books that they are posted on are changed by it. */
export class Changes {
  /** What happened, as far as it is chained. */
  readonly log: LogRow[] = [];
  /** What has its place and waits to be chained: `said` is what the event says, of a posting before it is encoded. */
  private readonly placed: { head: Head; event: PlacedEvent; said: Uint8Array | TransactionPosted }[] = [];
  /** Accounts that come into being. */
  readonly made: { tenant: string; account: AccountRecord }[] = [];
  readonly posted: PostedOrder[] = [];
  /** By account and currency. */
  readonly balances = new Map<string, ChangedBalance>();

  /**
   * Posts an order on its tenant's books, at `nowMs` of the database's clock (milliseconds since the Unix epoch) unless the log is further;
   * `original` is what it reverses. Throws a {@link Refusal}: nothing has changed then.
   */
  post({ head, accounts }: TenantBooks, order: Order, original: Original | null, nowMs: number): Transaction {
    let made: { record: AccountRecord; open: OpenAccount } | undefined;
    const books: Books = {
      account: (code) => accounts.get(code)?.account,
      balance: (account, currency) => accounts.get(account.code)?.balances.get(currency) ?? nothing,
      suspense: (currency) => {
        const open = accounts.get(suspenseCode(currency));
        if (open) return open.account;
        const record = newSuspenseAccount(currency as Currency, nextPlace(head, nowMs));
        made = { record, open: { account: accountOf(record), balances: new Map() } };
        return made.open.account;
      },
    };
    const result = post(original ? { kind: order.kind, entries: this.mirrored(order, original) } : order, books);
    // The first single entry in a currency of a tenant without a chart: its suspense account comes into being, as an event of its own.
    if (made) {
      const { payload, ...created } = createdEvent(made.record, null, order);
      this.placed.push({ head, event: place(head, created, nowMs), said: payload });
      this.made.push({ tenant: order.tenant, account: made.record });
      accounts.set(made.open.account.code, made.open);
    }
    const said = eventOf(order, result);
    const { actor, requestId, traceparent } = order;
    const event = place(head, { type: 'transaction.posted', actor, requestId, traceparent }, nowMs);
    for (const change of result.changes) {
      const open = accounts.get(change.account.code) as OpenAccount;
      open.balances.set(change.currency, change.after);
      const key = `${change.account.id} ${change.currency}`;
      const first = this.balances.get(key);
      const from = first?.from ?? change.before.version;
      this.balances.set(key, {
        tenant: order.tenant,
        account: open.account,
        currency: change.currency,
        from,
        after: change.after,
        atMs: event.createdMs,
      });
    }
    this.posted.push({ order, row: this.log.length + this.placed.length, result });
    this.placed.push({ head, event, said });
    return transactionOf(said, { tenantId: order.tenantId, sequence: event.sequence, createdMs: event.createdMs });
  }

  /** Encodes and chains what has happened since the last call; until then the hashes of the heads are of before. */
  chain(): void {
    const placed = this.placed.splice(0);
    const payloads = encodedTogether(placed.flatMap(({ said }) => (said instanceof Uint8Array ? [] : said))).values();
    for (const { head, event, said } of placed) {
      this.log.push(chain(head, event, said instanceof Uint8Array ? said : (payloads.next().value as Uint8Array)));
    }
  }

  private mirrored(order: Order, original: Original): Order['entries'] {
    const reverses = order.reverses as { id: string; uuid: string };
    const event = postedEvent(original.payload);
    if (event.kind === 'reversal') throw new Refusal('already_reversed', `transaction ${reverses.id} is a reversal itself`);
    const taken = this.posted.some((each) => each.order.tenant === order.tenant && each.order.reverses?.uuid === reverses.uuid);
    if (original.reversed_by !== null || taken) throw new Refusal('already_reversed', `transaction ${reverses.id} is reversed already`);
    return event.entries.map((entry) => ({
      code: entry.accountCode,
      amount: BigInt(entry.amount.replace('.', '')),
      side: opposite(entry.side as Side),
      currency: entry.currency,
      counter: entry.counter,
    }));
  }
}

function accountOf(record: AccountRecord): BookedAccount {
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
