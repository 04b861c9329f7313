// API keys as the gateway knows them: what identity said of a key holds for three seconds, so that a revoked key is dead everywhere within
// five, and a posting costs no look-up.
import { crc32 } from 'node:zlib';
import type { VerifiedKey } from '../proto/gen/identity/v1/identity_pb.js';

/** A valid key and its tenant. */
export interface AuthenticatedKey {
  /** The key's id: who acts. */
  actor: string;
  tenantId: string;
  slug: string;
  scopes: ReadonlySet<string>;
  /** Milliseconds since the Unix epoch; Infinity where it does not expire. */
  expiresMs: number;
}

interface Entry {
  key: AuthenticatedKey | null;
  /** When identity was asked, by the monotonic clock. */
  asked: number;
}

// From the start of the call that verified it, milliseconds.
const lifetimeMs = 3000;
// Asked again in the background from then on, so that a busy key never waits; together with others of which it is time, so that many busy keys
// cost one call.
const refreshMs = 2500;
const gatherMs = 100;
const mostTogether = 100;
// Of keys that are not known so many calls at a time; what comes meanwhile is asked together. Each in a call of its own, invented keys with
// a right checksum, 4,500 at a time, kept identity from all else.
const mostLookUps = 8;
const mostLookedUp = 1_000;
const maxEntries = 10_000;

const shape = /^lk_live_[0-7][0-9a-hjkmnp-tv-z]{25}_[0-9A-Za-z]{49}$/;
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Whether a text can be a key: `lk_live_<26 characters of its id>_<43 base62><6 base62 of the CRC32 of all before>`. */
export function isWellFormedKey(text: string): boolean {
  if (!shape.test(text)) return false;
  let sum = crc32(text.slice(0, -6));
  let checksum = '';
  for (let place = 0; place < 6; place++, sum = Math.floor(sum / 62)) checksum = (digits[sum % 62] ?? '') + checksum;
  return text.endsWith(checksum);
}

/** Asks identity who keys are, in their order; throws where it can't be asked. */
export type Verify = (texts: string[]) => Promise<(VerifiedKey | undefined)[]>;

/** Finds keys by their text, asking identity once for all who ask at once. */
export class ApiKeyCache {
  // Apart, so that a flood of invented keys pushes no good one out.
  private readonly good = new Map<string, Entry>();
  private readonly bad = new Map<string, Entry>();
  /** Keys whose callers wait. */
  private readonly waited = new Map<string, PromiseWithResolvers<AuthenticatedKey | null>>();
  /** Those of them that wait for a call. */
  private readonly unknown = new Set<string>();
  /** Keys that are asked about in the background, or soon will be. */
  private readonly refreshed = new Set<string>();
  private stale: string[] = [];
  private lookUps = 0;
  private readonly verify: Verify;

  constructor(verify: Verify) {
    this.verify = verify;
  }

  /** The key, or null where it is unknown, revoked or expired; at once where that is known. Rejects where identity is away. */
  find(text: string): AuthenticatedKey | null | Promise<AuthenticatedKey | null> {
    const entry = this.good.get(text) ?? this.bad.get(text);
    if (entry) {
      const age = performance.now() - entry.asked;
      if (age < lifetimeMs) {
        if (age > refreshMs && !this.refreshed.has(text)) this.refreshSoon(text);
        return unexpired(entry.key);
      }
    }
    // Whoever comes while a key is asked about in the background does not wait for that: a replica that stands still had it, and with it a
    // hundred keys, time out after two seconds while another would have answered.
    return this.waited.get(text)?.promise ?? (isWellFormedKey(text) ? this.lookUp(text) : null);
  }

  private lookUp(text: string): Promise<AuthenticatedKey | null> {
    const found = Promise.withResolvers<AuthenticatedKey | null>();
    this.waited.set(text, found);
    this.unknown.add(text);
    this.askUnknown();
    return found.promise;
  }

  private askUnknown(): void {
    while (this.unknown.size > 0 && this.lookUps < mostLookUps) {
      const texts = [...this.unknown].slice(0, mostLookedUp);
      for (const text of texts) this.unknown.delete(text);
      this.lookUps++;
      const waited = texts.map((text) => this.waited.get(text));
      void this.ask(texts)
        .catch((error: unknown) => {
          for (const [place, text] of texts.entries()) {
            waited[place]?.reject(error);
            if (this.waited.get(text) === waited[place]) this.waited.delete(text);
          }
        })
        .finally(() => {
          this.lookUps--;
          this.askUnknown();
        });
    }
  }

  private refreshSoon(text: string): void {
    if (this.stale.length === 0) setTimeout(() => this.refresh(), gatherMs).unref();
    this.stale.push(text);
    this.refreshed.add(text);
  }

  private refresh(): void {
    const texts = this.stale;
    this.stale = [];
    for (let from = 0; from < texts.length; from += mostTogether) {
      const together = texts.slice(from, from + mostTogether);
      // Whoever finds a key expired and identity away says so; nobody waits for these.
      void this.ask(together)
        .catch(() => undefined)
        .finally(() => together.forEach((text) => this.refreshed.delete(text)));
    }
  }

  private async ask(texts: string[]): Promise<void> {
    const asked = performance.now();
    const answers = await this.verify(texts);
    for (const [place, text] of texts.entries()) {
      const answer = answers[place];
      const key = answer ? known(answer) : null;
      // Of two that were under way the later question tells, whichever is answered last.
      const before = this.good.get(text) ?? this.bad.get(text);
      if (before && before.asked > asked) continue;
      this.good.delete(text);
      this.bad.delete(text);
      keep(key ? this.good : this.bad, text, { key, asked });
      this.unknown.delete(text);
      this.waited.get(text)?.resolve(unexpired(key));
      this.waited.delete(text);
    }
  }
}

function known(verified: VerifiedKey): AuthenticatedKey {
  return {
    actor: verified.keyId,
    tenantId: verified.tenantId,
    slug: verified.tenantSlug,
    scopes: new Set(verified.scopes),
    expiresMs: verified.expiresMs === undefined ? Infinity : Number(verified.expiresMs),
  };
}

function unexpired(key: AuthenticatedKey | null): AuthenticatedKey | null {
  return key !== null && key.expiresMs > Date.now() ? key : null;
}

// Entries live three seconds, so the oldest is also the least recently used, near enough.
function keep(entries: Map<string, Entry>, text: string, entry: Entry): void {
  entries.set(text, entry);
  if (entries.size <= maxEntries) return;
  for (const oldest of entries.keys()) {
    entries.delete(oldest);
    return;
  }
}
