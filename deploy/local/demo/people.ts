// The demo's users, its tenant, members, invitations and API keys.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import PostalMime from 'postal-mime';
import { scopes } from '../../../services/platform/roles.ts';
import { apiOf, ApiProblem, type Api } from './api.ts';

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

/** Registers a user, unless there is one, and logs in. */
export async function logIn(url: string, user: DemoUser): Promise<Api> {
  const anyone = apiOf(url);
  await anyone('POST', '/v1/auth/register', user).catch((error: unknown) => {
    if (!(error instanceof ApiProblem) || error.code !== 'email_taken') throw error;
  });
  const { token } = await anyone('POST', '/v1/auth/login', { email: user.email, password: user.password }).catch((error: unknown) => {
    if (error instanceof ApiProblem && error.status === 401) throw new Error(`${user.email} is registered with another password`);
    throw error;
  });
  return apiOf(url, token as string);
}

/** Makes an accountant and a viewer members, as far as their mails can be read, and leaves one invitation open. */
export async function inviteColleagues(url: string, api: Api, tenantId: string, mailDirectory: string | undefined): Promise<void> {
  const { members } = await api('GET', `/v1/tenants/${tenantId}/members?limit=100`);
  for (const { role, user } of mailDirectory === undefined ? [] : colleagues) {
    if (members.some(({ email }: { email: string }) => email === user.email)) continue;
    const colleague = await logIn(url, user);
    await colleague('POST', '/v1/auth/email/send');
    await api('POST', `/v1/tenants/${tenantId}/invitations`, { email: user.email, role });
    const verified = await tokenOf(mailDirectory as string, user.email, 'verify-email');
    await apiOf(url)('POST', '/v1/auth/email/verify', { token: verified });
    const invited = await tokenOf(mailDirectory as string, user.email, 'accept-invitation');
    await colleague('POST', '/v1/invitations/accept', { token: invited });
  }
  const { invitations } = await api('GET', `/v1/tenants/${tenantId}/invitations?limit=100`);
  if (!invitations.some(({ email }: { email: string }) => email === 'auditor@example.com'))
    await api('POST', `/v1/tenants/${tenantId}/invitations`, { email: 'auditor@example.com', role: 'viewer' });
}

/** The token of the newest mail of a kind, which may come a moment later. */
async function tokenOf(directory: string, email: string, action: string): Promise<string> {
  for (const until = Date.now() + 20_000; Date.now() < until; await pause(100)) {
    const files = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith('.eml')).sort();
    for (const file of files.reverse()) {
      const mail = await PostalMime.parse(await readFile(join(directory, file)));
      const token = new RegExp(`/mail/${action}\\?token=(\\S+)`).exec(mail.text ?? '')?.[1];
      if (token !== undefined && mail.to?.some(({ address }) => address === email)) return token;
    }
  }
  throw new Error(`no mail to ${email} has come to ${directory} in 20 s`);
}

/** Keys of every kind; answers the text of one with all scopes, or undefined where it was made before. */
export async function makeKeys(api: Api, tenantId: string): Promise<void> {
  const path = `/v1/tenants/${tenantId}/api-keys`;
  const { api_keys: known } = await api('GET', `${path}?limit=100`);
  const missing = (name: string) => !known.some((key: { name: string }) => key.name === name);
  if (missing('Card service'))
    await api('POST', path, { name: 'Card service', description: 'Posts card deposits', scopes: ['transactions:write', 'balances:read'] });
  if (missing('Reporting')) {
    const expires_at = new Date(Date.now() + 7 * dayMs).toISOString();
    const reading = scopes.filter((scope) => scope.endsWith(':read') && scope !== 'personal:read');
    await api('POST', path, { name: 'Reporting', description: 'Of the monthly report, for a week', scopes: reading, expires_at });
  }
  if (missing('Old mobile app')) {
    const { api_key } = await api('POST', path, { name: 'Old mobile app', scopes: ['transactions:read'] });
    await api('DELETE', `${path}/${api_key.id}`);
  }
}

/** A key with all scopes. */
export async function newKey(api: Api, tenantId: string, name: string): Promise<string> {
  const { api_key } = await api('POST', `/v1/tenants/${tenantId}/api-keys`, { name, scopes: [...scopes] });
  return api_key.key as string;
}

/** A key for the demo's own calls, which ends within the hour. */
export async function accessKey(api: Api, tenantId: string): Promise<string> {
  const { access } = await api('POST', `/v1/tenants/${tenantId}/access`);
  return access.key as string;
}
