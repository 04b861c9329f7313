// No secret is logged, and no input forges a log line, at the most verbose level of every process.
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import pg from 'pg';
import { startCluster, type Cluster, type Tenant } from '../cluster.ts';
import { newSigningKey } from '../../deploy/local/secrets.ts';
import { codeOf } from '../second-factor.ts';
import { startReceiver, until, type Receiver } from '../notifier.ts';

const processes = ['identity', 'ledger', 'notifier', 'gateway'];
const signingKey = newSigningKey();
const encryptionKey = randomBytes(32).toString('base64');
const identityKey = randomBytes(32).toString('base64');
const secrets = new Map<string, string>();
let cluster: Cluster;
let receiver: Receiver;
let tenant: Tenant;
let key: string;

beforeAll(async () => {
  const verbose = Object.fromEntries(processes.map((name) => [name, { LOG_LEVEL: 'trace' }]));
  cluster = await startCluster({
    environment: {
      ...verbose,
      identity: { LOG_LEVEL: 'trace', JWT_PRIVATE_KEY: signingKey, IDENTITY_ENCRYPTION_KEY: `k1:${identityKey}` },
      notifier: { LOG_LEVEL: 'trace', WEBHOOK_ENCRYPTION_KEY: `k1:${encryptionKey}` },
    },
  });
  receiver = await startReceiver();
  tenant = await cluster.tenant();
  key = keep('API key', await cluster.apiKey(tenant));
  keep('password', tenant.owner.password);
  keep('access token', tenant.owner.token);
  keep('internal token', cluster.internalToken);
  keep('signing key', signingKey.split('\n')[1] ?? '');
  keep('encryption key', encryptionKey);
  keep('encryption key of identity', identityKey);
  for (const [name, { serviceUrl }] of Object.entries(cluster.databases)) keep(`database of ${name}`, new URL(serviceUrl).password);
});
afterAll(async () => {
  await cluster.stop();
  await receiver.close();
});

/** Keeps a secret by a printable name. */
function keep(name: string, secret: string): string {
  expect([name, secret.length >= 8]).toEqual([name, true]);
  secrets.set(`${secrets.size} ${name}`, secret);
  return secret;
}

// Without a line that is being written.
const linesOf = (name: string) =>
  cluster
    .logs(name)
    .split('\n')
    .slice(0, -1)
    .filter((line) => line !== '');

/** Names of the secrets that are in any log. */
const leaked = () =>
  processes.flatMap((name) => [...secrets].filter(([, secret]) => cluster.logs(name).includes(secret)).map(([each]) => `${name}: ${each}`));

const post = (path: string, body: unknown, by = key) => cluster.rest('POST', path, { key: by, body });

test('no secret is logged, whether made, shown, sent, mistyped or refused', async () => {
  const { email, token } = tenant.owner;
  const password = keep('another password', `correct horse ${randomBytes(8).toString('hex')}`);
  const wrong = keep('wrong password', `wrong horse ${randomBytes(8).toString('hex')}`);
  const names = { first_name: 'Ada', last_name: 'Obi' };
  await cluster.rest('POST', '/v1/auth/register', { body: { email, password, ...names } });
  await cluster.rest('POST', '/v1/auth/register', { body: { email: 'no email', password, ...names } });
  await cluster.rest('POST', '/v1/auth/register', { body: `{"password":"${password}"` });
  for (const each of [wrong, tenant.owner.password]) {
    const { body } = await cluster.rest('POST', '/v1/auth/login', { body: { email, password: each } });
    if (body.success !== true) continue;
    keep('refresh token', body.data.refresh_token);
    keep('token of a login', body.data.token);
    const next = await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: body.data.refresh_token } });
    keep('next refresh token', next.body.data.refresh_token);
    await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: body.data.refresh_token } });
    await cluster.rest('POST', '/v1/auth/logout', { body: { refresh_token: next.body.data.refresh_token } });
  }
  const factor = await post('/v1/auth/totp', { password: tenant.owner.password }, token);
  const totpSecret = keep('secret of a second factor', factor.body.data.secret);
  await post('/v1/auth/totp', { password: wrong }, token);
  const confirmed = await post('/v1/auth/totp/confirm', { code: codeOf(totpSecret) }, token);
  const [recovery = '', spare = ''] = (confirmed.body.data.recovery_codes as string[]).map((code) => keep('recovery code', code));
  const guess = keep('wrong recovery code', `guess-${randomBytes(6).toString('hex')}`);
  for (const totp_code of [recovery, recovery, guess])
    await cluster.rest('POST', '/v1/auth/login', { body: { email, password: tenant.owner.password, totp_code } });
  const next = keep('new password', `next horse ${randomBytes(8).toString('hex')}`);
  await post('/v1/auth/password/change', { current: wrong, password: next }, token);
  await post('/v1/auth/password/change', { current: tenant.owner.password, password: next }, token);
  for (const code of [guess, spare]) await cluster.rest('DELETE', '/v1/auth/totp', { key: token, body: { password: next, code } });
  const person = await cluster.signUp();
  await post('/v1/auth/email/send', undefined, person.token);
  const verification = keep('mailed token', (await cluster.mails(person.email))[0]!.token);
  for (let count = 0; count < 2; count += 1) await post('/v1/auth/email/verify', { token: verification });
  await post('/v1/auth/password/forgot', { email: person.email });
  const reset = keep('mailed reset token', (await cluster.mails(person.email, 2))[1]!.token);
  await fetch(`${cluster.url}/mail/reset-password?token=${reset}`);
  for (const given of ['short', password, password]) await post('/v1/auth/password/reset', { token: reset, password: given });
  const keys = `/v1/tenants/${tenant.id}/api-keys`;
  const made = (await post(keys, { name: 'x', scopes: ['webhooks:manage'] }, token)).body.data.api_key;
  keep('second API key', made.key);
  keep('rotated API key', (await post(`${keys}/${made.id}/rotate`, {}, token)).body.data.api_key.key);
  const path = `/v1/tenants/${tenant.slug}`;
  for (const [by, headers] of [
    ['x', { authorization: `Basic ${key}` }],
    [`${key.slice(0, -1)}_`, {}],
    [`${token}x`, {}],
  ] as [string, Record<string, string>][]) {
    await cluster.rest('GET', `${path}/accounts`, { key: by, headers });
  }
  const value = keep('value of a webhook header', `Bearer ${randomBytes(8).toString('hex')}`);
  const config = { url: receiver.url, events: ['account.created'], headers: [{ name: 'Authorization', value }] };
  keep('webhook secret', (await post(`${path}/webhooks`, config)).body.data.webhook_config.secret);
  const own = keep('given webhook secret', `own secret ${randomBytes(8).toString('hex')}`);
  await post(`${path}/webhooks`, { ...config, secret: own });
  await post(`${path}/webhooks`, { ...config, secret: `${own}\u0007` });
  await post(`${path}/webhooks`, { ...config, url: 'ftp://x', secret: own });
  await post(`${path}/webhooks`, { ...config, headers: [{ name: 'Host', value }] });
  keep('rotated webhook secret', (await post(`${path}/webhooks/secret/rotate`, {})).body.data.webhook_config.secret);
  await post(`${path}/webhooks/test`, {});
  await post(`${path}/accounts`, { account_code: 'A', name: 'A', type: 'asset' });
  const subject = keep('name of a subject', `customer-${randomBytes(8).toString('hex')}`);
  const data = { name: keep('personal data', `Ada ${randomBytes(8).toString('hex')}`) };
  const line = { account_code: 'A', amount: '1.00', side: 'debit', currency: 'NGN' };
  for (const given of [
    { subject, data },
    { subject, data, more: 1 },
  ])
    await post(`${path}/transactions`, { ...line, personal: [given] });
  expect((await cluster.rest('GET', `${path}/transactions?subject=${subject}`, { key })).body.data.transactions).toHaveLength(1);
  for (const name of [subject, `${subject}\u0000`]) await post(`${path}/subjects/erase`, { subject: name });
  await receiver.count(2);
  expect(secrets.size).toBeGreaterThan(15);
  expect(leaked()).toEqual([]);
});

test('nor when a database statement fails, though the failure is logged', async () => {
  const broken = { identity: 'users', notifier: 'webhooks' } as const;
  for (const [service, table] of Object.entries(broken) as [keyof typeof broken, string][]) {
    const owner = new pg.Client({ connectionString: cluster.databases[service].adminUrl });
    await owner.connect();
    await owner.query(`alter table ${table} add constraint injected check (false) not valid`);
    try {
      const password = keep('password of an unknown user', `no horse ${randomBytes(8).toString('hex')}`);
      const user = { email: `nobody-${randomBytes(4).toString('hex')}@example.com`, password, first_name: 'A', last_name: 'B' };
      const secret = keep('refused webhook secret', `no secret ${randomBytes(8).toString('hex')}`);
      const answer =
        service === 'identity'
          ? await cluster.rest('POST', '/v1/auth/register', { body: user })
          : await post(`/v1/tenants/${tenant.slug}/webhooks`, { url: receiver.url, events: ['account.created'], secret });
      expect([service, answer.status, answer.body.code]).toEqual([service, 500, 'internal']);
      expect(JSON.stringify(answer.body)).not.toMatch(/injected|constraint|check|argon/);
      await until(() => Promise.resolve(cluster.logs(service).includes('injected')));
    } finally {
      await owner.query(`alter table ${table} drop constraint injected`);
      await owner.end();
    }
  }
  expect(leaked()).toEqual([]);
  // Nor a password's hash.
  expect(processes.filter((name) => cluster.logs(name).includes('$argon2id$'))).toEqual([]);
  expect(cluster.logs('identity')).toContain('Failing row contains (…).');
});

test('each call of a service is logged with its tenant and request id', async () => {
  const path = `/v1/tenants/${tenant.slug}`;
  const calls = {
    'identity.v1.IdentityService/ListApiKeys': ['identity', 'GET', `/v1/tenants/${tenant.id}/api-keys`, tenant.owner.token],
    'ledger.v1.LedgerService/CreateAccount': ['ledger', 'POST', `${path}/accounts`, key],
    'ledger.v1.LedgerService/ListAccounts': ['ledger', 'GET', `${path}/accounts`, key],
    'notifier.v1.NotifierService/ListDeliveries': ['notifier', 'GET', `${path}/webhooks`, key],
  } as const;
  for (const [call, [name, method, to, by]] of Object.entries(calls)) {
    const id = `of-the-test-${randomBytes(4).toString('hex')}`;
    const body = method === 'POST' ? { account_code: id.toUpperCase(), name: 'B', type: 'asset' } : undefined;
    const { status } = await cluster.rest(method, to, { key: by, headers: { 'x-request-id': id }, ...(body && { body }) });
    expect([call, status]).toEqual([call, method === 'POST' ? 201 : 200]);
    await until(() => Promise.resolve(cluster.logs(name).includes(id)));
    const lines = linesOf(name).map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.filter(({ request_id }) => request_id === id)).toMatchObject([{ msg: 'call', method: call, tenant: tenant.id }]);
  }
});

const forged = 'forged by the test';

test('no input adds a log line, ends one, or controls a terminal', async () => {
  const injections = [
    `x\n{"level":50,"msg":"${forged}"}`,
    `x\u2028{"msg":"${forged}"}\u2029`,
    `x","msg":"${forged}","y":"`,
    `\u001b[2J\u001b]0;${forged}\u0007`,
    `\${jndi:ldap://127.0.0.1/${forged}}`,
  ];
  const path = `/v1/tenants/${tenant.slug}`;
  for (const text of injections) {
    const line = { account_code: 'A', amount: '1.00', side: 'debit', currency: 'NGN' };
    const quoted = encodeURIComponent(text);
    await post(`${path}/transactions`, { ...line, description: text, reference: text, idempotency_key: text, metadata: { [text]: text } });
    await post(`${path}/transactions`, { ...line, account_code: text, side: text });
    await post(`${path}/accounts`, { account_code: 'A', name: text, type: text, description: text });
    await post(`${path}/webhooks`, { url: `https://${text}/`, events: [text] });
    await post(`${path}/webhooks/test`, { event_type: text });
    await cluster.rest('POST', '/v1/auth/register', {
      body: { email: `${text}@example.com`, password: text, first_name: text, last_name: text },
    });
    await cluster.rest('POST', '/v1/auth/login', { body: { email: text, password: text } });
    await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: text } });
    for (const each of [
      `/v1/${quoted}`,
      `${path}/transactions/${quoted}`,
      `/v1/tenants/${quoted}/accounts`,
      `${path}/events?cursor=${quoted}`,
    ]) {
      await cluster.rest('GET', each, { key, headers: { 'x-request-id': quoted, 'user-agent': quoted, traceparent: quoted } });
    }
    await raw(`GET /v1/user HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${text}\r\nAuthorization: Bearer ${text}\r\nConnection: close\r\n\r\n`);
    await raw(`${text} / HTTP/1.1\r\n\r\n`);
  }
  for (const name of processes) {
    const lines = linesOf(name);
    expect([name, lines.length > 5]).toEqual([name, true]);
    for (const line of lines) {
      const { msg, level, name: by } = JSON.parse(line) as Record<string, unknown>;
      expect([line.slice(0, 300), by, typeof level, String(msg).includes(forged)]).toEqual([line.slice(0, 300), name, 'number', false]);
      // Control characters of a terminal.
      expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
    }
  }
  expect(processes.filter((name) => cluster.logs(name).includes('SyntaxError'))).toEqual([]);
});

/** Sends bytes that fetch would refuse; resolves when the connection is closed. */
function raw(text: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(cluster.url).port), '127.0.0.1', () => socket.end(Buffer.from(text)));
    socket.resume();
    socket.on('error', () => undefined);
    socket.on('close', () => resolve());
  });
}
