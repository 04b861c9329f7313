// What this process remembers of the tenants' books between batches: accounts and balances, valid exactly while the tenant's locked head is
// the very row that this process wrote or read last. Whoever changes the books writes a new one, a rebuild too.
import type { Account, Balance } from './accounting.ts';

/** An account as the writer knows it. */
export interface BookedAccount extends Account {
  /** The TypeID's UUID, as the database holds it. */
  uuid: string;
}

/** An account with its balances by currency. */
export interface OpenAccount {
  account: BookedAccount;
  balances: Map<string, Balance>;
}

/** A tenant's books as of one place in its log. */
export interface TenantBooks {
  /** The transaction that wrote the head's row as it stood when this was true. */
  xmin: string;
  /** By account code; null where there was no such account. */
  accounts: Map<string, OpenAccount | null>;
}

/** Books by tenant, bounded by accounts: the tenant not used for longest is forgotten first. */
export class Shelf {
  private readonly books = new Map<string, TenantBooks>();
  private readonly mostAccounts: number;
  private accounts = 0;

  constructor(mostAccounts: number) {
    this.mostAccounts = mostAccounts;
  }

  /** Takes the tenant's books off the shelf; whoever holds them puts them back when what they say has been committed. */
  take(tenant: string): TenantBooks | undefined {
    const books = this.books.get(tenant);
    if (!books) return undefined;
    this.books.delete(tenant);
    this.accounts -= books.accounts.size + 1;
    return books;
  }

  /** Puts books back as the most recently used, unless they alone are too large to keep. */
  put(tenant: string, books: TenantBooks): void {
    this.take(tenant);
    if (books.accounts.size > this.mostAccounts) return;
    this.books.set(tenant, books);
    this.accounts += books.accounts.size + 1;
    for (const oldest of this.books.keys()) {
      if (this.accounts <= this.mostAccounts) break;
      this.take(oldest);
    }
  }
}
