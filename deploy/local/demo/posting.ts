// Posts the demo's items in batches, each once: a repeated run replays them.
import type { Ledger, SubmitBatchRequest } from '../../../gateway/clients/typescript/ledger.ts';
import type { Item } from './journal.ts';

// A batch may have 1,000 items and 2,000 entries.
const maxItems = 500;
const maxEntries = 1_900;

const entryCount = (item: Item): number => (item.op === 'double' ? item.entries.length : 7);

/** Posts items in their order. */
export class Poster {
  posted = 0;
  replayed = 0;
  private readonly ledger: Ledger;
  private waiting: Item[] = [];
  private entries = 0;
  private readonly ids = new Map<string, string>();

  constructor(ledger: Ledger) {
    this.ledger = ledger;
  }

  async add(item: Item): Promise<void> {
    // Its id is known when its batch has been answered.
    if (item.op === 'reverse' && this.waiting.some(({ idempotency_key }) => idempotency_key === item.reverses)) await this.flush();
    if (this.waiting.length === maxItems || this.entries + entryCount(item) > maxEntries) await this.flush();
    this.waiting.push(item);
    this.entries += entryCount(item);
  }

  /** Posts what is waiting. */
  async flush(): Promise<void> {
    const items = this.waiting;
    if (items.length === 0) return;
    [this.waiting, this.entries] = [[], 0];
    const { results, posted, replayed } = await this.ledger.transactions.batch({ items: items.map((item) => this.sent(item)) });
    for (const [index, { data, error, details }] of results.entries()) {
      const key = items[index]?.idempotency_key ?? '';
      const id = data?.transaction?.transaction_id;
      if (id == null) throw new Error(`${key}: ${error ?? ''} ${JSON.stringify(details ?? {})}`);
      this.ids.set(key, id);
    }
    this.posted += posted;
    this.replayed += replayed;
  }

  private sent(item: Item): SubmitBatchRequest['items'][number] {
    if (item.op !== 'reverse') return item;
    const { reverses, ...reversal } = item;
    return { ...reversal, transaction_id: this.ids.get(reverses) ?? '' };
  }
}
