// Posts the demo's items in batches, each once: a repeated run replays them.
import type { Api } from './api.ts';
import type { Item } from './journal.ts';

// A batch may have 1,000 items and 2,000 entries.
const maxItems = 500;
const maxEntries = 1_900;

const entryCount = (item: Item): number => (item.op === 'double' ? item.entries.length : 7);

/** Posts items in their order. */
export class Poster {
  posted = 0;
  replayed = 0;
  private readonly send: (body: object) => Promise<any>;
  private waiting: Item[] = [];
  private entries = 0;
  private readonly ids = new Map<string, string>();

  /** `path`: of the tenant. */
  constructor(api: Api, path: string) {
    this.send = (body) => api('POST', `${path}/transactions/batch`, body);
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
    const { results, posted, replayed } = await this.send({ items: items.map((item) => this.sent(item)) });
    for (const [index, { status, data, error, details }] of results.entries()) {
      if (status > 201) throw new Error(`${items[index]?.idempotency_key ?? ''}: ${status} ${error} ${JSON.stringify(details)}`);
      this.ids.set(items[index]?.idempotency_key ?? '', data.transaction.transaction_id);
    }
    this.posted += posted;
    this.replayed += replayed;
  }

  private sent(item: Item): object {
    if (item.op !== 'reverse') return item;
    const { reverses, metadata: _, ...reversal } = item;
    return { ...reversal, transaction_id: this.ids.get(reverses) };
  }
}
