// API keys as the gateway knows them: what identity said of a key holds for three seconds, so that a revoked key is dead everywhere within
// five, and a posting costs no look-up.
import { crc32 } from 'node:zlib';
import type { VerifiedKey } from '../proto/gen/identity/v1/identity_pb.js';

/** A valid key and its tenant. */
export interface KnownKey {
  /** The key's id: who acts. */
  actor: string;
  tenantId: string;
  slug: string;
  scopes: ReadonlySet<string>;
  /** Milliseconds since the Unix epoch; Infinity where it does not expire. */
  expiresMs: number;
}

interface Entry {
  key: KnownKey | null;
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
export function looksLikeKey(text: string): boolean {
  if (!shape.test(text)) return false;
  let sum = crc32(text.slice(0, -6));
  let checksum = '';
  for (let place = 0; place < 6; place++, sum = Math.floor(sum / 62)) checksum = (digits[sum % 62] ?? '') + checksum;
  return text.endsWith(checksum);
}

/** Asks identity who keys are, in their order; throws where it can't be asked. */
export type Verify = (texts: string[]) => Promise<(VerifiedKey | undefined)[]>;

/** Finds keys by their text, asking identity once for all who ask at once. */
export class Keys {
  // Apart, so that a flood of invented keys pushes no good one out.
  private readonly good = new Map<string, Entry>();
  private readonly bad = new Map<string, Entry>();
  private readonly calls = new Map<string, Promise<KnownKey | null>>();
  private readonly stale = new Set<string>();
  /** Keys that are not known and wait for a call. */
  private readonly unknown = new Map<string, PromiseWithResolvers<KnownKey | null>>();
  private lookUps = 0;
  private readonly verify: Verify;

  constructor(verify: Verify) {
    this.verify = verify;
  }

  /** The key, or null where it is unknown, revoked or expired; at once where that is known. Rejects where identity is away. */
  find(text: string): KnownKey | null | Promise<KnownKey | null> {
    const entry = this.good.get(text) ?? this.bad.get(text);
    if (entry) {
      const age = performance.now() - entry.asked;
      if (age < lifetimeMs) {
        if (age > refreshMs && !this.calls.has(text)) this.refreshSoon(text);
        return unexpired(entry.key);
      }
    }
    return this.calls.get(text) ?? (looksLikeKey(text) ? this.lookUp(text) : null);
  }

  private lookUp(text: string): Promise<KnownKey | null> {
    const found = Promise.withResolvers<KnownKey | null>();
    this.calls.set(text, found.promise);
    this.unknown.set(text, found);
    this.askUnknown();
    return found.promise;
  }

  private askUnknown(): void {
    while (this.unknown.size > 0 && this.lookUps < mostLookUps) {
      const together = [...this.unknown].slice(0, mostLookedUp);
      for (const [text] of together) this.unknown.delete(text);
      this.lookUps++;
      const calls = this.ask(together.map(([text]) => text));
      for (const [place, [, found]] of together.entries()) calls[place]?.then(found.resolve, found.reject);
      void Promise.allSettled(calls).then(() => {
        this.lookUps--;
        this.askUnknown();
      });
    }
  }

  private refreshSoon(text: string): void {
    if (this.stale.size === 0) setTimeout(() => this.refresh(), gatherMs).unref();
    this.stale.add(text);
  }

  private refresh(): void {
    const texts = [...this.stale].filter((text) => !this.calls.has(text));
    this.stale.clear();
    for (let from = 0; from < texts.length; from += mostTogether) {
      // Whoever finds a key expired and identity away says so; nobody waits for these.
      for (const call of this.ask(texts.slice(from, from + mostTogether))) call.catch(() => undefined);
    }
  }

  private ask(texts: string[]): Promise<KnownKey | null>[] {
    const asked = performance.now();
    const answers = this.verify(texts);
    return texts.map((text, place) => {
      const call = answers
        .then((verified) => {
          const key = verified[place] ? known(verified[place]) : null;
          this.good.delete(text);
          this.bad.delete(text);
          keep(key ? this.good : this.bad, text, { key, asked });
          return unexpired(key);
        })
        .finally(() => this.calls.delete(text));
      this.calls.set(text, call);
      return call;
    });
  }
}

function known(verified: VerifiedKey): KnownKey {
  return {
    actor: verified.keyId,
    tenantId: verified.tenantId,
    slug: verified.tenantSlug,
    scopes: new Set(verified.scopes),
    expiresMs: verified.expiresMs === undefined ? Infinity : Number(verified.expiresMs),
  };
}

function unexpired(key: KnownKey | null): KnownKey | null {
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
