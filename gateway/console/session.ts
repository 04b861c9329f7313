// The session of this browser: the login in memory, its renewal one tab at a time, and access keys to tenants.
import { Ledger, LedgerError, type AccessKey, type Problem, type User } from '../clients/typescript/ledger.ts';
import { apiUrl } from './base.ts';

/** A login. */
export interface Session {
  token: string;
  expires_at: string;
  user: User;
}

/** What a tab reports to the others. */
type Message = 'opened' | 'closed';

// Renewed this long before it ends.
const marginMs = 120_000;
// Where this clock is ahead, every credential looks old: a new one is used at least this long, unless the API refuses it.
const leastUseMs = 300_000;
// Calls that were refused together renew once.
const sameRefusalMs = 2_000;

/** `undefined`: not known yet; `null`: logged out. */
let current: Session | null | undefined;
let renewedMs = 0;
let restoring: Promise<Session | null> | undefined;
const listeners = new Set<() => void>();
const tabs = new BroadcastChannel('ledger-session');

tabs.onmessage = ({ data }: MessageEvent<Message>) => {
  if (data === 'closed') set(null);
  // Where another user has logged in, this tab is theirs too.
  else restore().catch(() => undefined);
};

function set(next: Session | null): void {
  if (current?.user.id !== next?.user.id) accesses.clear();
  [current, renewedMs] = [next, Date.now()];
  for (const listener of listeners) listener();
}

const endsSoon = ({ expires_at: end }: { expires_at: string }, madeMs: number): boolean =>
  Date.parse(end) - Date.now() < marginMs && Date.now() - madeMs > leastUseMs;

// The session's routes belong to the console and not to the API, so the client has no methods for them.
async function call(method: string, path: string, body?: object): Promise<{ session: Session | null }> {
  const headers = body && { 'content-type': 'application/json' };
  // One tab at a time: a refresh token works once, and an answer that sets the cookie must not come after a log-out.
  const response = await navigator.locks.request('ledger-session', () =>
    fetch(`${apiUrl}/console/session${path}`, { method, headers, body: body && JSON.stringify(body) }),
  );
  const { data, error, ...problem } = (await response.json()) as Partial<Problem> & { data: { session: Session | null } };
  if (response.ok) return data;
  throw new LedgerError(error ?? response.statusText, { ...problem, requestId: problem.request_id, status: response.status });
}

/** For `useSyncExternalStore`. */
export const session = {
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  read: (): Session | null | undefined => current,
};

/** Logs in. Throws `LedgerError`; its code is `totp_required` where a second factor is asked for. */
export async function logIn(credentials: { email: string; password: string; totp_code?: string }): Promise<void> {
  set((await call('POST', '', credentials)).session);
  tabs.postMessage('opened' satisfies Message);
}

/** Logs out, in all tabs. */
export async function logOut(): Promise<void> {
  await call('DELETE', '');
  set(null);
  tabs.postMessage('closed' satisfies Message);
}

/** Renews the login by the cookie; resolves to null where there is none, or it has ended. Rejects where nothing answers. */
export function restore(): Promise<Session | null> {
  restoring ??= call('POST', '/refresh')
    .catch((error: unknown) => {
      if (error instanceof LedgerError && error.status === 401) return { session: null };
      throw error;
    })
    .then((renewed) => {
      set(renewed.session);
      return renewed.session;
    })
    .finally(() => (restoring = undefined));
  return restoring;
}

/** The token of the login, renewed before it ends or where the API has refused it. Empty where the session has ended. */
async function token(isRefused: boolean): Promise<string> {
  const isOld = !current || endsSoon(current, renewedMs) || (isRefused && Date.now() - renewedMs > sameRefusalMs);
  return (isOld && current !== null ? await restore() : current)?.token ?? '';
}

const accesses = new Map<string, { madeMs: number; access: Promise<AccessKey> }>();

/** The access key to a tenant with its scopes, renewed before it ends or where the API has refused it. */
export async function accessTo(tenant: string, isRefused = false): Promise<AccessKey> {
  const known = accesses.get(tenant);
  if (known && !(isRefused && Date.now() - known.madeMs > sameRefusalMs)) {
    const access = await known.access;
    if (!endsSoon(access, known.madeMs)) return access;
  }
  // Another call may have asked meanwhile.
  if (accesses.get(tenant) !== known) return accessTo(tenant);
  const access = ledgerOf(tenant)
    .keys.access()
    .then((answered) => answered.access);
  accesses.set(tenant, { madeMs: Date.now(), access });
  access.catch(() => accesses.delete(tenant));
  return access;
}

/** The API as this user. */
export const ledger = new Ledger({ url: apiUrl, token });

const ledgers = new Map<string, Ledger>();

/** The API of a tenant as this user. */
export function ledgerOf(tenant: string): Ledger {
  const key = async (isRefused: boolean): Promise<string> => (await accessTo(tenant, isRefused)).key;
  const known = ledgers.get(tenant) ?? new Ledger({ url: apiUrl, tenant, token, key });
  ledgers.set(tenant, known);
  return known;
}
