// Names in the OpenAPI document, which become names in generated clients: schemas of bodies and answers, nouns and verbs of operations.

/** Operations by noun and verb, as the command line (`ledger accounts list`) and the client libraries (`ledger.accounts.list`) name them. */
export const verbs: Record<string, Record<string, string>> = {
  auth: {
    ...{ register: 'register', login: 'login', refresh: 'refresh', logout: 'logout' },
    ...{ 'send-verification': 'sendVerificationEmail', 'verify-email': 'verifyEmail', 'change-password': 'changePassword' },
    ...{ 'forgot-password': 'forgotPassword', 'reset-password': 'resetPassword' },
    ...{ 'start-totp': 'startTotp', 'confirm-totp': 'confirmTotp', 'delete-totp': 'deleteTotp' },
    ...{ 'start-oidc': 'startOidc', 'finish-oidc': 'finishOidc', 'exchange-oidc-code': 'exchangeOidcCode', 'link-oidc': 'linkOidc' },
  },
  user: { get: 'getUser', audit: 'listUserAudit' },
  tenants: {
    ...{ create: 'createTenant', list: 'listTenants', update: 'updateTenant', audit: 'listAudit' },
    ...{ suspend: 'suspendTenant', resume: 'resumeTenant', close: 'closeTenant', reopen: 'reopenTenant', import: 'importLog' },
  },
  members: { list: 'listMembers', update: 'updateMember', remove: 'removeMember' },
  invitations: { create: 'createInvitation', list: 'listInvitations', delete: 'deleteInvitation', accept: 'acceptInvitation' },
  keys: { create: 'createApiKey', list: 'listApiKeys', rotate: 'rotateApiKey', revoke: 'revokeApiKey', access: 'createAccess' },
  accounts: {
    ...{ 'set-up': 'setUpChart', tree: 'getHierarchy', create: 'createAccount', 'create-many': 'createAccounts' },
    ...{ list: 'listAccounts', get: 'getAccount', update: 'updateAccount' },
    ...{ balance: 'getBalance', 'daily-balances': 'listDailyBalances', history: 'listBalanceHistory' },
  },
  limits: {
    ...{ create: 'createLimit', list: 'listLimits', get: 'getLimit', update: 'updateLimit', delete: 'deleteLimit' },
    usage: 'getLimitUsage',
  },
  transactions: {
    ...{
      post: 'postDouble',
      'post-single': 'postSingle',
      exchange: 'postExchange',
      reverse: 'reverseTransaction',
      redact: 'redactTransaction',
    },
    ...{ batch: 'submitBatch', import: 'importTransactions', list: 'listTransactions', get: 'getTransaction' },
  },
  subjects: { erase: 'eraseSubject' },
  filters: { set: 'putFilter', list: 'listFilters', delete: 'deleteFilter' },
  holds: { create: 'createHold', list: 'listHolds', get: 'getHold', capture: 'captureHold', void: 'voidHold' },
  reports: {
    ...{ 'trial-balance': 'getTrialBalance', 'start-trial-balance': 'startTrialBalance' },
    ...{ 'balance-sheet': 'getBalanceSheet', 'start-balance-sheet': 'startBalanceSheet' },
    ...{ 'income-statement': 'getIncomeStatement', 'start-income-statement': 'startIncomeStatement' },
    ...{ 'cash-flow': 'getCashFlow', 'start-cash-flow': 'startCashFlow' },
    ...{ 'account-statement': 'getAccountStatement', 'start-account-statement': 'startAccountStatement' },
    ...{ 'general-ledger': 'getGeneralLedger', 'start-general-ledger': 'startGeneralLedger' },
    ...{ journal: 'getJournal', 'start-journal': 'startJournal', volume: 'getVolume' },
  },
  books: { get: 'getBooks', update: 'updateBooks' },
  periods: { close: 'closePeriod', reopen: 'reopenPeriod', list: 'listPeriods' },
  jobs: { list: 'listJobs', get: 'getJob', result: 'getJobResult', delete: 'deleteJob' },
  exports: {
    ...{ events: 'exportEvents', transactions: 'exportTransactions', entries: 'exportEntries' },
    ...{ accounts: 'exportAccounts', balances: 'exportBalances', everything: 'exportEverything' },
  },
  proofs: {
    ...{ transaction: 'getTransactionProof', event: 'getEventProof', checkpoint: 'getCheckpoint', consistency: 'getConsistency' },
    ...{ keys: 'listCheckpointKeys', tile: 'getTile', entries: 'getTileEntries' },
  },
  events: { list: 'listEvents', stream: 'streamEvents' },
  webhooks: {
    ...{ configure: 'configureWebhook', get: 'getWebhook', update: 'updateWebhook', delete: 'deleteWebhook' },
    ...{ 'rotate-secret': 'rotateWebhookSecret', test: 'testWebhook' },
  },
  deliveries: { list: 'listDeliveries', get: 'getDelivery', retry: 'retryDelivery', 'retry-all': 'retryDeliveries' },
  service: { health: 'getHealth', readiness: 'getReadiness', metrics: 'getMetrics', 'key-set': 'getKeySet', document: 'getOpenApi' },
};

const byOperation = new Map(
  Object.entries(verbs).flatMap(([noun, of]) => Object.entries(of).map(([verb, id]) => [id, { noun, verb }] as const)),
);

/** The noun and verb of an operation. */
export const cliNameOf = (operationId: string): { noun: string; verb: string } | undefined => byOperation.get(operationId);

/** `createAccount` as `CreateAccount`. */
export const pascalCase = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Objects within others by their fields, `?` after those that may be missing. */
const namesByFields: Record<string, string> = {
  'account_code amount side currency require?': 'EntryInput',
  'version? balance? available?': 'EntryCondition',
  'account_code currency version? balance? available?': 'AccountCondition',
  'gte? lte? eq?': 'AmountBounds',
  'subject data': 'PersonalInput',
  'account_code currency amount?': 'ExchangeLeg',
  'account_code currency amount': 'ExchangeFee',
  'account_code reference_rate': 'ExchangeSpread',
  'base quote value': 'ExchangeRateInput',
  'currency min_available max_balance': 'AccountLimit',
  'currency min_available? max_balance?': 'AccountLimitInput',
  'rolling_seconds? calendar? time_zone?': 'LimitWindowInput',
  'name value': 'WebhookHeaderInput',
  'account_code name type normal_balance? currency? parent_code? is_group? description? allow_negative? limits? blocked? metadata?':
    'CreateAccountRequest',
  'number started_at duration_ms status_code error_class': 'DeliveryAttempt',
  'reason broken': 'Override',
  'transaction? hold?': 'BatchItemData',
  'key status': 'IndexStatus',
  'at reason sequence': 'Freeze',
  'sequence at': 'Verified',
  'done total': 'JobProgress',
  'code message line?': 'JobError',
  'content_type bytes sha256': 'JobOutput',
  'sequence hash at': 'AsRecorded',
  'account_code name type currency opening_balance closing_balance debits credits lines': 'AccountStatement',
  'transaction_id sequence effective_at created_at kind description reference entries': 'JournalLine',
  'account_code name side amount currency': 'JournalEntry',
  'date count debits': 'VolumePoint',
  'limit has_more': 'EventPagination',
  'total limit offset has_more': 'OffsetPagination',
};

interface Fields {
  type?: unknown;
  properties?: Record<string, unknown>;
  required?: string[];
}

const fieldsOf = ({ properties = {}, required = [] }: Fields): string =>
  Object.keys(properties)
    .map((field) => (required.includes(field) ? field : `${field}?`))
    .join(' ');

/** The place of an example in the document: it may look like a schema. */
const isExample = (key: string): boolean => key === 'example' || key === 'examples';

/**
 * A schema in which every object with fields has become a reference to a named schema, which is added to `schemas`. Without names,
 * generators make a type of every use, some of them unusable. `name`: of the schema itself; otherwise one of {@link namesByFields}.
 */
export function withNames(schema: unknown, schemas: Record<string, object>, name?: string): unknown {
  if (Array.isArray(schema)) return schema.map((each) => withNames(each, schemas));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { description, example, ...own } = Object.fromEntries(
    Object.entries(schema).map(([key, each]: [string, unknown]) => [
      key,
      key === 'properties' ? namedFields(each, schemas) : isExample(key) ? each : withNames(each, schemas),
    ]),
  );
  const around = { ...(description !== undefined && { description }), ...(example !== undefined && { example }) };
  const fields = schema as Fields;
  const given = name ?? (fields.properties && namesByFields[fieldsOf(fields)]);
  if (!given) return { ...own, ...around };
  const types = [fields.type].flat();
  const named = fields.properties ? { ...own, type: 'object' } : own;
  const known = schemas[given];
  if (known && JSON.stringify(known) !== JSON.stringify(named)) throw new Error(`two different schemas are named ${given}`);
  schemas[given] = named;
  const reference = { $ref: `#/components/schemas/${given}` };
  return { ...(types.includes('null') ? { anyOf: [reference, { type: 'null' }] } : reference), ...around };
}

// A field may be called `type`, `properties` or `example`.
function namedFields(fields: unknown, schemas: Record<string, object>): object {
  return Object.fromEntries(Object.entries(fields as object).map(([name, each]) => [name, withNames(each, schemas)]));
}
