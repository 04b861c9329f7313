// Addresses of pages: below the tenant, and with the filters of a page.
import { consolePath } from '../base.ts';
import { useLocation, useRouter, useSearchParams } from 'wouter';

/** The address of a path of this router; for `RouterProvider`. */
export function useHref(path: string): string {
  const { base } = useRouter();
  if (path.startsWith('~')) return path.slice(1);
  return path.startsWith('/') ? base + path : path;
}

/** Goes to a path, below the tenant where the page is one of it. */
export function useGo(): (path: string, options?: { replace?: boolean }) => void {
  return useLocation()[1];
}

/** A path of the console from within a tenant's pages, such as that of another tenant. */
export function outside(path: string): string {
  return `~${consolePath}${path}`;
}

/** The filters of a page, kept in its address; one that is empty is left out. */
export function useFilters<Name extends string>(
  names: readonly Name[],
): [filters: Partial<Record<Name, string>>, set: (changed: Partial<Record<Name, string>>) => void] {
  const [parameters, setParameters] = useSearchParams();
  const filters = Object.fromEntries(names.flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name)]] : []))) as Partial<
    Record<Name, string>
  >;
  const set = (changed: Partial<Record<Name, string>>): void => {
    const next = new URLSearchParams(parameters);
    for (const [name, value] of Object.entries(changed) as [Name, string | undefined][]) {
      if (value === undefined || value === '') next.delete(name);
      else next.set(name, value);
    }
    setParameters(next, { replace: true });
  };
  return [filters, set];
}
