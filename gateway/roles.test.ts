// Who may call each route: every route of the document, for a member of each role, somebody who is no member, and an access key of each role.
import { newId } from '../services/platform/ids.ts';
import { isAtLeast, roles, scopes, scopesOf, type Role, type Scope } from '../services/platform/roles.ts';
import { startCheckedCluster, type CheckedCluster, type Operation } from '../test/contract.ts';
import type { Person, RestOptions, Tenant } from '../test/cluster.ts';
import { addMember } from '../test/members.ts';

/** Who may call it: anyone, any user, members from this role up, or API keys with this scope. One line a route. */
const allowed: Record<string, 'anyone' | 'user' | Role | Scope> = {
  // Users.
  register: 'anyone',
  login: 'anyone',
  refresh: 'anyone',
  logout: 'anyone',
  getUser: 'user',
  // Email and password.
  sendVerificationEmail: 'user',
  verifyEmail: 'anyone',
  forgotPassword: 'anyone',
  resetPassword: 'anyone',
  changePassword: 'user',
  // Second factor.
  startTotp: 'user',
  confirmTotp: 'user',
  deleteTotp: 'user',
  // Identity providers.
  startOidc: 'anyone',
  finishOidc: 'anyone',
  exchangeOidcCode: 'anyone',
  linkOidc: 'user',
  // Tenants.
  createTenant: 'user',
  listTenants: 'user',
  updateTenant: 'owner',
  // Keys.
  createApiKey: 'admin',
  listApiKeys: 'viewer',
  revokeApiKey: 'admin',
  rotateApiKey: 'admin',
  createAccess: 'viewer',
  // Members. Every member may remove itself, and identity rejects more: see services/identity/members.test.ts.
  listMembers: 'viewer',
  updateMember: 'admin',
  removeMember: 'viewer',
  createInvitation: 'admin',
  listInvitations: 'admin',
  deleteInvitation: 'admin',
  acceptInvitation: 'user',
  // States.
  suspendTenant: 'owner',
  resumeTenant: 'owner',
  closeTenant: 'owner',
  reopenTenant: 'owner',
  importLog: 'owner',
  // Audit.
  listAudit: 'admin',
  listUserAudit: 'user',
  // Ledger.
  getAccount: 'accounts:read',
  getBooks: 'accounts:read',
  getHierarchy: 'accounts:read',
  getLimit: 'accounts:read',
  getLimitUsage: 'accounts:read',
  listAccounts: 'accounts:read',
  listLimits: 'accounts:read',
  listPeriods: 'accounts:read',
  createAccount: 'accounts:write',
  createAccounts: 'accounts:write',
  createLimit: 'accounts:write',
  deleteLimit: 'accounts:write',
  setUpChart: 'accounts:write',
  updateAccount: 'accounts:write',
  updateBooks: 'accounts:write',
  closePeriod: 'periods:close',
  reopenPeriod: 'periods:reopen',
  redactTransaction: 'personal:manage',
  updateLimit: 'accounts:write',
  getBalance: 'balances:read',
  listBalanceHistory: 'balances:read',
  exportAccounts: 'accounts:read',
  exportBalances: 'balances:read',
  exportEntries: 'transactions:read',
  exportEvents: 'transactions:read',
  exportEverything: 'transactions:read',
  exportTransactions: 'transactions:read',
  getTrialBalance: 'reports:read',
  startTrialBalance: 'reports:read',
  getBalanceSheet: 'reports:read',
  startBalanceSheet: 'reports:read',
  getIncomeStatement: 'reports:read',
  startIncomeStatement: 'reports:read',
  getCashFlow: 'reports:read',
  startCashFlow: 'reports:read',
  getAccountStatement: 'reports:read',
  startAccountStatement: 'reports:read',
  getGeneralLedger: 'reports:read',
  startGeneralLedger: 'reports:read',
  getJournal: 'reports:read',
  startJournal: 'reports:read',
  listJobs: 'reports:read',
  getJob: 'reports:read',
  deleteJob: 'reports:read',
  getJobResult: 'reports:read',
  listDailyBalances: 'balances:read',
  getHold: 'transactions:read',
  getTransaction: 'transactions:read',
  listFilters: 'transactions:read',
  putFilter: 'transactions:read',
  deleteFilter: 'transactions:read',
  getVolume: 'reports:read',
  listEvents: 'transactions:read',
  getCheckpoint: 'transactions:read',
  getConsistency: 'transactions:read',
  getEventProof: 'transactions:read',
  getTile: 'transactions:read',
  getTileEntries: 'transactions:read',
  getTransactionProof: 'transactions:read',
  listCheckpointKeys: 'transactions:read',
  streamEvents: 'transactions:read',
  listHolds: 'transactions:read',
  listTransactions: 'transactions:read',
  captureHold: 'transactions:write',
  createHold: 'transactions:write',
  eraseSubject: 'personal:manage',
  importTransactions: 'transactions:write',
  postDouble: 'transactions:write',
  postExchange: 'transactions:write',
  postSingle: 'transactions:write',
  reverseTransaction: 'transactions:write',
  submitBatch: 'transactions:write',
  voidHold: 'transactions:write',
  // Webhooks.
  configureWebhook: 'webhooks:manage',
  deleteWebhook: 'webhooks:manage',
  deleteWebhooks: 'webhooks:manage',
  getDelivery: 'webhooks:manage',
  getWebhook: 'webhooks:manage',
  listDeliveries: 'webhooks:manage',
  retryDeliveries: 'webhooks:manage',
  retryDelivery: 'webhooks:manage',
  rotateWebhookSecret: 'webhooks:manage',
  testWebhook: 'webhooks:manage',
  updateWebhook: 'webhooks:manage',
  updateWebhooks: 'webhooks:manage',
  // Operations.
  getHealth: 'anyone',
  getReadiness: 'anyone',
  getMetrics: 'anyone',
  getKeySet: 'anyone',
  getOpenApi: 'anyone',
};

let cluster: CheckedCluster;
let tenant: Tenant;
let outsider: Person;
const members = new Map<Role, Person>();
/** For each role its access key. */
const keys = new Map<Role, string>();

beforeAll(async () => {
  cluster = await startCheckedCluster();
  tenant = await cluster.tenant();
  outsider = await cluster.signUp();
  for (const role of roles) {
    const person = role === 'owner' ? tenant.owner : await cluster.signUp();
    if (role !== 'owner') await addMember(cluster.databases.identity.adminUrl, tenant.id, person.id, role);
    members.set(role, person);
    const { status, body } = await cluster.rest('POST', `/v1/tenants/${tenant.id}/access`, { key: person.token });
    expect([role, status, body.data.access.scopes]).toEqual([role, 201, scopesOf(role)]);
    keys.set(role, body.data.access.key);
  }
});
afterAll(() => cluster.stop());

const isRole = (by: string): by is Role => (roles as readonly string[]).includes(by);
const isScope = (by: string): by is Scope => (scopes as readonly string[]).includes(by);

/** Calls an operation with a body that fails every check after those of the caller, and, unless it reads, malformed ids. */
const ask = (operation: Operation, key: string) => {
  const { method, path } = operation;
  const hopeless: RestOptions =
    method === 'GET'
      ? { headers: { 'last-event-id': 'none' } }
      : { body: Buffer.alloc(1_048_577, '{'), headers: { 'content-type': 'text/plain' } };
  const filled = path
    .replace('{slug}', tenant.slug)
    .replace('{tenant_id}', tenant.id)
    .replaceAll(/\{\w+\}/g, newId('acc'));
  return cluster.rest(method, filled, { ...hopeless, key });
};
const operationsBy = (is: (by: string) => boolean) => cluster.contract.operations.filter(({ id }) => is(allowed[id] ?? ''));

test('each route of the document is listed here, with the credential and the scope that it takes', () => {
  const stated = cluster.contract.operations.map(({ id, security, scope, path }) => {
    if (security === 'apiKeyToken') return [id, scope];
    const by = allowed[id] ?? 'not listed';
    if (security === 'userToken') return [id, path.includes('{tenant_id}') === isRole(by) && (isRole(by) || by === 'user') ? by : 'a user'];
    return [id, 'anyone'];
  });
  expect(Object.fromEntries(stated)).toEqual(allowed);
});

test('a user without a tenant may call the routes of users', async () => {
  for (const operation of operationsBy((by) => by === 'user')) {
    const { status } = await ask(operation, outsider.token);
    expect([operation.id, status]).toEqual([operation.id, operation.method === 'GET' ? 200 : 413]);
  }
});

test.each(roles)(
  'a member with the role %s may call the routes of its role, and gets 403 from others before ids and body',
  async (role) => {
    const { token } = members.get(role)!;
    for (const operation of operationsBy(isRole)) {
      const { status, body, headers } = await ask(operation, token);
      const answer = [operation.id, status, body.code, headers.get('www-authenticate')];
      if (!isAtLeast(role, allowed[operation.id] as Role)) {
        expect(answer).toEqual([operation.id, 403, 'forbidden', 'Bearer realm="ledger", error="insufficient_scope"']);
      } else if (operation.method === 'GET') expect(answer).toEqual([operation.id, 200, undefined, null]);
      else if (operation.id === 'importLog') expect(answer).toEqual([operation.id, 415, 'unsupported_media_type', null]);
      else expect(answer).toEqual([operation.id, 413, 'payload_too_large', null]);
    }
  },
);

test('to a user who is no member the tenant does not exist', async () => {
  for (const operation of operationsBy(isRole)) {
    const { status, body } = await ask(operation, outsider.token);
    expect([operation.id, status, body.code]).toEqual([operation.id, 404, 'tenant_not_found']);
  }
});

test.each(roles)('an access key of the role %s opens the routes of its scopes and no others', async (role) => {
  const operations = operationsBy(isScope);
  expect(operations.length).toBeGreaterThan(30);
  for (const operation of operations) {
    const scope = allowed[operation.id] as Scope;
    const { status, body, headers } = await ask(operation, keys.get(role)!);
    if (scopesOf(role).includes(scope))
      expect([operation.id, [401, 403].includes(status) || body.code === 'tenant_not_found']).toEqual([operation.id, false]);
    else {
      const challenge = `Bearer realm="ledger", error="insufficient_scope", scope="${scope}"`;
      expect([operation.id, status, body.code, headers.get('www-authenticate')]).toEqual([operation.id, 403, 'forbidden', challenge]);
    }
  }
});
