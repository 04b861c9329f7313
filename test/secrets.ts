// Collects the secrets that go over REST in a test, to look for them afterwards where none may be.
import type { Answer, RestOptions } from './cluster.ts';

type Rest = (method: string, path: string, options?: RestOptions) => Promise<Answer>;

/** The secrets of a run. */
export interface Secrets {
  rest: Rest;
  /** Keeps one that goes another way. */
  keep(kind: string, secret: string): void;
  /** The bodies of refusals. */
  errors: string[];
  /** How many there are of each kind, by the name of their field. */
  kinds(): Record<string, number>;
  /** The kinds of those that are in a text. */
  foundIn(text: string): string[];
}

const names = /^(password|current|code|totp_code|recovery_codes|secret|otpauth_url|token|refresh_token|key)$/;

/** Calls with this `rest` keep the secrets of their bodies and answers. */
export function keepSecrets(given: Rest): Secrets {
  const found = new Map<string, string>();
  const errors: string[] = [];
  const collect = (value: unknown, name = ''): void => {
    if (typeof value === 'string' && names.test(name)) found.set(value, name);
    if (typeof value !== 'object' || value === null) return;
    for (const [key, each] of Object.entries(value)) collect(each, Array.isArray(value) ? name : key);
  };
  return {
    async rest(method, path, options) {
      const answer = await given(method, path, options);
      collect(options?.body);
      // `code` of a refusal says what went wrong.
      if (answer.body?.success === true) collect(answer.body.data);
      else errors.push(JSON.stringify(answer.body));
      return answer;
    },
    keep: (kind, secret) => void found.set(secret, kind),
    errors,
    kinds: () =>
      Object.fromEntries(Object.entries(Object.groupBy(found.values(), (kind) => kind)).map(([kind, all]) => [kind, all?.length ?? 0])),
    // Six digits may be a part of any number.
    foundIn: (text) =>
      [...found].flatMap(([secret, kind]) => {
        const isThere = /^\d{6}$/.test(secret) ? new RegExp(`(?<![\\w.])${secret}(?!\\w)`).test(text) : text.includes(secret);
        return isThere ? [kind] : [];
      }),
  };
}
