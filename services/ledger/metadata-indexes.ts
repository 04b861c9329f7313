// Which keys of transactions' metadata are indexed from which event on, and whose index is complete.

/**
 * For each key the sequence of the event that declared it. `before`: the same before that event. A key that comes back is new: between its times
 * nothing was indexed.
 */
export function declaredSince(before: Record<string, number>, keys: readonly string[], sequence: bigint): Record<string, number> {
  const known = new Map(Object.entries(before));
  return Object.fromEntries([...keys].sort().map((key) => [key, known.get(key) ?? Number(sequence)]));
}

/** A sub-select of the keys of the row `books` whose transactions of before their declaration are indexed too. */
export const readyKeys = `select i.name from search_indexes i where i.tenant_id = books.tenant_id
  and i.since = (books.indexed_since::jsonb ->> i.name)::bigint and i.through >= i.since - 1`;
