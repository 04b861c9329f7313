// What this process remembers of the tenants' books between batches: accounts and balances, valid exactly while the tenant's head stands
// where this process left it.
import type { Account, Balance } from './accounting.ts';
import type { Head } from './log.ts';

/** An account as the writer knows it. */
export interface CachedAccount extends Account {
  /** The TypeID's UUID, as the database holds it. */
  uuid: string;
}

/** An account with its balances by currency. */
export interface AccountState {
  account: CachedAccount;
  balances: Map<string, Balance>;
}

/** A tenant's books as of one place in its log. */
export interface TenantState {
  /** The end of the log that the rest belongs to. */
  head: Head;
  /** By account code. Codes without an account are not kept: there are as many as somebody cares to invent. */
  accounts: Map<string, AccountState>;
}

/** Books by tenant, bounded by accounts: the tenant not used for longest is forgotten first. */
export class AccountCache {
  private readonly books = new Map<string, TenantState>();
  private readonly maxAccounts: number;
  private accounts = 0;

  constructor(mostAccounts: number) {
    this.maxAccounts = mostAccounts;
  }

  /** Whether the tenant's books are on the shelf. */
  has(tenant: string): boolean {
    return this.books.has(tenant);
  }

  /** Takes the tenant's books off the shelf; whoever holds them puts them back when what they say has been committed. */
  take(tenant: string): TenantState | undefined {
    const books = this.books.get(tenant);
    if (!books) return undefined;
    this.books.delete(tenant);
    this.accounts -= books.accounts.size + 1;
    return books;
  }

  /** Puts books back as the most recently used, unless they alone are too large to keep. */
  put(tenant: string, books: TenantState): void {
    this.take(tenant);
    if (books.accounts.size > this.maxAccounts) return;
    this.books.set(tenant, books);
    this.accounts += books.accounts.size + 1;
    for (const oldest of this.books.keys()) {
      if (this.accounts <= this.maxAccounts) break;
      this.take(oldest);
    }
  }
}
