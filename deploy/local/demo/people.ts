// The demo's users, its tenant, members, invitations and API keys.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import PostalMime from 'postal-mime';
import { scopes } from '../../../services/platform/roles.ts';
import { Ledger, LedgerError } from '../../../gateway/clients/typescript/ledger.ts';

const dayMs = 86_400_000;

/** A user who can log in. */
export interface DemoUser {
  email: string;
  password: string;
  first_name: string;
  last_name: string;
}

/** The password of all users: a demo runs on a machine of one's own. */
const password = 'demo-password-42';

/** The owner. */
export const owner: DemoUser = { email: 'demo@example.com', password, first_name: 'Ada', last_name: 'Demo' };

const colleagues = [
  { role: 'accountant', user: { email: 'accountant@example.com', password, first_name: 'Grace', last_name: 'Okafor' } },
  { role: 'viewer', user: { email: 'viewer@example.com', password, first_name: 'Ben', last_name: 'Meyer' } },
] as const;

/** Registers a user, unless there is one, and logs in; answers the token. */
export async function logIn(url: string, user: DemoUser): Promise<string> {
  const { auth } = new Ledger({ url });
  await auth.register({ ...user }).catch((error: unknown) => {
    if (!(error instanceof LedgerError) || error.code !== 'email_taken') throw error;
  });
  const session = await auth.login({ email: user.email, password: user.password }).catch((error: unknown) => {
    if (error instanceof LedgerError && error.status === 401) throw new Error(`${user.email} is registered with another password`);
    throw error;
  });
  return session.token;
}

/** Makes an accountant and a viewer members, as far as their mails can be read, and leaves one invitation open. */
export async function inviteColleagues(ledger: Ledger, mailDirectory: string | undefined): Promise<void> {
  const members = await ledger.members.list({ limit: 100 }).all();
  for (const { role, user } of colleagues) {
    if (mailDirectory === undefined || members.some(({ email }) => email === user.email)) continue;
    const { url } = ledger.options;
    const colleague = new Ledger({ url, token: await logIn(url, user) });
    await colleague.auth.sendVerification();
    await ledger.invitations.create({ email: user.email, role });
    const verified = await tokenOf(mailDirectory, user.email, 'verify-email');
    const invited = verified === undefined ? undefined : await tokenOf(mailDirectory, user.email, 'accept-invitation');
    if (verified === undefined || invited === undefined) break;
    await colleague.auth.verifyEmail({ token: verified });
    await colleague.invitations.accept({ token: invited });
  }
  const auditor = 'auditor@example.com';
  const invitations = await ledger.invitations.list({ limit: 100 }).all();
  if (!invitations.some(({ email }) => email === auditor)) await ledger.invitations.create({ email: auditor, role: 'viewer' });
}

/** The token of the newest mail of a kind, which may come a moment later; undefined where the deployment writes its mails elsewhere. */
async function tokenOf(directory: string, email: string, action: string): Promise<string | undefined> {
  for (const until = Date.now() + 20_000; Date.now() < until; await pause(100)) {
    const files = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith('.eml')).sort();
    for (const file of files.reverse()) {
      const mail = await PostalMime.parse(await readFile(join(directory, file)));
      const token = new RegExp(`/mail/${action}\\?token=(\\S+)`).exec(mail.text ?? '')?.[1];
      if (token !== undefined && mail.to?.some(({ address }) => address === email)) return token;
    }
  }
  return undefined;
}

/** Keys of every kind: one without an end, one that ends in a week, one that is revoked. */
export async function makeKeys({ keys }: Ledger): Promise<void> {
  const known = await keys.list({ limit: 100 }).all();
  const isMissing = (name: string) => !known.some((key) => key.name === name);
  if (isMissing('Card service'))
    await keys.create({ name: 'Card service', description: 'Posts card deposits', scopes: ['transactions:write', 'balances:read'] });
  if (isMissing('Reporting')) {
    const expires_at = new Date(Date.now() + 7 * dayMs).toISOString();
    const reading = scopes.filter((scope) => scope.endsWith(':read') && scope !== 'personal:read');
    await keys.create({ name: 'Reporting', description: 'Of the monthly report, for a week', scopes: reading, expires_at });
  }
  if (isMissing('Old mobile app')) {
    const { api_key } = await keys.create({ name: 'Old mobile app', scopes: ['transactions:read'] });
    await keys.revoke(api_key.id);
  }
}
