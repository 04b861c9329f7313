// Cache of API-key verifications. Entries live 3 s, so that a revoked key stops working within 5 s.
import { crc32 } from 'node:zlib';
import type { VerifiedKey } from '../proto/gen/identity/v1/identity_pb.js';
import { ApiError } from './errors.ts';

/** A valid key and its tenant. */
export interface AuthenticatedKey {
  /** Who acts: the key's id, or the user's id for an access key. */
  actor: string;
  tenantId: string;
  slug: string;
  /** `active`, `suspended` or `closed`. */
  tenantStatus: string;
  scopes: ReadonlySet<string>;
  /** Milliseconds since the Unix epoch; Infinity where it does not expire. */
  expiresMs: number;
}

interface Entry {
  key: AuthenticatedKey | null;
  /** When the call that verified it began, by the monotonic clock. */
  verifiedMs: number;
}

const ttlMs = 3_000;
// From then on a key in use is verified again in the background, so that its requests never wait.
const refreshAfterMs = 2_500;
const maxEntries = 10_000;
// Calls for unknown keys: a flood of invented ones must not keep identity from other work.
const maxLookups = 500;

const keyPattern = /^lk_live_[0-7][0-9a-hjkmnp-tv-z]{25}_[0-9A-Za-z]{49}$/;
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Whether a text can be a key: `lk_live_<26 characters of its id>_<43 base62><6 base62 of the CRC32 of all before>`. */
export function isWellFormedKey(text: string): boolean {
  if (!keyPattern.test(text)) return false;
  let sum = crc32(text.slice(0, -6));
  let checksum = '';
  for (let place = 0; place < 6; place++, sum = Math.floor(sum / 62)) checksum = (base62[sum % 62] ?? '') + checksum;
  return text.endsWith(checksum);
}

/** Asks identity for a key; undefined where it is unknown or revoked. Throws where identity can't be reached. */
export type VerifyKey = (text: string) => Promise<VerifiedKey | undefined>;

/** Finds keys by their text. Concurrent requests with one key share one call. */
export class ApiKeyCache {
  // Apart, so that a flood of invented keys evicts no valid one.
  private readonly valid = new Map<string, Entry>();
  private readonly invalid = new Map<string, Entry>();
  private readonly calls = new Map<string, Promise<AuthenticatedKey | null>>();
  private readonly verify: VerifyKey;

  constructor(verify: VerifyKey) {
    this.verify = verify;
  }

  /** The key, or null where it is unknown, revoked or expired; without a promise where that is cached. Rejects where identity can't be reached. */
  find(text: string): AuthenticatedKey | null | Promise<AuthenticatedKey | null> {
    const entry = this.valid.get(text) ?? this.invalid.get(text);
    const ageMs = entry ? performance.now() - entry.verifiedMs : Infinity;
    if (entry && ageMs < ttlMs) {
      if (ageMs > refreshAfterMs) this.lookUp(text).catch(() => undefined);
      return unexpired(entry.key);
    }
    return isWellFormedKey(text) ? this.lookUp(text) : null;
  }

  private lookUp(text: string): Promise<AuthenticatedKey | null> {
    const running = this.calls.get(text);
    if (running) return running;
    if (this.calls.size >= maxLookups && !this.valid.has(text)) return Promise.reject(new ApiError('overloaded'));
    const call = this.load(text).finally(() => this.calls.delete(text));
    this.calls.set(text, call);
    return call;
  }

  private async load(text: string): Promise<AuthenticatedKey | null> {
    const verifiedMs = performance.now();
    const answer = await this.verify(text);
    const key = answer ? toKey(answer) : null;
    this.valid.delete(text);
    this.invalid.delete(text);
    store(key ? this.valid : this.invalid, text, { key, verifiedMs });
    return unexpired(key);
  }
}

function toKey(verified: VerifiedKey): AuthenticatedKey {
  return {
    // An identity service of the version before names neither actor nor status.
    actor: verified.actor || verified.keyId,
    tenantId: verified.tenantId,
    slug: verified.tenantSlug,
    tenantStatus: verified.tenantStatus || 'active',
    scopes: new Set(verified.scopes),
    expiresMs: verified.expiresMs === undefined ? Infinity : Number(verified.expiresMs),
  };
}

function unexpired(key: AuthenticatedKey | null): AuthenticatedKey | null {
  return key !== null && key.expiresMs > Date.now() ? key : null;
}

function store(entries: Map<string, Entry>, text: string, entry: Entry): void {
  entries.set(text, entry);
  if (entries.size <= maxEntries) return;
  const [oldest = ''] = entries.keys();
  entries.delete(oldest);
}
