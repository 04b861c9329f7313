// Hostile values in every field, parameter and path: every answer is one that the OpenAPI document lists, and nothing is polluted.
import { jest } from '@jest/globals';
import pg from 'pg';
import { newId } from '../../services/platform/ids.ts';
import { checkedRest, readContract, type Contract, type Operation } from '../contract.ts';
import { startCluster, type Cluster, type Tenant } from '../cluster.ts';
import { ledgerFaults } from '../proof/ledger-check.ts';

jest.setTimeout(180_000);

const limits = { WEBHOOK_CONFIG_PER_MINUTE: '10000', WEBHOOK_RETRIES_PER_HOUR: '10000', WEBHOOK_TESTS_PER_HOUR: '10000' };
let cluster: Cluster;
let contract: Contract;
let rest: Cluster['rest'];
let tenant: Tenant;
let key: string;

beforeAll(async () => {
  cluster = await startCluster({ environment: { notifier: { ...limits, WEBHOOK_TIMEOUT: '2' } } });
  contract = await readContract(cluster.url);
  rest = checkedRest(cluster, contract);
  tenant = await cluster.tenant();
  key = await cluster.apiKey(tenant);
  await rest('POST', `/v1/tenants/${tenant.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});
afterAll(() => cluster.stop());

const credentialOf = ({ security }: Operation) => (security === '' ? {} : { key: security === 'apiKeyToken' ? key : tenant.owner.token });
const withBody = () => contract.operations.filter(({ body }) => body !== undefined);

function pathOf({ path }: Operation, change: Record<string, string> = {}): string {
  const known: Record<string, string> = {
    slug: tenant.slug,
    tenant_id: tenant.id,
    transaction_id: newId('txn'),
    hold_id: newId('hold'),
    limit_id: newId('limit'),
    job_id: newId('job'),
    key_id: newId('key'),
    delivery_id: newId('wh_delivery'),
    user_id: newId('user'),
    invitation_id: newId('inv'),
    provider: 'acme',
    name: 'large',
    account_code: 'SETTLEMENT-NGN',
    ...change,
  };
  return path.replaceAll(/\{([^}]+)\}/g, (_, name: string) => known[name] ?? '');
}

/** Paths into a value: `['entries', 0, 'amount']`. */
function pathsIn(value: unknown, path: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== 'object' || value === null) return [path];
  const entries: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()].slice(0, 1) : Object.entries(value);
  return [...(path.length > 0 ? [path] : []), ...entries.flatMap(([name, each]) => pathsIn(each, [...path, name]))];
}

const marker = '"<hostile>"';

/** The body as JSON, with that text at a path. */
function withText(body: unknown, place: (string | number)[], text: string): string {
  const copy = structuredClone(body) as Record<string | number, any>;
  let here = copy;
  for (const step of place.slice(0, -1)) here = here[step];
  here[place.at(-1) as string] = '<hostile>';
  return JSON.stringify(copy).replace(marker, text);
}

/** Sends a text in every field of every body, or in the first of each; resolves to the answers. */
async function everywhere(text: string, which: 'all' | 'first' = 'all'): Promise<{ place: string; status: number; body: any }[]> {
  const answers = [];
  for (const operation of withBody()) {
    for (const place of pathsIn(operation.body).slice(0, which === 'first' ? 1 : undefined)) {
      const answer = await rest(operation.method, pathOf(operation), {
        ...credentialOf(operation),
        body: withText(operation.body, place, text),
      });
      answers.push({ place: `${operation.id} ${place.join('.')}`, status: answer.status, body: answer.body });
    }
  }
  expect(answers.length).toBeGreaterThan(which === 'first' ? 10 : 40);
  return answers;
}

// 401 a refresh token, 403 a wrong password, 404 an id, 409 a conflict, 422 a business rule, 429 too many failed logins, 502 a test delivery.
const documented = [200, 201, 202, 400, 401, 403, 404, 409, 422, 429, 502];

describe('in every field of every body', () => {
  test.each([
    ['a prototype', '{"__proto__":{"description":"polluted","admin":true}}'],
    ['a prototype that is escaped', '{"\\u005f\\u005fproto__":1}'],
    ['a word of JavaScript', 'NaN'],
    ['a control character', '"\u0001"'],
  ])('%s is no JSON', async (_, text) => {
    for (const { place, status, body } of await everywhere(text)) expect([place, status, body.code]).toEqual([place, 400, 'invalid_json']);
  });

  test.each([
    ['NUL', '"a\\u0000b"', 'a\0b'],
    ['half of a surrogate pair', '"a\\ud800b"', 'a\ud800b'],
  ])('%s is stored nowhere', async (_, text, value) => {
    for (const { place, status, body } of await everywhere(text)) {
      expect([place, documented.includes(status)]).toEqual([place, true]);
      // Only a refusal repeats it.
      if (status < 300) expect([place, JSON.stringify(body).includes(JSON.stringify(value).slice(1, -1))]).toEqual([place, false]);
    }
    // An unchecked half of a pair would be encoded as U+FFFD.
    const client = new pg.Client({ connectionString: cluster.databases.ledger.adminUrl });
    await client.connect();
    const { rows } = await client.query(`select name from accounts where name || coalesce(description, '') ~ U&'\\FFFD'`);
    await client.end();
    expect(rows).toEqual([]);
  });

  test.each([
    ['a number beyond every double', '1e400'],
    ['keys with names of Object', '{"toString":1,"valueOf":1,"hasOwnProperty":1,"then":1,"toJSON":1}'],
    ['null', 'null'],
    ['text that turns its reading direction', '"\\u202e\\u2066"'],
  ])('%s is answered as the document says', async (_, text) => {
    for (const { place, status } of await everywhere(text)) expect([place, documented.includes(status)]).toEqual([place, true]);
  });

  test.each([
    ['a number of 100,000 digits', '9'.repeat(100_000)],
    ['a list nested 100,000 deep', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
    ['a text of 500,000', `"${'x'.repeat(500_000)}"`],
    ['100,000 keys', `{${Array.from({ length: 100_000 }, (_, place) => `"${place}":0`).join()}}`],
  ])('%s, which no field is needed to refuse, is answered as the document says', async (_, text) => {
    for (const { place, status } of await everywhere(text, 'first')) expect([place, documented.includes(status)]).toEqual([place, true]);
  });

  test('of a key that is sent twice the last counts, for the rules and for what is stored', async () => {
    for (const operation of withBody()) {
      for (const [name, value] of Object.entries(operation.body ?? {})) {
        const others = JSON.stringify(operation.body).slice(1);
        const valid = `{${JSON.stringify(name)}:[[]],${others}`;
        const invalid = `{${others.slice(0, -1)},${JSON.stringify(name)}:[[]]}`;
        const send = (body: string) => rest(operation.method, pathOf(operation), { ...credentialOf(operation), body });
        const wrongOf = async (body: string) => ((await send(body)).body.errors ?? []).map(({ field }: { field: string }) => field);
        // A list of lists is wrong for every field, except free ones and lists, whose items are named.
        expect([operation.id, name, (await wrongOf(valid)).includes(name)]).toEqual([operation.id, name, false]);
        if (name !== 'metadata' && !Array.isArray(value)) {
          expect([operation.id, name, (await wrongOf(invalid)).includes(name)]).toEqual([operation.id, name, true]);
        }
      }
    }
    const line = '"account_code":"SETTLEMENT-NGN","side":"debit","currency":"NGN"';
    const path = `/v1/tenants/${tenant.slug}/transactions`;
    const posted = await rest('POST', path, { key, body: `{"amount":"1.00",${line},"metadata":{"a":1,"a":2},"amount":"2.00"}` });
    expect(posted.body.data.transaction).toMatchObject({ amount: '2.00', metadata: { a: 2 } });
  });
});

describe('in every path and query', () => {
  const hostile = [
    ...['%00', '%ED%A0%80', '%2e%2e%2f%2e%2e%2fetc%2fpasswd', '%0d%0aX-Injected:%201', '__proto__', "'%20or%201=1--"],
    ...['-1', '99999999999999999999999999', 'x'.repeat(8_000), '+275760-09-13'],
    newId('txn').replace(/^(.{14})./, '$10'),
  ];

  test('a hostile path is answered as the document says', async () => {
    for (const operation of contract.operations) {
      for (const [, name = ''] of operation.path.matchAll(/\{([^}]+)\}/g)) {
        for (const value of hostile) {
          const options = { ...credentialOf(operation), ...(operation.body && { body: operation.body }) };
          const prefix = name.replace('_id', '').replace('transaction', 'txn').replace('delivery', 'wh_delivery');
          // Behind its prefix only where there is one.
          const asId = name.endsWith('_id') ? [`${prefix}_${value}`] : [];
          for (const each of [value.replace(/^txn_/, `${prefix}_`), ...asId]) {
            const { status } = await rest(operation.method, pathOf(operation, { [name]: each }), options);
            // Without the cookie of a login no provider is looked for; a filter may have any name.
            const expected = operation.id === 'finishOidc' ? [400, 401, 404] : name === 'name' ? [200, 400, 404] : [400, 404];
            expect([operation.id, name, each, expected.includes(status)]).toEqual([operation.id, name, each, true]);
          }
        }
      }
    }
  });

  test('a hostile query is answered as the document says, also twice or as a list', async () => {
    for (const operation of contract.operations.filter(({ method }) => method === 'GET')) {
      const parameters = (operation.definition.parameters ?? []) as { in: string; name: string }[];
      for (const { name } of parameters.filter((each) => each.in === 'query')) {
        const forms = [`${name}=1&${name}=2`, `${name}[]=1`, `${name}[__proto__]=1`];
        for (const query of [...hostile.map((value) => `${name}=${value}`), ...forms]) {
          const { status } = await rest('GET', `${pathOf(operation)}?${query}`, credentialOf(operation));
          expect([operation.id, query, [200, 400, 404, 422].includes(status)]).toEqual([operation.id, query, true]);
        }
      }
    }
  });

  test('a hostile header is answered as the document says', async () => {
    const path = `/v1/tenants/${tenant.slug}/transactions`;
    const body = { account_code: 'SETTLEMENT-NGN', amount: '1.00', side: 'debit', currency: 'NGN' };
    for (const value of ['\u0080', '"', '"a', '\\', ' ', '%00', 'x'.repeat(256), 'x'.repeat(8_000)]) {
      for (const name of ['idempotency-key', 'x-request-id', 'traceparent', 'x-forwarded-for', 'origin']) {
        const answer = await rest('POST', path, { key, body, headers: { [name]: value } });
        expect([name, value, [200, 201, 400].includes(answer.status)]).toEqual([name, value, true]);
        expect(answer.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
      }
    }
  });
});

test('afterwards nothing is polluted: fields that are not sent are unset, and the ledger is right', async () => {
  const account = { account_code: 'CLEAN', name: 'Clean', type: 'asset' };
  const made = await rest('POST', `/v1/tenants/${tenant.slug}/accounts`, { key, body: account });
  expect(made.body.data.account).toMatchObject({ description: null, parent_code: null, currency: null, metadata: {}, is_group: false });
  expect(await ledgerFaults(cluster)).toEqual([]);
});
