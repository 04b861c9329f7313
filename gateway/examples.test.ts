import { addJob } from '../test/jobs.ts';
import { addMember } from '../test/members.ts';
import { startCheckedCluster, type CheckedCluster, type Operation } from '../test/contract.ts';

let cluster: CheckedCluster;
beforeAll(async () => {
  cluster = await startCheckedCluster();
});
afterAll(() => cluster.stop());

/** What is put in the place of the document's own ids and credentials, which are nobody's. */
const known: Record<string, string> = { userToken: '', apiKeyToken: '' };

/** Sends an operation with everything that the document shows of it, once for each of its bodies; answers statuses and the last `data`. */
async function send(id: string): Promise<{ statuses: number[]; data: any }> {
  const operation = cluster.contract.operations.find((each) => each.id === id) as Operation;
  const { parameters, requestBody } = operation.definition as { parameters: Parameter[]; requestBody?: any };
  const shown = (place: string, body = 'example'): Record<string, string> => {
    // A cursor is good for one tenant only; a sequence and a time are two ways to say what is known.
    const excluded = ['cursor', 'known_sequence', ...(parameters.some(({ name }) => name === 'from') ? ['as_of'] : [])];
    const given = parameters.filter((each) => each.in === place && !excluded.includes(each.name));
    return Object.fromEntries(given.map(({ name, example, examples }) => [name, String(example ?? examples?.[body]?.value)]));
  };
  const examples = shown('path');
  const path = operation.path.replaceAll(/\{([a-z_]+)\}/g, (_, name: string) => encodeURIComponent(known[name] ?? examples[name] ?? ''));
  const [type, { example, examples: shownBodies = { example: { value: example } } }] = Object.entries<any>(
    requestBody?.content ?? { '': {} },
  )[0]!;
  const bodies = Object.entries<{ value?: unknown }>(shownBodies);
  const statuses: number[] = [];
  let data: any;
  for (const [name, { value }] of bodies) {
    const query = new URLSearchParams(shown('query', name)).toString();
    const answer = await cluster.rest(operation.method, query === '' ? path : `${path}?${query}`, {
      ...(value !== undefined && { body: value }),
      ...(operation.security !== '' && { key: known[operation.security] ?? '' }),
      headers: { ...shown('header', name), ...(type !== '' && { 'content-type': type }) },
    });
    statuses.push(answer.status);
    data = answer.body.data ?? answer.body;
  }
  return { statuses, data };
}

interface Parameter {
  in: string;
  name: string;
  example?: unknown;
  examples?: Record<string, { value: unknown }>;
}

test('the examples of the document are accepted as they stand, from registration to the last webhook', async () => {
  const sent = new Set([
    'confirmTotp',
    'deleteTotp',
    'updateTenant',
    'reopenPeriod',
    'reverseTransaction',
    'updateAccount',
    'captureHold',
    'voidHold',
    'updateBooks',
  ]);
  const all = async (...ids: string[]) => {
    let last: any;
    for (const id of ids) {
      const { statuses, data } = await send(id);
      sent.add(id);
      expect([id, statuses.filter((status) => status >= 300)]).toEqual([id, id === 'testWebhook' ? [502, 502] : []]);
      last = data;
    }
    return last;
  };
  await all('register');
  known['userToken'] = (await all('login')).token;
  await all('sendVerificationEmail', 'forgotPassword');
  const { tenant } = await all('getUser', 'createTenant');
  known['tenant_id'] = tenant.id;
  known['user_id'] = (await cluster.signUp()).id;
  await addMember(cluster.databases.identity.adminUrl, tenant.id, known['user_id'], 'viewer');
  await all('listMembers', 'updateMember', 'removeMember');
  known['invitation_id'] = (await all('createInvitation')).invitation.id;
  await all('listInvitations', 'deleteInvitation');
  known['key_id'] = (await all('listTenants', 'createApiKey')).api_key.id;
  const { id, slug, owner } = { ...tenant, owner: { id: '', email: '', password: '', token: known['userToken'] } };
  known['apiKeyToken'] = await cluster.apiKey({ id, slug, owner });
  await all(
    'createAccess',
    'listApiKeys',
    'rotateApiKey',
    'revokeApiKey',
    'listAudit',
    'listUserAudit',
    'importLog',
    'setUpChart',
    'createAccount',
    'createAccounts',
    'listAccounts',
    'getHierarchy',
  );
  known['transaction_id'] = (await all('postSingle', 'postExchange', 'postDouble')).transaction.transaction_id;
  await all('submitBatch', 'importTransactions');
  known['hold_id'] = (await all('createHold')).hold.hold_id;
  await all('listHolds', 'getHold');
  await all(
    'getBalance',
    'listDailyBalances',
    'listBalanceHistory',
    'putFilter',
    'listFilters',
    'listTransactions',
    'getVolume',
    'getTransaction',
    'redactTransaction',
    'listEvents',
    ...['getTransactionProof', 'getEventProof', 'getCheckpoint', 'getConsistency', 'listCheckpointKeys', 'getTile', 'getTileEntries'],
    'getAccount',
    'getBooks',
    'configureWebhook',
  );
  known['limit_id'] = (await all('createLimit')).limit.limit_id;
  await all('listLimits', 'getLimit', 'getLimitUsage', 'updateLimit', 'deleteLimit');
  const reports = ['TrialBalance', 'BalanceSheet', 'IncomeStatement', 'CashFlow', 'AccountStatement', 'GeneralLedger', 'Journal'];
  await all(...reports.map((report) => `get${report}`));
  await all(...reports.map((report) => `start${report}`));
  await all('closePeriod', 'listPeriods');
  await all('getWebhook', 'rotateWebhookSecret', 'updateWebhook', 'updateWebhooks');
  // Where nobody listens, and not the address that is shown.
  const own = { key: known['apiKeyToken'], body: { url: 'http://127.0.0.1:9/hook', enabled: true } };
  await cluster.rest('PATCH', `/v1/tenants/${slug}/webhooks/config`, own);
  known['delivery_id'] = (await all('testWebhook')).delivery_id;
  await all('listDeliveries', 'getDelivery', 'retryDelivery', 'retryDeliveries', 'deleteWebhook');
  await all('suspendTenant', 'resumeTenant', 'closeTenant', 'reopenTenant', 'startTotp', 'changePassword', 'logout');

  // The code that is shown is nobody's, and no second factor is on.
  for (const id of ['confirmTotp', 'deleteTotp', 'updateTenant']) expect([id, (await send(id)).statuses]).toEqual([id, [403]]);

  // The last of the bodies would do once more what can be done once.
  known['job_id'] = await addJob(cluster.databases.ledger.adminUrl, tenant.id, Buffer.from('a,b'));
  await all('exportEvents', 'exportTransactions', 'exportEntries', 'exportAccounts', 'exportBalances', 'exportEverything');
  await all('deleteFilter', 'eraseSubject');
  await all('listJobs', 'getJob', 'getJobResult', 'deleteJob');
  expect((await send('reverseTransaction')).statuses).toEqual([201, 201, 409]);
  expect((await send('captureHold')).statuses).toEqual([201, 201]);
  expect((await send('voidHold')).statuses).toEqual([409, 409]);
  expect((await send('updateAccount')).statuses).toEqual([200, 200, 409]);
  // The time zone of closed books, a version of before, and days that are closed for ever.
  expect((await send('updateBooks')).statuses).toEqual([400, 409, 200]);
  expect((await send('reopenPeriod')).statuses).toEqual([201, 422]);

  // No identity provider is set up; the token that is shown is nobody's; what was deleted by one of two paths is gone, and a stream has no end.
  const unsent = cluster.contract.operations.filter(({ id: each, tag }) => tag !== 'Operations' && !sent.has(each));
  expect(unsent.map(({ id: each }) => each).sort()).toEqual([
    'acceptInvitation',
    'deleteWebhooks',
    'exchangeOidcCode',
    'finishOidc',
    'linkOidc',
    'refresh',
    'resetPassword',
    'startOidc',
    'streamEvents',
    'verifyEmail',
  ]);
});
