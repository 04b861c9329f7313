// A list of the API: awaited, it is the first page; iterated, it is all items, page by page.

/** How a list continues. */
interface Paging {
  readonly by: 'cursor' | 'after_sequence' | 'offset';
  /** Where a page has its items: `accounts`, `report.lines`. */
  readonly items: string;
}

interface Pagination {
  next_cursor?: string | null;
  has_more: boolean;
  offset?: number;
}

/** A list. `await list` is one page; `for await (const item of list)` is every item. */
export class Listing<Page, Item> implements PromiseLike<Page>, AsyncIterable<Item> {
  private readonly paging: Paging;
  private readonly read: (position: Record<string, unknown>) => Promise<Page>;
  private first: Promise<Page> | undefined;

  constructor(paging: Paging, read: (position: Record<string, unknown>) => Promise<Page>) {
    this.paging = paging;
    this.read = read;
  }

  /** The first page, or the one that the call asks for. */
  page(): Promise<Page> {
    return (this.first ??= this.read({}));
  }

  then<Fulfilled = Page, Rejected = never>(
    onFulfilled?: ((page: Page) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    return this.page().then(onFulfilled, onRejected);
  }

  /** Every page from the first on. */
  async *pages(): AsyncGenerator<Page, void, undefined> {
    let page: Page = await this.page();
    for (;;) {
      yield page;
      const position = this.positionAfter(page);
      if (!position) return;
      page = await this.read(position);
    }
  }

  /** Every item from the first page on. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const page of this.pages()) yield* this.itemsOf(page);
  }

  /** Every item, in memory; at most `limit`. */
  async all(limit = Number.POSITIVE_INFINITY): Promise<Item[]> {
    const items: Item[] = [];
    if (limit <= 0) return items;
    for await (const item of this) if (items.push(item) >= limit) break;
    return items;
  }

  private itemsOf(page: Page): Item[] {
    return this.paging.items.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], page) as Item[];
  }

  private positionAfter(page: Page): Record<string, unknown> | undefined {
    const { pagination } = page as { pagination: Pagination };
    if (!pagination.has_more) return undefined;
    const items = this.itemsOf(page);
    if (this.paging.by === 'offset') return { offset: (pagination.offset ?? 0) + items.length };
    if (this.paging.by === 'after_sequence') return { after_sequence: (items.at(-1) as { sequence: number } | undefined)?.sequence };
    return { cursor: pagination.next_cursor };
  }
}
