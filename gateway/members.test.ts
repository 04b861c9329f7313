// Members and invitations through REST: from the mail to the first posting, and how access keys end.
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import type { Person, Tenant } from '../test/cluster.ts';
import { deposit, id, time } from '../test/customer.ts';
import { addMember } from '../test/members.ts';
import { until } from '../test/polling.ts';

let cluster: CheckedCluster;
let tenant: Tenant;
let owner: Person;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  tenant = await cluster.tenant();
  owner = tenant.owner;
  const key = await cluster.apiKey(tenant);
  await cluster.rest('POST', `/v1/tenants/${tenant.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});
afterAll(() => cluster.stop());

const call = (method: string, path: string, by: Person, body?: object) =>
  cluster.rest(method, `/v1/tenants/${tenant.id}/${path}`, { key: by.token, ...(body && { body }) });
const accept = (person: Person, token: string) => cluster.rest('POST', '/v1/invitations/accept', { key: person.token, body: { token } });
/** The token of the newest mail to an address, which got that many. */
const tokenOf = async (email: string, count: number) => (await cluster.mails(email, count)).at(-1)!.token;

/** A new user whose email is verified by its mail, its first one. */
async function verified(): Promise<Person> {
  const person = await cluster.signUp();
  await cluster.rest('POST', '/v1/auth/email/send', { key: person.token });
  const answer = await cluster.rest('POST', '/v1/auth/email/verify', { body: { token: await tokenOf(person.email, 1) } });
  expect(answer.status).toBe(200);
  return person;
}

async function accessKey(person: Person): Promise<string> {
  const { status, body } = await call('POST', 'access', person);
  expect(status).toBe(201);
  return body.data.access.key;
}
const read = (key: string) => cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts`, { key });
const post = (key: string) => cluster.rest('POST', `/v1/tenants/${tenant.slug}/transactions/double-entry`, { key, body: deposit('1.00') });

test('a person is invited by mail, accepts, is listed, and posts as itself', async () => {
  const person = await verified();
  const invitation = { email: person.email, role: 'accountant' };
  const invited = await call('POST', 'invitations', owner, invitation);
  expect(invited.status).toBe(201);
  const shown = { id: id('inv'), ...invitation, status: 'pending', invited_by: owner.id, created_at: time, expires_at: time };
  expect(invited.body.data).toEqual({ invitation: shown });
  expect((await call('GET', 'invitations', owner)).body.data.invitations).toEqual([invited.body.data.invitation]);

  const token = await tokenOf(person.email, 2);
  const accepted = await accept(person, token);
  expect(accepted.status).toBe(200);
  const named = { email: person.email, first_name: 'Ada', last_name: 'Lovelace' };
  const member = { user_id: person.id, ...named, role: 'accountant', totp_enabled: false, created_at: time };
  expect(accepted.body.data.member).toEqual(member);
  expect(accepted.body.data.tenant).toMatchObject({ id: tenant.id, slug: tenant.slug, role: 'accountant', status: 'active' });
  expect((await call('GET', 'members', person)).body.data.members.map((each: any) => [each.user_id, each.role])).toEqual([
    [person.id, 'accountant'],
    [owner.id, 'owner'],
  ]);
  const { tenants } = (await cluster.rest('GET', '/v1/tenants', { key: person.token })).body.data;
  expect(tenants).toEqual([accepted.body.data.tenant]);
  const again = await accept(person, token);
  expect([again.status, again.body.code, again.body.details]).toEqual([
    422,
    'token_invalid',
    { field: 'token', tag: 'token_invalid', value: '' },
  ]);

  const key = await accessKey(person);
  const posted = await post(key);
  expect(posted.status).toBe(201);
  const { events } = (await cluster.rest('GET', `/v1/tenants/${tenant.slug}/events?limit=100`, { key })).body.data;
  const { sequence } = posted.body.data.transaction;
  expect(events.find((each: any) => each.sequence === sequence).actor).toBe(person.id);
});

test('an invitation is accepted by the verified email to which it was sent, and by no other', async () => {
  const person = await cluster.signUp();
  await call('POST', 'invitations', owner, { email: person.email, role: 'viewer' });
  const token = await tokenOf(person.email, 1);
  const codes = async (by: Person) => {
    const { status, body } = await accept(by, token);
    return [status, body.code];
  };
  expect(await codes(person)).toEqual([403, 'email_unverified']);
  expect(await codes(await verified())).toEqual([403, 'forbidden']);
  await cluster.rest('POST', '/v1/auth/email/send', { key: person.token });
  await cluster.rest('POST', '/v1/auth/email/verify', { body: { token: await tokenOf(person.email, 2) } });
  expect(await codes(person)).toEqual([200, undefined]);
  const member = await call('POST', 'invitations', owner, { email: person.email.toUpperCase(), role: 'viewer' });
  expect([member.status, member.body.code, member.body.details.field]).toEqual([409, 'member_exists', 'email']);
});

test('a revoked invitation can not be accepted, and an address gets five mails an hour', async () => {
  const person = await verified();
  const body = { email: person.email, role: 'viewer' };
  const { invitation } = (await call('POST', 'invitations', owner, body)).body.data;
  const token = await tokenOf(person.email, 2);
  const path = `invitations/${invitation.id}`;
  const revoked = { success: true, data: { id: invitation.id, deleted: true } };
  expect((await call('DELETE', path, owner)).body).toEqual(revoked);
  expect((await call('DELETE', path, owner)).body).toEqual(revoked);
  expect((await accept(person, token)).body.code).toBe('token_invalid');
  for (let count = 2; count < 5; count += 1) expect((await call('POST', 'invitations', owner, body)).status).toBe(201);
  const { status, headers, body: refused } = await call('POST', 'invitations', owner, body);
  expect([status, refused.code, headers.get('ratelimit-policy')]).toEqual([429, 'rate_limited', '"mail";q=5;w=3600']);
});

test('the last owner stays, and an admin makes no owner', async () => {
  const admin = await cluster.signUp();
  await addMember(cluster.databases.identity.adminUrl, tenant.id, admin.id, 'admin');
  const codes = async (answer: ReturnType<typeof call>) => {
    const { status, body } = await answer;
    return [status, body.code];
  };
  expect(await codes(call('DELETE', `members/${owner.id}`, owner))).toEqual([409, 'last_owner']);
  expect(await codes(call('PATCH', `members/${owner.id}`, owner, { role: 'viewer' }))).toEqual([409, 'last_owner']);
  expect(await codes(call('PATCH', `members/${admin.id}`, admin, { role: 'owner' }))).toEqual([403, 'forbidden']);
  expect(await codes(call('DELETE', `members/${owner.id}`, admin))).toEqual([403, 'forbidden']);
  expect(await codes(call('POST', 'invitations', admin, { email: 'a@example.com', role: 'owner' }))).toEqual([403, 'forbidden']);
});

test.each([
  ['PATCH', { role: 'viewer' }, 200],
  ['DELETE', undefined, 404],
])('after %s of a member its access key is 401 within 5 seconds, while it is in use', async (method, body, next) => {
  const person = await cluster.signUp();
  await addMember(cluster.databases.identity.adminUrl, tenant.id, person.id, 'accountant');
  const [key, owners] = [await accessKey(person), await accessKey(owner)];
  expect([(await read(key)).status, (await post(key)).status]).toEqual([200, 201]);
  const changed = await call(method, `members/${person.id}`, owner, body);
  expect(changed.status).toBe(200);
  const since = performance.now();
  await until(
    () => post(key),
    ({ status }) => status === 401,
  );
  expect(performance.now() - since).toBeLessThan(5_000);
  expect([(await read(key)).status, (await read(owners)).status]).toEqual([401, 200]);
  // What the member may do from now on.
  expect((await call('GET', 'members', person)).status).toBe(next);
  if (next === 200) {
    const lower = await accessKey(person);
    expect([(await read(lower)).status, (await post(lower)).status]).toEqual([200, 403]);
  }
});

test('an access key has the scopes of the role at most, and lists with no API keys', async () => {
  const viewer = await cluster.signUp();
  await addMember(cluster.databases.identity.adminUrl, tenant.id, viewer.id, 'viewer');
  const beyond = await call('POST', 'access', viewer, { scopes: ['accounts:read', 'transactions:write'] });
  expect([beyond.status, beyond.body.code]).toEqual([403, 'forbidden']);
  const less = await call('POST', 'access', viewer, { scopes: ['balances:read'] });
  expect(less.body.data.access).toEqual({ key: expect.any(String), scopes: ['balances:read'], expires_at: time });
  expect((await read(less.body.data.access.key)).status).toBe(403);
  expect((await call('GET', 'api-keys', viewer)).body.data.api_keys.every((each: any) => each.name === 'test')).toBe(true);
});
