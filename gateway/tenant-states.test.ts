// States of a tenant through REST: what keys and users may still do in one that is suspended or closed.
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { newId, type Prefix } from '../services/platform/ids.ts';
import { startCheckedCluster, type CheckedCluster, type Operation } from '../test/contract.ts';
import type { Tenant } from '../test/cluster.ts';
import { deposit } from '../test/customer.ts';
import { until } from '../test/polling.ts';

let cluster: CheckedCluster;
beforeAll(async () => {
  cluster = await startCheckedCluster();
});
afterAll(() => cluster.stop());

const change = (tenant: Tenant, action: string) => cluster.rest('POST', `/v1/tenants/${tenant.id}/${action}`, { key: tenant.owner.token });

async function walletWithKeys(): Promise<{ tenant: Tenant; keys: string[] }> {
  const tenant = await cluster.tenant();
  const key = await cluster.apiKey(tenant);
  await cluster.rest('POST', `/v1/tenants/${tenant.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
  const { body } = await cluster.rest('POST', `/v1/tenants/${tenant.id}/access`, { key: tenant.owner.token, body: {} });
  return { tenant, keys: [key, body.data.access.key] };
}

const post = (tenant: Tenant, key: string, idempotency_key: string) =>
  cluster.rest('POST', `/v1/tenants/${tenant.slug}/transactions/double-entry`, { key, body: { idempotency_key, ...deposit('1.00') } });

const prefixes: Record<string, Prefix> = { transaction: 'txn', delivery: 'wh_delivery', invitation: 'inv' };
const pathOf = ({ path }: Operation, tenant: Tenant) =>
  path
    .replace('{slug}', tenant.slug)
    .replace('{tenant_id}', tenant.id)
    .replace('{account_code}', 'CUSTOMER-WALLETS-USD')
    .replaceAll(/\{([a-z]+)_id\}/g, (_, name: string) => newId(prefixes[name] ?? (name as Prefix)));

describe.each([
  ['suspend', 'suspended', 'resume'],
  ['close', 'closed', 'reopen'],
])('after %s', (action, status, undo) => {
  test('within 5 s keys read only, a running import ends, and of the routes for users members, audit and states work', async () => {
    const { tenant, keys } = await walletWithKeys();
    for (const [index, key] of keys.entries()) expect((await post(tenant, key, `before-${index}`)).status).toBe(201);
    const upload = request(`${cluster.url}/v1/tenants/${tenant.slug}/transactions/import?results=all`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keys[0]}`, 'content-type': 'application/x-ndjson' },
    });
    upload.on('error', () => undefined);
    const line = (number: number) => `${JSON.stringify({ op: 'double', idempotency_key: `import-${number}`, ...deposit('1.00') })}\n`;
    upload.write(line(0));
    const [response] = (await once(upload, 'response')) as [IncomingMessage];
    const report = text(response);

    const changed = await change(tenant, action);
    const since = performance.now();
    expect(changed.body).toMatchObject({ success: true, data: { tenant: { id: tenant.id, status, role: 'owner' } } });
    let number = 1;
    const writing = setInterval(() => upload.write(line(number++)), 50);
    const code = `tenant_${status}`;
    for (const [index, key] of keys.entries()) {
      let tries = 0;
      const { body } = await until(
        () => post(tenant, key, `after-${index}-${tries++}`),
        (answer) => answer.status === 403,
      );
      expect(body.code).toBe(code);
    }
    expect(JSON.parse((await report).trimEnd().split('\n').at(-1)!)).toMatchObject({ done: false, code });
    expect(performance.now() - since).toBeLessThan(5_000);
    clearInterval(writing);
    upload.destroy();

    const answers = async (operation: Operation, key: string) => {
      const answer = await cluster.rest(operation.method, pathOf(operation, tenant), {
        key,
        // A stream of events would not end.
        headers: { 'last-event-id': 'none' },
        ...(operation.body && { body: operation.body }),
      });
      return [operation.id, answer.status, answer.body.code] as const;
    };
    // The access key has every scope.
    for (const operation of cluster.contract.operations.filter(({ security }) => security === 'apiKeyToken')) {
      const answer = await answers(operation, keys[1]!);
      if (operation.method === 'GET') expect([operation.id, answer[1]]).not.toEqual([operation.id, 403]);
      else expect(answer).toEqual([operation.id, 403, code]);
    }
    const ofTenant = cluster.contract.operations.filter(
      ({ path }) => path.startsWith('/v1/tenants/{tenant_id}/') || path === '/v1/tenants/{tenant_id}',
    );
    expect(ofTenant.length).toBeGreaterThan(8);
    for (const operation of ofTenant) {
      if (/\/(suspend|resume|close|reopen)$/.test(operation.path)) continue;
      const answer = await answers(operation, tenant.owner.token);
      if (/\/(members|audit)\b/.test(operation.path)) expect(answer[2]).not.toBe(code);
      else expect(answer).toEqual([operation.id, 403, code]);
    }

    // A second call changes nothing.
    expect((await change(tenant, action)).body).toEqual(changed.body);
    expect((await change(tenant, undo)).body.data.tenant).toMatchObject({ status: 'active', delete_at: null });
    let tries = 0;
    await until(
      () => post(tenant, keys[0]!, `again-${tries++}`),
      (answer) => answer.status === 201,
    );
  });
});

test('a closed tenant says when it is deleted, and each state answers its own errors', async () => {
  const tenant = await cluster.tenant();
  const closed = await change(tenant, 'close');
  const inDays = (Date.parse(closed.body.data.tenant.delete_at) - Date.now()) / 86_400_000;
  expect(Math.round(inDays)).toBe(30);
  for (const action of ['suspend', 'resume']) {
    const { status, body } = await change(tenant, action);
    expect([action, status, body.code]).toEqual([action, 403, 'tenant_closed']);
  }
  await change(tenant, 'reopen');
  await change(tenant, 'suspend');
  const refused = await change(tenant, 'reopen');
  expect([refused.status, refused.body.code]).toEqual([403, 'tenant_suspended']);
  expect((await change(tenant, 'close')).body.message).toBe('Tenant closed');
  const listed = await cluster.rest('GET', '/v1/tenants', { key: tenant.owner.token });
  expect(listed.body.data.tenants[0]).toMatchObject({ id: tenant.id, status: 'closed', role: 'owner' });
  const outsider = await cluster.signUp();
  const foreign = await cluster.rest('POST', `/v1/tenants/${tenant.id}/reopen`, { key: outsider.token });
  expect([foreign.status, foreign.body.code]).toEqual([404, 'tenant_not_found']);
});
