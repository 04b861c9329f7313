// Arithmetic on measured figures.

/** The value that so many percent of the values do not exceed; 0 of none. Sorts `values`. */
export function percentile(values: number[], percent: number): number {
  values.sort((one, other) => one - other);
  return values[Math.max(0, Math.ceil((values.length * percent) / 100) - 1)] ?? 0;
}

/** The middle value, of an even number the mean of the two in the middle; 0 of none. */
export function median(values: number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2;
}
