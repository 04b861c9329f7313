// Posts the items of an import in batches. Sent again they post nothing twice.
import { setTimeout as pause } from 'node:timers/promises';
import { LedgerError, type Ledger, type SubmitBatchRequest } from '../../clients/typescript/ledger.ts';
import type { Item, Placed } from './check.ts';

// A batch may have 1,000 items, 2,000 entries and 4 MiB.
const max = { items: 500, entries: 1_900, bytes: 3 << 20 };
const attempts = 6;

type Sent = SubmitBatchRequest['items'][number];

/** Called for the progress, and for each item that is refused. */
export interface Hooks {
  done: (count: number) => void;
  refused: (where: string, reason: string, code: string) => void;
}

/** Collects items and posts them in their order. */
export class BatchPoster {
  posted = 0;
  replayed = 0;
  private readonly ledger: Ledger;
  private readonly dryRun: boolean;
  private readonly reversed: ReadonlySet<string>;
  private readonly hooks: Hooks;
  private readonly ids = new Map<string, string>();
  private waiting: Placed[] = [];
  private size = { entries: 0, bytes: 0 };

  /** `reversed`: the keys of items whose ids a later one needs. */
  constructor(ledger: Ledger, { dryRun, reversed, hooks }: { dryRun: boolean; reversed: ReadonlySet<string>; hooks: Hooks }) {
    [this.ledger, this.dryRun, this.reversed, this.hooks] = [ledger, dryRun, reversed, hooks];
  }

  async add(placed: Placed): Promise<void> {
    const { item, entries } = placed;
    const bytes = Buffer.byteLength(JSON.stringify(item));
    const isFull = this.waiting.length === max.items || this.size.entries + entries > max.entries || this.size.bytes + bytes > max.bytes;
    // The id of what it reverses is known when that has been posted.
    if (isFull || this.waiting.some((each) => each.item.idempotency_key === item.reverses)) await this.flush();
    this.waiting.push(placed);
    this.size = { entries: this.size.entries + entries, bytes: this.size.bytes + bytes };
  }

  /** Posts what waits. */
  async flush(): Promise<void> {
    let open = this.waiting;
    [this.waiting, this.size] = [[], { entries: 0, bytes: 0 }];
    const count = open.length;
    for (let attempt = 1; open.length > 0; attempt += 1) {
      const inDoubt = await this.send(open);
      if (inDoubt.length > 0 && attempt === attempts)
        throw new LedgerError('the ledger is overloaded: run the import again, what is posted is not posted twice', {
          status: 503,
          code: 'overloaded',
        });
      if (inDoubt.length > 0) await pause(250 * 2 ** attempt);
      open = inDoubt;
    }
    this.hooks.done(count);
  }

  /** Sends items; answers those in doubt, which are to be sent again. */
  private async send(placed: Placed[]): Promise<Placed[]> {
    const sent = placed.flatMap((each) => {
      const item = this.sentOf(each.item);
      if (!item && !this.dryRun) this.hooks.refused(each.where, 'what it reverses was not posted', 'transaction_not_found');
      return item ? [{ ...each, sent: item }] : [];
    });
    if (sent.length === 0) return [];
    const body = { items: sent.map((each) => each.sent) };
    const { transactions } = this.ledger;
    const options = { timeoutMs: 60_000 };
    const { results } = this.dryRun
      ? await transactions.batch(body, { ...options, dry_run: true })
      : await transactions.batch(body, options);
    return sent.filter(({ where, item }, index) => {
      const result = results[index];
      if (!result) throw new Error('the ledger answered with too few results');
      if (result.status >= 500) return true;
      if (result.status > 201) this.hooks.refused(where, refusalOf(result), result.code ?? '');
      else if (result.replayed) this.replayed += 1;
      else this.posted += 1;
      const id = result.data?.transaction?.transaction_id;
      if (id != null && this.reversed.has(item.idempotency_key)) this.ids.set(item.idempotency_key, id);
      return false;
    });
  }

  private sentOf({ reverses, ...item }: Item): Sent | undefined {
    if (reverses === undefined) return item as Sent;
    const id = this.ids.get(reverses);
    return id === undefined ? undefined : ({ ...item, transaction_id: id } as Sent);
  }
}

function refusalOf({ error, code, details }: { error?: string; code?: string; details?: { field?: string; value?: unknown } }): string {
  const field = details?.field === undefined ? '' : ` (${details.field}: ${String(details.value)})`;
  return `${code ?? ''}: ${error ?? ''}${field}`;
}
