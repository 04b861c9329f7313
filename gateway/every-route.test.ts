// What holds for every operation of the OpenAPI document, so for one that is added later too.
import { startCheckedCluster, type CheckedCluster, type Operation } from '../test/contract.ts';
import { addJob } from '../test/jobs.ts';
import { addMember } from '../test/members.ts';
import { deposit, newWallet, type Customer } from '../test/customer.ts';

let cluster: CheckedCluster;
let customer: Customer;
let other: Customer;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  [customer, other] = await Promise.all([newWallet(cluster), newWallet(cluster)]);
});

type Body = Record<string, unknown>;

/** A call of an operation with its examples, by who may call it. */
function call({ method, path, security, definition }: Operation, query: string, body?: Body) {
  const own: Record<string, string> = { slug: customer.tenant.slug, tenant_id: customer.tenant.id };
  const parameters = definition.parameters as {
    name: string;
    in: string;
    required?: boolean;
    example?: string;
    schema: { example: string };
  }[];
  const required = parameters.filter((each) => each.in === 'query' && each.required === true);
  const needed = required.map((each) => `&${each.name}=${encodeURIComponent(each.example ?? '')}`).join('');
  const example = (name: string) => own[name] ?? parameters.find((each) => each.name === name)!.schema.example;
  const key = security === 'apiKeyToken' ? customer.key : security === 'userToken' ? customer.tenant.owner.token : undefined;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => example(name));
  return cluster.rest(method, filled + query + needed, { ...(key !== undefined && { key }), ...(body && { body }) });
}

/** The body with an unknown field at each level. */
function withUnknown(body: Body, field: string): [path: string, changed: Body][] {
  const inside = Object.entries(body).flatMap(([name, value]) => {
    const items = value as Body[];
    if (!Array.isArray(value) || typeof value[0] !== 'object') return [];
    return withUnknown(items[0]!, field).map(([path, item]): [string, Body] => [
      `${name}[0].${path}`,
      { ...body, [name]: [item, ...items.slice(1)] },
    ]);
  });
  return [[field, { ...body, [field]: true }], ...inside];
}

test('an unknown field and an unknown parameter are refused by each operation, and nothing is done', async () => {
  // Identity providers add parameters of their own.
  const operations = cluster.contract.operations.filter(({ id, path }) => path.startsWith('/v1/') && id !== 'finishOidc');
  expect(operations.length).toBeGreaterThan(30);
  const before = await customer.get('events?limit=100');
  for (const operation of operations) {
    const { id, method, body, definition } = operation;
    for (const [name, query] of [
      ['since', '?since=2026-01-01'],
      ['dryRun', '?dryRun=true'],
    ]) {
      const answer = await call(operation, query!, body);
      expect([id, answer.status, answer.body.details?.field, answer.body.details?.tag]).toEqual([id, 400, name, 'unknown']);
    }
    // Lines of an import have a test of their own.
    if (method === 'GET' || (definition.requestBody && !body)) continue;
    for (const [field, changed] of ['dry_run', 'idempotencyKey'].flatMap((each) => withUnknown(body ?? {}, each))) {
      const answer = await call(operation, '', changed);
      expect([id, answer.status, answer.body.details?.field, answer.body.details?.tag]).toEqual([id, 400, field, 'unknown']);
    }
  }
  expect(await customer.get('events?limit=100')).toEqual(before);
});

describe('a cursor', () => {
  /** The lists with cursors, each with filters, and with others for which its cursors are none. */
  const lists: Record<string, [filters: string, others: string[]]> = {
    listTenants: ['', []],
    listApiKeys: ['', []],
    listMembers: ['', []],
    listInvitations: ['', []],
    listAudit: ['', []],
    listUserAudit: ['', []],
    listAccounts: ['type=asset', ['', 'type=expense', 'type=asset&status=active', 'parent_code=ASSETS']],
    listLimits: ['', []],
    listJobs: ['', []],
    getAccountStatement: ['account_code=SETTLEMENT-USD', ['account_code=CUSTOMER-WALLETS-USD', 'account_code=SETTLEMENT-USD&order=posted']],
    getGeneralLedger: ['', ['account_code=SETTLEMENT-USD', 'currency=USD']],
    getJournal: ['', ['order=posted', 'currency=USD']],
    listPeriods: ['', []],
    listTransactions: ['reference=a', ['', 'reference=b', 'reference=a&currency=USD', 'reference=a&start_date=2026-01-01']],
    listHolds: ['reference=a', ['', 'reference=b', 'reference=a&status=pending', 'reference=a&expires_before=2099-01-01T00:00:00Z']],
    listBalanceHistory: ['currency=USD', ['', 'currency=USD&end_date=2099-01-01']],
  };
  const pathOf = ({ path }: Operation, of: Customer, code = 'SETTLEMENT-USD') =>
    path.replace('{slug}', of.tenant.slug).replace('{tenant_id}', of.tenant.id).replace('{account_code}', code);
  const read = (operation: Operation, of: Customer, query: string, code?: string) => {
    const key = operation.security === 'userToken' ? of.tenant.owner.token : of.key;
    return cluster.rest('GET', `${pathOf(operation, of, code)}?${query}`, { key });
  };

  test('continues its own list with the same filters, whatever the limit, and nothing else', async () => {
    const { operations } = cluster.contract;
    const withCursor = operations.filter(({ definition }) =>
      definition.parameters?.some(({ name }: { name: string }) => name === 'cursor'),
    );
    expect(withCursor.map(({ id }) => id).sort()).toEqual(Object.keys(lists).sort());
    for (const each of [customer, other]) {
      for (const reference of ['a', 'a', 'b', 'b']) {
        await each.post('transactions/double-entry', deposit('1.00', { reference }));
        await each.post('holds', deposit('1.00', { reference }));
      }
      await cluster.tenant({ person: each.tenant.owner });
      await cluster.apiKey(each.tenant);
      await addMember(cluster.databases.identity.adminUrl, each.tenant.id, (await cluster.signUp()).id, 'viewer');
      for (const email of ['a@example.com', 'b@example.com']) {
        const given = { key: each.tenant.owner.token, body: { email: `${each.tenant.slug}-${email}`, role: 'viewer' } };
        await cluster.rest('POST', `/v1/tenants/${each.tenant.id}/invitations`, given);
      }
      for (const content of ['1', '2']) await addJob(cluster.databases.ledger.adminUrl, each.tenant.id, Buffer.from(content));
      for (const max_count of [1, 2]) {
        const limit = { account_code: 'SETTLEMENT-USD', currency: 'USD', side: 'debit', window: { rolling_seconds: 60 } };
        await each.post('limits', { ...limit, max_count });
        await each.post('periods/close', { through: `202${max_count}-12-31` });
      }
    }
    for (const operation of withCursor) {
      const [filters, others] = lists[operation.id]!;
      const first = await read(operation, customer, `limit=1&${filters}`);
      const cursor = first.body.data.pagination.next_cursor as string;
      expect([operation.id, typeof cursor]).toEqual([operation.id, 'string']);
      expect((await read(operation, customer, `limit=2&${filters}&cursor=${cursor}`)).status).toBe(200);
      const refused = [
        read(operation, other, `${filters}&cursor=${cursor}`),
        ...others.map((query) => read(operation, customer, `${query}&cursor=${cursor}`)),
        ...withCursor.filter((each) => each !== operation).map((each) => read(each, customer, `${lists[each.id]![0]}&cursor=${cursor}`)),
        ...(operation.id === 'listBalanceHistory'
          ? [read(operation, customer, `${filters}&cursor=${cursor}`, 'CUSTOMER-WALLETS-USD')]
          : []),
      ];
      for (const { status, body } of await Promise.all(refused)) {
        expect([operation.id, status, body.details]).toEqual([operation.id, 400, { field: 'cursor', tag: 'cursor', value: cursor }]);
        expect(body.errors[0].message).toBe('cursor must be the next_cursor of a page of this list with the same filters');
      }
    }
  });
});
