// What every change of a tenant or a user leaves in its audit log, as REST answers it: one entry, of its type, and no secret anywhere.
import { connect } from 'node:net';
import pg from 'pg';
import { chainFaults, type Entry } from '../test/audit-chain.ts';
import { checkedRest, readContract, type Contract } from '../test/contract.ts';
import { startCluster, type Answer, type Cluster, type Person, type Tenant } from '../test/cluster.ts';
import { startIssuer, type TestIssuer } from '../test/oidc-issuer.ts';
import { until } from '../test/polling.ts';
import { codeOf, wrongCode } from '../test/second-factor.ts';
import { keepSecrets, type Secrets } from '../test/secrets.ts';

const processes = ['identity', 'ledger', 'notifier', 'gateway'];
let cluster: Cluster;
let contract: Contract;
let secrets: Secrets;
let rest: Cluster['rest'];
let issuer: TestIssuer;
let ada: Person;
let tenant: Tenant;

beforeAll(async () => {
  issuer = await startIssuer();
  const environment: Record<string, NodeJS.ProcessEnv> = Object.fromEntries(processes.map((name) => [name, { LOG_LEVEL: 'trace' }]));
  environment['identity']!['OIDC_PROVIDERS'] = JSON.stringify({ corp: issuer.setting });
  cluster = await startCluster({ environment });
  contract = await readContract(cluster.url);
  secrets = keepSecrets(checkedRest(cluster, contract));
  secrets.keep('secret', issuer.setting.client_secret);
  rest = secrets.rest;
  ada = await signUp('ada@example.com');
});
afterAll(async () => {
  await cluster.stop();
  await issuer.close();
});

async function whole(path: string, key: string): Promise<Entry[]> {
  const log: Entry[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body } = await rest('GET', `${path}?limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`, { key });
    log.push(...body.data.audit);
    cursor = body.data.pagination.next_cursor;
  }
  return log;
}
const tenantLog = (of = tenant, by = of.owner.token) => whole(`/v1/tenants/${of.id}/audit`, by);
const userLog = (of = ada) => whole('/v1/user/audit', of.token);

async function signUp(email: string): Promise<Person> {
  const password = `correct horse of ${email}`;
  await rest('POST', '/v1/auth/register', { body: { email, password, first_name: 'Ada', last_name: 'Obi' } });
  const { body } = await rest('POST', '/v1/auth/login', { body: { email, password } });
  return { id: body.data.user.id, email, password, token: body.data.token };
}

/** The code that a browser brings back from the identity provider. */
async function codeFor(claims: Record<string, unknown>): Promise<string> {
  const at = `${cluster.url}/v1/auth/oidc/corp`;
  const start = await fetch(`${at}/start?return_to=/docs`, { redirect: 'manual' });
  const address = start.headers.get('location')!;
  const [cookie = ''] = start.headers.getSetCookie()[0]!.split(';');
  secrets.keep('state', cookie.split('=')[1]!);
  const query = new URLSearchParams({ code: issuer.authorize(address, { claims }), state: new URL(address).searchParams.get('state')! });
  const back = await fetch(`${at}/callback?${query.toString()}`, { redirect: 'manual', headers: { cookie } });
  return new URL(back.headers.get('location')!).searchParams.get('code')!;
}

/** Operations that were called by {@link leaves}. */
const called = new Set<string>();

/**
 * Calls an operation and expects what it leaves in the logs of the tenant and of a user: the types of their new entries. Answers `data`.
 */
async function leaves(
  id: string,
  { inTenant = [], inUser = [], of = ada, status }: { inTenant?: string[]; inUser?: string[]; of?: Person; status?: number },
  { key, body, params = {}, then }: { key?: string; body?: unknown; params?: Record<string, string>; then?: () => Promise<void> } = {},
): Promise<any> {
  called.add(id);
  const { method, path } = contract.operations.find((each) => each.id === id)!;
  const own = tenant as Tenant | undefined;
  const logs = async () => [own ? await tenantLog() : [], await userLog(of)] as const;
  const before = await logs();
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ({ tenant_id: own?.id ?? '', ...params })[name]!);
  const answer: Answer = await rest(method, filled, { ...(key !== undefined && { key }), ...(body !== undefined && { body }) });
  await then?.();
  const after = await logs();
  const types = [0, 1].map((which) => after[which]!.slice(0, after[which]!.length - before[which]!.length).map(({ type }) => type));
  expect([id, answer.status >= 300 ? answer.status : undefined, ...types]).toEqual([id, status, inTenant, inUser]);
  // What was there stays as it was.
  expect(after[0].slice(after[0].length - before[0].length)).toEqual(before[0]);
  return answer.body.data;
}

test('every change leaves one entry of its type, a second call that changes nothing none', async () => {
  const { email, password, token: key } = ada;
  await leaves('register', { status: 409 }, { body: { email, password, first_name: 'Ada', last_name: 'Obi' } });
  const session = await leaves('login', { inUser: ['login.succeeded'] }, { body: { email, password } });
  await leaves('login', { inUser: ['login.failed'], status: 401 }, { body: { email, password: 'wrong horse of ada' } });
  const renewed = await leaves('refresh', {}, { body: { refresh_token: session.refresh_token } });
  await leaves('refresh', { inUser: ['session.revoked'], status: 401 }, { body: { refresh_token: session.refresh_token } });
  await leaves('logout', {}, { body: { refresh_token: renewed.refresh_token } });

  const made = await leaves('createTenant', {}, { key, body: { name: 'Books', slug: 'books', business_type: 'wallet' } });
  tenant = { id: made.tenant.id, slug: 'books', owner: ada };
  expect((await tenantLog()).map(({ type }) => type)).toEqual(['tenant.created']);

  const till = { name: 'till', scopes: ['accounts:read', 'transactions:write'] };
  const { api_key } = await leaves('createApiKey', { inTenant: ['api_key.created'] }, { key, body: till });
  const params = { key_id: api_key.id };
  await leaves('rotateApiKey', { inTenant: ['api_key.rotated'] }, { key, params, body: {} });
  await leaves('revokeApiKey', { inTenant: ['api_key.revoked'] }, { key, params });
  await leaves('revokeApiKey', {}, { key, params });
  await leaves('rotateApiKey', { status: 404 }, { key, params, body: {} });
  await leaves('createAccess', { inTenant: ['access.created'] }, { key, body: {} });

  const bob = await signUp('bob@example.com');
  await rest('POST', '/v1/auth/email/send', { key: bob.token });
  await rest('POST', '/v1/auth/email/verify', { body: { token: (await cluster.mails(bob.email))[0]!.token } });
  const invite = (role: string) => ({ key, body: { email: bob.email, role } });
  const invited = await leaves('createInvitation', { inTenant: ['invitation.created'] }, invite('viewer'));
  await leaves('deleteInvitation', { inTenant: ['invitation.revoked'] }, { key, params: { invitation_id: invited.invitation.id } });
  await leaves('deleteInvitation', {}, { key, params: { invitation_id: invited.invitation.id } });
  await leaves('createInvitation', { inTenant: ['invitation.created'] }, invite('viewer'));
  // One to the same address replaces it.
  await leaves('createInvitation', { inTenant: ['invitation.created', 'invitation.revoked'] }, invite('accountant'));
  const mailed = async () => (await cluster.mails(bob.email)).find(({ text }) => text?.includes('as accountant'));
  const { token } = (await until(mailed, (mail) => mail !== undefined))!;
  await leaves('acceptInvitation', { inTenant: ['member.added'], of: bob }, { key: bob.token, body: { token } });
  await leaves('createInvitation', { status: 409 }, invite('viewer'));
  const ofBob = { key, params: { user_id: bob.id } };
  await leaves('updateMember', { inTenant: ['member.role_changed'] }, { ...ofBob, body: { role: 'viewer' } });
  await leaves('updateMember', {}, { ...ofBob, body: { role: 'viewer' } });
  await leaves('removeMember', { inTenant: ['member.removed'] }, ofBob);
  await leaves('removeMember', { status: 404 }, ofBob);

  // The log itself says who has imported it.
  await leaves('importLog', {}, { key });
  for (const [id, type] of [
    ['suspendTenant', 'tenant.suspended'],
    ['resumeTenant', 'tenant.resumed'],
    ['closeTenant', 'tenant.closed'],
    ['reopenTenant', 'tenant.reopened'],
  ] as const) {
    await leaves(id, { inTenant: [type] }, { key });
    await leaves(id, {}, { key });
  }

  const next = 'the next horse of ada';
  await leaves('changePassword', { inUser: ['login.failed'], status: 403 }, { key, body: { current: 'no horse of ada', password: next } });
  await leaves('changePassword', { inUser: ['password.changed'] }, { key, body: { current: password, password: next } });

  const { secret } = await leaves('startTotp', {}, { key, body: { password: next } });
  await leaves('startTotp', { inUser: ['login.failed'], status: 403 }, { key, body: { password } });
  await leaves('confirmTotp', { inUser: ['login.failed'], status: 403 }, { key, body: { code: wrongCode(secret) } });
  const confirmed = await leaves('confirmTotp', { inUser: ['totp.enabled'] }, { key, body: { code: codeOf(secret) } });
  for (const require_totp of [true, false]) {
    await leaves('updateTenant', { inTenant: ['tenant.updated'] }, { key, body: { require_totp } });
    await leaves('updateTenant', {}, { key, body: { require_totp } });
  }
  const loginWith = (totp_code?: string) => ({ body: { email, password: next, ...(totp_code !== undefined && { totp_code }) } });
  const [first, second] = confirmed.recovery_codes as string[];
  await leaves('login', { status: 401 }, loginWith());
  await leaves('login', { inUser: ['login.failed'], status: 401 }, loginWith(wrongCode(secret)));
  await leaves('login', { inUser: ['login.succeeded'] }, loginWith(codeOf(secret, 1)));
  await leaves('login', { inUser: ['login.succeeded', 'recovery_code.used'] }, loginWith(first));
  await leaves('deleteTotp', { inUser: ['totp.disabled', 'recovery_code.used'] }, { key, body: { password: next, code: second } });

  const corp = { sub: 'ada', email: 'ada@corp.example.com', email_verified: true };
  const joined = { key, params: { provider: 'corp' } };
  await leaves('linkOidc', { inUser: ['identity.linked'] }, { ...joined, body: { code: await codeFor(corp) } });
  const code = await codeFor(corp);
  await leaves('linkOidc', {}, { ...joined, body: { code } });
  await leaves('linkOidc', { status: 401 }, { ...joined, body: { code } });
  await leaves('exchangeOidcCode', { inUser: ['login.succeeded'] }, { body: { code: await codeFor(corp) } });
  const carol = await leaves(
    'exchangeOidcCode',
    {},
    { body: { code: await codeFor({ ...corp, sub: 'carol', email: 'carol@example.com' }) } },
  );
  const ofCarol = await userLog({ ...ada, token: carol.token });
  expect(ofCarol.map(({ type }) => type)).toEqual(['login.succeeded', 'identity.linked', 'user.registered']);

  await leaves('sendVerificationEmail', {}, { key });
  const verification = { token: (await cluster.mails(email))[0]!.token };
  await leaves('verifyEmail', { inUser: ['email.verified'] }, { body: verification });
  await leaves('verifyEmail', { status: 422 }, { body: verification });
  await leaves('forgotPassword', {}, { body: { email } });
  const reset = { token: (await cluster.mails(email, 2))[1]!.token, password: 'a new horse of ada' };
  const loginAgain = async () => {
    const { body } = await rest('POST', '/v1/auth/login', { body: { email, password: reset.password } });
    ada.token = body.data.token;
  };
  await leaves('resetPassword', { inUser: ['login.succeeded', 'password.reset'] }, { body: reset, then: loginAgain });
  await leaves('resetPassword', { status: 422 }, { body: reset });

  expect([chainFaults(await tenantLog()), chainFaults(await userLog())]).toEqual([[], []]);
  for (const entry of [...(await tenantLog()), ...(await userLog())]) {
    expect(entry).toMatchObject({ address: '127.0.0.1', user_agent: 'node' });
    // Of a failed login only where the user was logged in.
    const isNobody = /session|verified|reset/.test(entry.type) || (entry.type === 'login.failed' && entry.data['action'] === undefined);
    expect([entry.type, entry.actor]).toEqual([entry.type, isNobody ? null : entry.type === 'member.added' ? bob.id : ada.id]);
  }
  const changes = contract.operations.filter(
    ({ method, security, tag }) => method !== 'GET' && security !== 'apiKeyToken' && tag !== 'Operations',
  );
  expect(changes.map(({ id }) => id).filter((id) => !called.has(id))).toEqual([]);
});

test('what is read leaves nothing, and neither do keys that post', async () => {
  const key = await cluster.apiKey(tenant);
  const before = [await tenantLog(), await userLog()];
  await rest('POST', `/v1/tenants/${tenant.slug}/accounts`, { key, body: { account_code: 'A', name: 'A', type: 'asset' } });
  const reads = contract.operations.filter(
    ({ method, security, path }) => method === 'GET' && security === 'userToken' && !path.includes('{slug}'),
  );
  expect(reads.length).toBeGreaterThan(4);
  for (const { path } of reads) await rest('GET', path.replace('{tenant_id}', tenant.id), { key: ada.token });
  expect([await tenantLog(), await userLog()]).toEqual(before);
});

test('another tenant’s log is not found, and each user reads its own', async () => {
  const eve = await signUp('eve@example.com');
  const { body } = await rest('GET', `/v1/tenants/${tenant.id}/audit`, { key: eve.token });
  expect([body.code, body.details]).toEqual(['tenant_not_found', undefined]);
  const ofEve = await userLog(eve);
  expect(ofEve.map(({ type, subject }) => [type, subject])).toEqual([
    ['login.succeeded', eve.id],
    ['user.registered', eve.id],
  ]);
});

test('the log can be read while the tenant is suspended and closed', async () => {
  for (const [action, back] of [
    ['suspend', 'resume'],
    ['close', 'reopen'],
  ]) {
    await rest('POST', `/v1/tenants/${tenant.id}/${action}`, { key: ada.token });
    expect((await tenantLog())[0]?.type).toMatch(/^tenant\.(suspended|closed)$/);
    await rest('POST', `/v1/tenants/${tenant.id}/${back}`, { key: ada.token });
  }
});

test('a user agent of any bytes is kept without harm', async () => {
  const agents = ['\u202eabc', '😀 agent', '\xff\xfe\x80', `a\tb`, "'; drop table users; --", '{"forged":true}', 'x'.repeat(15_000)];
  for (const agent of agents) {
    const { length } = await tenantLog();
    const answer = await raw(agent);
    expect([agent.slice(0, 20), answer]).toEqual([agent.slice(0, 20), expect.stringMatching(/^HTTP\/1\.1 201 /)]);
    const log = await tenantLog();
    // As HTTP carries it: bytes.
    const sent = Buffer.from(agent).toString('latin1').slice(0, 512);
    expect([log.length, log[0]!['user_agent']]).toEqual([length + 1, sent]);
  }
  const { length } = await tenantLog();
  expect(await raw('a\0b')).toMatch(/^HTTP\/1\.1 400 /);
  expect(await raw('x'.repeat(17_000))).toMatch(/^HTTP\/1\.1 431 /);
  const log = await tenantLog();
  expect([log.length, chainFaults(log)]).toEqual([length, []]);
});

/** Creates a key with these bytes as `User-Agent`, which fetch would refuse; answers the first line. */
function raw(agent: string): Promise<string> {
  const body = JSON.stringify({ name: 'till', scopes: ['accounts:read'] });
  const head = [
    `POST /v1/tenants/${tenant.id}/api-keys HTTP/1.1`,
    ...['Host: x', 'Connection: close', 'Content-Type: application/json', `Authorization: Bearer ${ada.token}`],
    ...[`Content-Length: ${body.length}`, `User-Agent: ${agent}`],
  ];
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(Number(new URL(cluster.url).port), '127.0.0.1', () => socket.write(`${head.join('\r\n')}\r\n\r\n${body}`));
    socket.on('data', (chunk) => (text += chunk.toString()));
    socket.on('error', reject);
    socket.on('close', () => resolve(text.split('\r\n')[0] ?? ''));
  });
}

test('no secret of this run is in a table, a log or an error', async () => {
  const database = new pg.Client({ connectionString: cluster.databases.identity.adminUrl });
  await database.connect();
  const { rows: tables } = await database.query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
  );
  const places: Record<string, string> = { errors: secrets.errors.join('\n') };
  for (const { name } of tables) {
    places[`table ${name}`] =
      (await database.query<{ all: string }>(`select string_agg(t::text, e'\\n') as all from ${name} t`)).rows[0]?.all ?? '';
  }
  await database.end();
  for (const name of processes) places[`log of ${name}`] = cluster.logs(name);
  expect(places['table user_audit']).toContain('login.failed');
  expect(Object.keys(secrets.kinds()).sort()).toEqual([
    ...['code', 'current', 'key', 'otpauth_url', 'password', 'recovery_codes', 'refresh_token', 'secret', 'state', 'token', 'totp_code'],
  ]);
  expect(Object.entries(places).flatMap(([place, text]) => secrets.foundIn(text).map((kind) => `${kind} in ${place}`))).toEqual([]);
});
