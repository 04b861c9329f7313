// Where a caller stands with a limit.

/** A limit's figures for one caller. */
export interface RateLimitStatus {
  policy: string;
  quota: number;
  /** Seconds. */
  window: number;
  remaining: number;
  /** Seconds until one more is allowed. */
  reset: number;
}

/** The figures as the metadata of a refusal. */
export function rateLimitMetadata(standing: RateLimitStatus): Record<string, string> {
  return Object.fromEntries(Object.entries(standing).map(([name, value]) => [name, String(value)]));
}
