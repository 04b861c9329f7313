// Cache of accounts and balances between batches, by tenant.
import type { Account, Balance } from './accounting.ts';
import type { Head } from './log.ts';
import type { BooksRules } from './books-rules.ts';
import type { LimitRules } from './velocity.ts';

/** An account as the writer needs it. */
export interface CachedAccount extends Account {
  /** The TypeID's UUID, as the database stores it. */
  uuid: string;
}

/** An account with its balances by currency. */
export interface AccountState {
  account: CachedAccount;
  balances: Map<string, Balance>;
}

/** Whether holds have reserved something on an account. */
export function hasPending(state: AccountState | undefined): boolean {
  return [...(state?.balances.values() ?? [])].some(({ pendingDebits, pendingCredits }) => pendingDebits !== 0n || pendingCredits !== 0n);
}

/** A tenant's accounts as of one position in its log. They are valid while the database's head equals `head`. */
export interface TenantState {
  head: Head;
  /** By account code. Codes without an account are not cached: clients can invent any number of them. */
  accounts: Map<string, AccountState>;
  /** Velocity limits with what they have counted of these accounts; null where there are none, undefined until they are read. */
  rules?: LimitRules | null;
  /** Settings of the books that postings depend on; undefined until they are read. */
  books?: BooksRules;
  /** No hold is due before, milliseconds since the Unix epoch; undefined: not known. */
  nextDueMs?: number;
}

/** Tenants' accounts, bounded by their number. Evicts the tenant that was used least recently. */
export class AccountCache {
  private readonly states = new Map<string, TenantState>();
  private readonly maxAccounts: number;
  private accounts = 0;

  constructor(maxAccounts: number) {
    this.maxAccounts = maxAccounts;
  }

  has(tenant: string): boolean {
    return this.states.has(tenant);
  }

  /** Removes a tenant's state and returns it. Put it back once the changes made to it are committed. */
  take(tenant: string): TenantState | undefined {
    const state = this.states.get(tenant);
    if (!state) return undefined;
    this.states.delete(tenant);
    this.accounts -= sizeOf(state);
    return state;
  }

  /** Stores a state as the most recently used, unless it is larger than the whole cache. */
  put(tenant: string, state: TenantState): void {
    this.take(tenant);
    if (sizeOf(state) > this.maxAccounts + 1) return;
    this.states.set(tenant, state);
    this.accounts += sizeOf(state);
    for (const oldest of this.states.keys()) {
      if (this.accounts <= this.maxAccounts) break;
      this.take(oldest);
    }
  }
}

// Each count of a limit has about as many bytes as an account.
function sizeOf({ accounts, rules }: TenantState): number {
  return accounts.size + 1 + (rules ? rules.steps.size : 0);
}
