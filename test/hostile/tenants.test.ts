// Another tenant's names and ids are answered on every route like unknown ones, and change nothing.
import { newId } from '../../services/platform/ids.ts';
import { checkedRest, readContract, type Contract, type Operation } from '../contract.ts';
import type { Answer, Cluster } from '../cluster.ts';
import { sharedCluster } from '../shared-cluster.ts';
import { newTenantRecords, type TenantRecords } from '../tenant-records.ts';

let cluster: Cluster;
let contract: Contract;
let rest: Cluster['rest'];
let mine: TenantRecords;
let theirs: TenantRecords;

const idempotencyKey = 'the same for both';

const newTenant = (account_code: string) =>
  newTenantRecords(cluster, { account_code, posting: { idempotency_key: idempotencyKey, reference: account_code } });

/** Everything of a tenant that another could change. */
async function stateOf({ tenant, key }: TenantRecords): Promise<unknown> {
  const path = `/v1/tenants/${tenant.slug}`;
  const read = async (where: string, by = key) => (await rest('GET', where, { key: by })).body.data;
  const { events } = await read(`${path}/events?after_sequence=60&limit=100`);
  const { deliveries, webhook_config } = await read(`${path}/webhooks?limit=100`);
  const { api_keys } = await read(`/v1/tenants/${tenant.id}/api-keys`, tenant.owner.token);
  return { events, deliveries, webhook_config, api_keys, hierarchy: await read(`${path}/accounts/hierarchy?include=balances`) };
}

beforeAll(async () => {
  cluster = await sharedCluster();
  contract = await readContract(cluster.url);
  rest = checkedRest(cluster, contract);
  mine = await newTenant('MINE-1');
  theirs = await newTenant('THEIRS-1');
});
afterAll(() => cluster.stop());

const unknown = {
  transaction_id: newId('txn'),
  hold_id: newId('hold'),
  job_id: newId('job'),
  limit_id: newId('limit'),
  delivery_id: newId('wh_delivery'),
  key_id: newId('key'),
  account_code: 'NOBODY-1',
};

const credentialOf = ({ security }: Operation) => (security === 'apiKeyToken' ? mine.key : mine.tenant.owner.token);

/** An answer without what differs between two requests in any case: its id, and what was sent. */
function comparable({ status, headers, body }: Answer, sent: string): unknown {
  const { request_id: _, ...said } = body as Record<string, unknown>;
  const names = [...headers.keys()].filter(
    (name) => !['date', 'x-request-id', 'content-length', 'ratelimit', 'retry-after'].includes(name),
  );
  return { status, names: names.sort(), body: JSON.stringify(said).replaceAll(sent, '<sent>') };
}

test('ids of another tenant in a path are answered like unknown ids, and change nothing', async () => {
  const before = await stateOf(theirs);
  const operations = contract.operations.filter(({ path }) =>
    /\{(transaction_id|hold_id|limit_id|job_id|delivery_id|key_id|account_code)\}/.test(path),
  );
  expect(operations.length).toBeGreaterThan(15);
  for (const operation of operations) {
    const name = /\{(transaction_id|hold_id|limit_id|job_id|delivery_id|key_id|account_code)\}/.exec(
      operation.path,
    )?.[1] as keyof typeof unknown;
    const ask = async (id: string) => {
      const path = operation.path.replace('{slug}', mine.tenant.slug).replace('{tenant_id}', mine.tenant.id).replace(`{${name}}`, id);
      const options = { key: credentialOf(operation), ...(operation.body && { body: operation.body }) };
      const days = path.endsWith('/daily') ? '&from=2026-01-01&to=2026-01-02' : '';
      const query = path.includes('/balance') ? `?currency=NGN${days}` : '';
      return comparable(await rest(operation.method, path + query, options), id);
    };
    const foreign = await ask(theirs.ids[name]);
    expect([operation.id, foreign]).toEqual([operation.id, await ask(unknown[name])]);
    expect([operation.id, foreign]).toEqual([operation.id, expect.objectContaining({ status: 404 })]);
  }
  expect(await stateOf(theirs)).toEqual(before);
});

test('accounts of another tenant in a body or a query are accounts that nobody has', async () => {
  const before = await stateOf(theirs);
  const path = `/v1/tenants/${mine.tenant.slug}`;
  const line = { amount: '1.00', currency: 'NGN' };
  const requests: [string, string, (code: string) => unknown][] = [
    ['POST', 'transactions', (account_code) => ({ ...line, account_code, side: 'debit' })],
    [
      'POST',
      'transactions/double-entry',
      (account_code) => ({
        entries: [
          { ...line, account_code: 'MINE-1', side: 'debit' },
          { ...line, account_code, side: 'credit' },
        ],
      }),
    ],
    ['POST', 'accounts', (parent_code) => ({ account_code: 'CHILD', name: 'Child', type: 'asset', parent_code })],
    ['GET', 'accounts?parent_code=', () => undefined],
    ['GET', 'transactions?account_code=', () => undefined],
    ['GET', 'transactions?reference=', () => undefined],
    ['GET', 'holds?account_code=', () => undefined],
  ];
  for (const [method, where, body] of requests) {
    const ask = async (code: string) => {
      const sent = body(code);
      return comparable(
        await rest(method, `${path}/${where}${sent ? '' : code}`, { key: mine.key, ...(sent ? { body: sent } : {}) }),
        code,
      );
    };
    expect([where, await ask('THEIRS-1')]).toEqual([where, await ask('NOBODY-1')]);
  }
  expect(await stateOf(theirs)).toEqual(before);
});

test('one idempotency key in two tenants is two keys', async () => {
  const [one, other] = await Promise.all(
    [mine, theirs].map(async ({ tenant, key }) => {
      const found = await rest('GET', `/v1/tenants/${tenant.slug}/transactions?idempotency_key=${encodeURIComponent(idempotencyKey)}`, {
        key,
      });
      return found.body.data.transactions.map((each: { transaction_id: string }) => each.transaction_id);
    }),
  );
  expect([one, other]).toEqual([[mine.ids.transaction_id], [theirs.ids.transaction_id]]);
});

test('a body cannot name a tenant, user or id: each such field is rejected, and nothing is changed', async () => {
  const before = await Promise.all([stateOf(mine), stateOf(theirs)]);
  const { tenant, ids } = theirs;
  const path = `/v1/tenants/${mine.tenant.slug}`;
  const line = { account_code: 'MINE-1', amount: '1.00', side: 'debit', currency: 'NGN' };
  const account = { account_code: 'NAMED', name: 'Named', type: 'asset' };
  const config = { url: 'http://127.0.0.1:9/mine', events: ['account.created'] };
  const created = { name: 'k', scopes: ['accounts:read'] };
  const fields = {
    tenant_id: tenant.id,
    slug: tenant.slug,
    user_id: tenant.owner.id,
    actor: tenant.owner.id,
    id: ids.transaction_id,
    transaction_id: ids.transaction_id,
    sequence: 1,
  };
  for (const [field, value] of Object.entries(fields)) {
    for (const [to, key, body] of [
      [`${path}/transactions`, mine.key, line],
      [`${path}/accounts`, mine.key, account],
      [`${path}/webhooks`, mine.key, config],
      [`/v1/tenants/${mine.tenant.id}/api-keys`, mine.tenant.owner.token, created],
    ] as const) {
      const answer = await rest('POST', to, { key, body: { ...body, [field]: value } });
      expect([to, answer.status, answer.body.details]).toMatchObject([to, 400, { field, tag: 'unknown' }]);
    }
  }
  expect(await Promise.all([stateOf(mine), stateOf(theirs)])).toEqual(before);
});

test('a page of another tenant’s list leads to nothing of theirs', async () => {
  for (const list of ['accounts', 'transactions', 'accounts/code/SETTLEMENT-NGN/balance/history']) {
    const path = ({ tenant }: TenantRecords) => `/v1/tenants/${tenant.slug}/${list}?limit=1${list === 'accounts' ? '' : '&currency=NGN'}`;
    const post = (of: TenantRecords) =>
      rest('POST', `/v1/tenants/${of.tenant.slug}/transactions`, {
        key: of.key,
        body: { account_code: 'SETTLEMENT-NGN', amount: '1.00', side: 'debit', currency: 'NGN' },
      });
    await Promise.all([post(theirs), post(theirs), post(mine), post(mine)]);
    const { next_cursor: cursor } = (await rest('GET', path(theirs), { key: theirs.key })).body.data.pagination;
    expect(cursor).toEqual(expect.any(String));
    const { status, body } = await rest('GET', `${path(mine)}&cursor=${cursor}`, { key: mine.key });
    expect([list, status === 200 || body.code === 'validation_failed']).toEqual([list, true]);
    const own = JSON.stringify((await rest('GET', path(mine).replace('limit=1', 'limit=100'), { key: mine.key })).body.data);
    for (const records of Object.values(body.data ?? {}).filter(Array.isArray)) {
      for (const record of records) expect(own).toContain(JSON.stringify(record));
    }
  }
});
