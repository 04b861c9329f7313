// The steps about access: tenants, keys, scopes, other tenants; and requests that are invalid by themselves.
import type { Rest } from '../api-clients.ts';
import { Learned, difference, type Expected, type Refused } from './expectation.ts';
import type { Move } from './posting-moves.ts';
import { Divergence, type Key, type Tenant, type ModelRun } from './model-run.ts';

/** A request for each scope that changes nothing. */
const routes: [scope: string, method: string, path: string, body?: unknown][] = [
  ['accounts:read', 'GET', '/accounts?limit=1'],
  ['accounts:read', 'GET', '/accounts/hierarchy'],
  ['accounts:read', 'GET', '/accounts/code/NO-SUCH'],
  ['accounts:read balances:read', 'GET', '/accounts/hierarchy?include=balances'],
  ['accounts:write', 'POST', '/accounts/setup', { business_type: 'nothing' }],
  ['accounts:write', 'POST', '/accounts', {}],
  ['accounts:write', 'POST', '/accounts/batch', {}],
  ['accounts:write', 'PATCH', '/accounts/code/NO-SUCH', {}],
  ['balances:read', 'GET', '/accounts/code/NO-SUCH/balance?currency=NGN'],
  ['balances:read', 'GET', '/accounts/code/NO-SUCH/balance/history?currency=NGN'],
  ['transactions:read', 'GET', '/transactions?limit=1'],
  ['transactions:read', 'GET', '/transactions/txn_01jd1zq5v8e6n9w2k4m7p3r5t8'],
  ['transactions:read', 'GET', '/events?limit=1'],
  ['transactions:write', 'POST', '/transactions', {}],
  ['transactions:write', 'POST', '/transactions/double-entry', {}],
  ['transactions:write', 'POST', '/transactions/txn_01jd1zq5v8e6n9w2k4m7p3r5t8/reverse', {}],
  ['webhooks:manage', 'GET', '/webhooks?limit=1'],
  ['webhooks:manage', 'POST', '/webhooks', {}],
  ['webhooks:manage', 'GET', '/webhooks/nonsense'],
];

const letIn = new Set(['validation_failed', 'account_not_found', 'transaction_not_found', 'invalid_delivery_id', undefined]);

/** Calls with a revoked key; throws where it still works after five seconds. Resolves to whether it is refused. */
export async function isRevoked(run: ModelRun, tenant: Tenant, key: Key): Promise<boolean> {
  const asked = Date.now();
  const seen = await run.call(run.rest(tenant, 'GET', '/accounts?limit=1', undefined, key.text), ({ code }) => {
    if (code === 'unauthenticated') return null;
    return asked - (key.revokedAt ?? 0) > 5_000 ? `a key revoked ${asked - (key.revokedAt ?? 0)} ms ago is let in` : null;
  });
  return seen.code === 'unauthenticated';
}

const owners = (run: ModelRun, tenant: Tenant, method: string, path: string, body?: unknown): Rest => ({
  via: 'rest',
  method,
  path: `/v1/tenants/${tenant.id}${path}`,
  token: run.context.owner.token,
  body,
});

const line = { account_code: 'CASH', amount: '1.00', side: 'debit', currency: 'NGN' };
const lines = [line, { ...line, side: 'credit' }];
const invalid = (field: string, tag: string): Refused => ({ code: 'validation_failed', field, tag });
const single = '/transactions';
const double = '/transactions/double-entry';

/** Requests that are refused whatever the ledger contains. */
const wrongs: [method: string, path: string, body: unknown, refused: Refused, headers?: Record<string, string>][] = [
  ['POST', single, { ...line, amount: '0.00' }, { ...invalid('amount', 'gt'), value: '0.00' }],
  ['POST', single, { ...line, amount: '1.234' }, { ...invalid('amount', 'decimal'), value: '1.234' }],
  ['POST', single, { ...line, amount: '-1' }, invalid('amount', 'decimal')],
  ['POST', single, { ...line, amount: '10000000000000' }, invalid('amount', 'decimal')],
  ['POST', single, { ...line, amount: 100 }, { ...invalid('amount', 'type'), value: 100 }],
  ['POST', single, { ...line, amount: undefined }, { ...invalid('amount', 'required'), value: '' }],
  ['POST', single, { ...line, side: 'left' }, invalid('side', 'oneof')],
  ['POST', single, { ...line, currency: 'ngn' }, invalid('currency', 'oneof')],
  ['POST', single, { ...line, account_code: '-CASH' }, invalid('account_code', 'code')],
  ['POST', single, { ...line, account_code: '' }, invalid('account_code', 'required')],
  ['POST', single, { ...line, description: 'x'.repeat(1001) }, invalid('description', 'max')],
  ['POST', single, { ...line, reference: 'x'.repeat(256) }, invalid('reference', 'max')],
  ['POST', single, { ...line, idempotency_key: 'x'.repeat(256) }, invalid('idempotency_key', 'max')],
  ['POST', single, { ...line, metadata: [1] }, invalid('metadata', 'type')],
  ['POST', single, { ...line, metadata: { text: 'x'.repeat(16_400) } }, invalid('metadata', 'max')],
  ['POST', single, { ...line, idempotency_key: 'one' }, invalid('idempotency_key', 'same'), { 'idempotency-key': 'other' }],
  ['POST', double, { entries: lines.slice(1) }, invalid('entries', 'min')],
  ['POST', double, { entries: Array.from({ length: 201 }, () => line) }, invalid('entries', 'max')],
  ['POST', double, {}, invalid('entries', 'required')],
  ['POST', double, { entries: [line, { ...line, amount: '0' }] }, invalid('entries[1].amount', 'gt')],
  ['POST', double, '{"entries": [', { code: 'invalid_json' }],
  ['POST', double, '{"__proto__": {"a": 1}}', { code: 'invalid_json' }],
  ['POST', double, 'entries=1', { code: 'unsupported_media_type' }, { 'content-type': 'application/x-www-form-urlencoded' }],
  ['POST', double, JSON.stringify({ description: 'x'.repeat(1 << 20) }), { code: 'payload_too_large' }],
  ['POST', '/transactions/txn_1/reverse', {}, invalid('transaction_id', 'id')],
  ['GET', '/transactions/txn_1', undefined, invalid('transaction_id', 'id')],
  ['GET', '/transactions?limit=101', undefined, invalid('limit', 'max')],
  ['GET', '/transactions?limit=0', undefined, invalid('limit', 'min')],
  ['GET', '/transactions?start_date=yesterday', undefined, invalid('start_date', 'datetime')],
  ['GET', '/accounts?type=cash', undefined, invalid('type', 'oneof')],
  ['GET', '/accounts/code/-/balance?currency=NGN', undefined, { code: 'account_not_found' }],
  ['POST', '/accounts', { account_code: 'x', name: '', type: 'asset' }, invalid('name', 'required')],
  ['POST', '/accounts', { account_code: 'x', name: 'x', type: 'cash' }, invalid('type', 'oneof')],
  ['POST', '/accounts/batch', { accounts: [] }, invalid('accounts', 'min')],
  ['GET', '/accounts/hierarchy?depth=0', undefined, invalid('depth', 'min')],
  ['POST', '/accounts/setup', { business_type: 'bank' }, invalid('business_type', 'oneof')],
  ['POST', '/webhooks', { url: 'nowhere', events: ['transaction.posted'] }, invalid('url', 'url')],
  ['POST', '/webhooks', { url: '', events: ['transaction.posted'] }, invalid('url', 'required')],
  ['POST', '/webhooks', { url: 'https://example.com', events: [] }, invalid('events', 'min')],
  ['POST', '/webhooks', { url: 'https://example.com', events: ['rain'] }, invalid('events[0]', 'oneof')],
  ['GET', '/webhooks?limit=0', undefined, invalid('limit', 'min')],
  ['GET', '/reports', undefined, { code: 'route_not_found' }],
  ['PUT', '/transactions', {}, { code: 'method_not_allowed' }],
];

/** The same over gRPC. */
const wrongMessages: [entries: Record<string, string>[], field: string, tag: string][] = [
  [[{ accountCode: 'CASH', amount: '0', side: 'debit', currency: 'NGN' }], 'amount', 'gt'],
  [[{ accountCode: 'CASH', amount: '1.234', side: 'debit', currency: 'NGN' }], 'amount', 'decimal'],
  [[{ accountCode: 'CASH', amount: '1', side: 'left', currency: 'NGN' }], 'side', 'oneof'],
  [[{ accountCode: 'CASH', amount: '1', side: 'debit', currency: 'XXX' }], 'currency', 'oneof'],
  [[], 'entries', 'required'],
];

export const tenantMoves: Record<string, Move> = {
  async tenant(run, _, step) {
    const { token } = run.context.owner;
    if (step['taken'] === 0) {
      const body = { name: 'Again', slug: run.tenants[0]!.slug, business_type: 'other' };
      await run.call({ via: 'rest', method: 'POST', path: '/v1/tenants', token, body }, { refused: [{ code: 'slug_taken' }] });
    } else if (step['taken'] === 1) {
      const body = { email: run.context.owner.email.toUpperCase(), password: 'long enough', first_name: 'A', last_name: 'B' };
      await run.call({ via: 'rest', method: 'POST', path: '/v1/auth/register', body }, { refused: [{ code: 'email_taken' }] });
    } else if (run.tenants.length < 3) await run.newTenant();
  },
  async key(run, tenant, step) {
    if (tenant.keys.length < 8) tenant.keys.push(await run.newKey(tenant.id, step['scopes'] as string[]));
  },
  async keys(run, tenant) {
    const api_keys = tenant.keys.map(({ id, scopes, text, revokedAt }) => {
      return { id, name: 'model', scopes, last4: text.slice(-4), revoked_at: revokedAt === undefined ? null : new Learned('time') };
    });
    await run.call(owners(run, tenant, 'GET', '/api-keys'), { status: 200, data: { api_keys: api_keys.reverse() } });
  },
  async revoke(run, tenant, step) {
    const { at, odd } = step['key'];
    const among = tenant.keys.slice(1).filter((key) => key.revokedAt === undefined);
    const key = odd === 0 ? undefined : among[at % Math.max(1, among.length)];
    const id = key?.id ?? 'key_01jd1zq5v8e6n9w2k4m7p3r5t8';
    const expected: Expected = key ? { status: 200, data: { id, deleted: true } } : { refused: [{ code: 'key_not_found' }] };
    await run.call(owners(run, tenant, 'DELETE', `/api-keys/${id}`), expected);
    if (key) key.revokedAt = Date.now();
  },
  async rotateKey(run, tenant, step) {
    const key = tenant.keys[step['key'] % tenant.keys.length]!;
    const { scopes } = key;
    if (tenant.keys.length > 7 || key.revokedAt !== undefined || key.expires) return;
    const shown = { id: new Learned('key'), name: 'model', scopes, key: new Learned('text'), expires_at: null, revoked_at: null };
    const previous = { id: key.id, last4: key.text.slice(-4), expires_at: new Learned('time') };
    const body = step['overlap'] === undefined ? undefined : { overlap_seconds: step['overlap'] };
    const call = owners(run, tenant, 'POST', `/api-keys/${key.id}/rotate`, body);
    await run.call(call, { status: 201, data: { api_key: shown, previous } });
    // Both keys are valid for longer than the sequence.
    key.expires = true;
    tenant.keys.push({ id: shown.id.known(), text: shown.key.known(), scopes });
  },
  async scope(run, tenant, step) {
    const key = tenant.keys[step['key'] % tenant.keys.length]!;
    if (key.revokedAt !== undefined) {
      await isRevoked(run, tenant, key);
      return;
    }
    const [scopes, method, path, body] = routes[step['route'] % routes.length]!;
    const may = scopes.split(' ').every((scope) => key.scopes.includes(scope));
    await run.call(run.rest(tenant, method, path, body, key.text), ({ code }) => {
      if (!may) return code === 'forbidden' ? null : `${String(code)} where ${scopes} is missing`;
      return letIn.has(code) ? null : `${String(code)} with ${scopes}`;
    });
  },
  async foreign(run, tenant, step) {
    const [, method, path, body] = routes[step['route'] % routes.length]!;
    const whose = run.tenants[(run.tenants.indexOf(tenant) + 1) % run.tenants.length]!;
    const [text, flipped] = [whose.keys[0].text, whose.keys[0].text.endsWith('0') ? '1' : '0'];
    const kinds: [string | undefined, string][] = [
      [undefined, 'unauthenticated'],
      [text.slice(0, -1) + flipped, 'unauthenticated'],
      [run.context.owner.token, 'unauthenticated'],
      // The path names another tenant; where there is only one, an unknown tenant.
      [text, 'tenant_not_found'],
    ];
    const [token, code] = kinds[step['key'] % kinds.length]!;
    const { token: _, ...call } = run.rest(tenant, method, path, body);
    const nobodys = code === 'tenant_not_found' && whose === tenant;
    await run.call({ ...call, token, path: nobodys ? `/v1/tenants/nobody-${tenant.slug}${path}` : call.path }, { refused: [{ code }] });
  },
  async wrong(run, tenant, step) {
    const kind = step['kind'] as number;
    const { ledger } = tenant;
    const before = ledger.log.length;
    if (step.via === 'rest') {
      // Requests that are refused before their fields are validated are as likely as invalid fields.
      const early = wrongs.filter(([, , , { code }]) => code !== 'validation_failed');
      const among = kind % 2 === 0 ? early : wrongs;
      const [method, path, body, refused, headers] = among[(kind >> 1) % among.length]!;
      const call = run.rest(tenant, method, path, body);
      await run.call({ ...call, headers: { ...call.headers, ...headers } }, { refused: [refused] });
    } else {
      const [entries, field, tag] = wrongMessages[kind % wrongMessages.length]!;
      const call = run.grpc(tenant, 'postTransaction', { posting: { tenantId: tenant.id, entries } });
      await run.call(call, { refused: [invalid(field, tag)] });
    }
    await run.compareLog(tenant, before, [], step.via);
    const wrong = difference(before, ledger.log.length, 'log');
    if (wrong !== null) throw new Divergence(wrong);
  },
};
