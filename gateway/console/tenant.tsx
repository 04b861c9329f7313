// The tenant of the page: its API, what the user may do there, and reads and writes with their state.
import {
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
  type QueryKey,
  type UseMutationResult,
  type UseQueryResult,
} from '@tanstack/react-query';
import { createContext, useContext, useRef } from 'react';
import type { Ledger, Role, Scope, Tenant } from '../clients/typescript/ledger.ts';

/** A tenant, and the user's rights there. */
export interface TenantContext {
  tenant: Tenant;
  ledger: Ledger;
  scopes: ReadonlySet<Scope>;
}

export const TenantProvider = createContext<TenantContext | undefined>(undefined);

/** The tenant of the page; below `/t/<slug>` only. */
export function useTenant(): TenantContext {
  const found = useContext(TenantProvider);
  if (!found) throw new Error('this page belongs to no tenant');
  return found;
}

/** What something takes: a scope of the ledger, or at least a role in the tenant. */
export type Need = Scope | Role;

const roles: readonly string[] = ['owner', 'admin', 'accountant', 'viewer'];

/** The need that the user lacks here; undefined where it may be done. */
export function useMissing(need: Need | undefined): string | undefined {
  const context = useContext(TenantProvider);
  if (need === undefined || !context) return undefined;
  const { tenant, scopes } = context;
  const has = roles.includes(need) ? roles.indexOf(tenant.role) <= roles.indexOf(need) : scopes.has(need as Scope);
  return has ? undefined : need;
}

interface ReadOptions {
  isEnabled?: boolean;
  /** Read again after so many milliseconds. */
  everyMs?: number;
}

/** Reads something of the tenant. The key names what is read, with all that it depends on. */
export function useRead<Data>(
  key: QueryKey,
  read: (ledger: Ledger, options: { signal: AbortSignal }) => PromiseLike<Data>,
  { isEnabled = true, everyMs }: ReadOptions = {},
): UseQueryResult<Data> {
  const { tenant, ledger } = useTenant();
  return useQuery({
    queryKey: [tenant.slug, ...key],
    queryFn: async ({ signal }) => read(ledger, { signal }),
    enabled: isEnabled,
    refetchInterval: everyMs,
  });
}

/** A list that is read page by page. */
export interface Pages<Item> {
  items: Item[];
  /** Undefined while, or where, there is a first page. */
  query: UseQueryResult;
  /** Reads the next page; undefined where there is none. */
  more: (() => void) | undefined;
  isLoadingMore: boolean;
}

type Position = Record<string, unknown>;

/** Reads a list of the tenant page by page; `itemsOf` finds the items of a page. */
export function usePages<Page, Item>(
  key: QueryKey,
  list: (ledger: Ledger, options: { signal: AbortSignal; limit: number } & Position) => { page: () => Promise<Page> },
  itemsOf: (page: Page) => Item[],
  { isEnabled = true, everyMs }: ReadOptions = {},
): Pages<Item> {
  const { tenant, ledger } = useTenant();
  const query = useInfiniteQuery({
    queryKey: [tenant.slug, ...key],
    queryFn: ({ signal, pageParam }) => list(ledger, { limit: 100, ...pageParam, signal }).page(),
    initialPageParam: {},
    getNextPageParam: (page): Position | undefined => {
      const { pagination } = page as { pagination: { has_more: boolean; next_cursor?: string | null; offset?: number } };
      if (!pagination.has_more) return undefined;
      if (typeof pagination.next_cursor === 'string') return { cursor: pagination.next_cursor };
      const items = itemsOf(page);
      return pagination.offset === undefined
        ? { after_sequence: (items.at(-1) as { sequence: number }).sequence }
        : { offset: pagination.offset + items.length };
    },
    enabled: isEnabled,
    refetchInterval: everyMs,
  });
  const { data, hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  return {
    items: data?.pages.flatMap(itemsOf) ?? [],
    query,
    more: hasNextPage && !isFetchingNextPage ? () => void fetchNextPage() : undefined,
    isLoadingMore: isFetchingNextPage,
  };
}

/**
 * Changes something of the tenant; all that is shown of it is read again afterwards. The idempotency key stays the same until the
 * change has succeeded, so that sending the form again does it once; the next change has a new one.
 */
export function useWrite<Given, Data>(
  write: (ledger: Ledger, given: Given, options: { idempotencyKey: string }) => PromiseLike<Data>,
  onDone?: (data: Data) => void,
): UseMutationResult<Data, Error, Given> {
  const { tenant, ledger } = useTenant();
  const client = useQueryClient();
  const key = useRef(crypto.randomUUID());
  const isRunning = useRef(false);
  const mutation = useMutation({
    mutationFn: async (given: Given) => {
      try {
        return await write(ledger, given, { idempotencyKey: key.current });
      } finally {
        isRunning.current = false;
      }
    },
    onSuccess: (data) => {
      key.current = crypto.randomUUID();
      void client.invalidateQueries({ queryKey: [tenant.slug] });
      onDone?.(data);
    },
  });
  // A double click comes before the button is drawn as pending.
  const mutate: typeof mutation.mutate = (...given) => {
    if (isRunning.current) return;
    isRunning.current = true;
    mutation.mutate(...given);
  };
  return { ...mutation, mutate };
}
