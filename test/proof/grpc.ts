// Every gRPC method of every service, called with mutated messages: none may answer INTERNAL or UNKNOWN, none may go away, and afterwards
// the house works and its books are right.
import { create, fromBinary, type DescMethod, type DescService, type Message } from '@bufbuild/protobuf';
import { Client, Metadata, credentials, status, type ServiceError } from '@grpc/grpc-js';
import { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { LedgerService, type PostTransactionsResponse } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { Service } from '../../deploy/local/plan.ts';
import { newId } from '../../services/platform/ids.ts';
import { startHouse, type House } from '../house.ts';
import { faultsOf } from './books.ts';
import type { Task } from './main.ts';
import { mutateBytes, mutateFields, newDice, type Dice } from './mutation.ts';

const services: Record<Service, DescService> = { identity: IdentityService, ledger: LedgerService, notifier: NotifierService };

// In flight at once.
const callers = 8;
const deadlineMs = 20_000;

// What no message may bring about.
const forbidden = new Set([status.UNKNOWN, status.INTERNAL, status.UNAVAILABLE, status.DATA_LOSS, status.UNIMPLEMENTED]);

/** What a run of the fuzzer found. */
export interface Fuzzed {
  calls: number;
  methods: number;
  /** How many calls ended with which code. */
  codes: Record<string, number>;
  /** One line each. */
  faults: string[];
}

/** Starts a house and sends it mutated messages for so many seconds; each method is called at least once. */
export async function fuzzGrpc({ seed, seconds }: { seed: number; seconds: number }): Promise<Fuzzed> {
  const quota = { WEBHOOK_CONFIG_PER_MINUTE: '10000', WEBHOOK_RETRIES_PER_HOUR: '10000', WEBHOOK_TESTS_PER_HOUR: '10000' };
  const house = await startHouse({ environment: { notifier: { ...quota, WEBHOOK_TIMEOUT: '2', WEBHOOK_RETRY_DELAYS: '1,1' } } });
  const clients = Object.fromEntries(
    Object.entries(house.addresses).map(([name, [address = '']]) => [name, new Client(address, credentials.createInsecure())]),
  ) as Record<Service, Client>;
  try {
    const seeds = await furnish(house);
    const known = [...new Set(seeds.flatMap(({ init }) => textsOf(init)))];
    const found: Fuzzed = { calls: 0, methods: seeds.length, codes: {}, faults: missing(seeds) };
    const until = performance.now() + seconds * 1000;
    const work = async () => {
      while (performance.now() < until || found.calls < seeds.length) {
        const place = found.calls++;
        const dice = newDice(seed ^ Math.imul(place, 0x9e3779b1));
        await send(house, clients, mutated(dice, seeds[place % seeds.length] as Seed, known), place, found);
        if (found.faults.length >= 20) return;
      }
    };
    await Promise.all(Array.from({ length: callers }, work));
    found.faults.push(...(await afterwards(house)), ...(await faultsOf(house)), ...errorsLogged(house));
    return found;
  } finally {
    Object.values(clients).forEach((client) => client.close());
    await house.stop();
  }
}

/** Causes that no caller is told. Dead letters and gaps are logged as errors too, and are what mutated events should come to. */
function errorsLogged(house: House): string[] {
  return Object.keys(services).flatMap((name) =>
    house
      .logs(name)
      .split('\n')
      .filter((line) => line.includes('"msg":"call failed"'))
      .slice(0, 10)
      .map((line) => `${name}: ${line.slice(0, 2_000)}`),
  );
}

/** As long as it is told to. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const { calls, methods, codes, faults } = await fuzzGrpc({ seed, seconds: minutes * 60 });
  say(
    `${calls} calls of ${methods} methods: ${Object.entries(codes)
      .map(([code, count]) => `${code} ${count}`)
      .join(', ')}`,
  );
  for (const fault of faults) say(fault);
  return faults.length === 0;
}

/** A message that a method takes. */
interface Seed {
  service: Service;
  method: DescMethod;
  init: Record<string, unknown>;
}

interface Case {
  seed: Seed;
  bytes: Uint8Array;
  /** Without the internal token. */
  stranger: boolean;
}

function mutated(dice: Dice, seed: Seed, known: string[]): Case {
  const { input } = seed.method;
  const message: Message = create(input, seed.init as never);
  if (dice() < 0.8) mutateFields(dice, input, message, known);
  const bytes = dice() < 0.4 ? mutateBytes(dice, input, message) : mutateBytes(() => 0, input, message);
  return { seed, bytes, stranger: dice() < 0.03 };
}

function send(
  house: House,
  clients: Record<Service, Client>,
  { seed, bytes, stranger }: Case,
  place: number,
  found: Fuzzed,
): Promise<void> {
  const { service, method } = seed;
  const metadata = new Metadata();
  if (!stranger) metadata.set('authorization', `Bearer ${house.internalToken}`);
  const fault = (what: string) =>
    found.faults.push(
      `call ${place}, ${method.parent.typeName}/${method.name}: ${what}; sent ${Buffer.from(bytes).toString('hex').slice(0, 4_000)}`,
    );
  return new Promise((resolve) => {
    const done = (error: ServiceError | null, answer?: Buffer) => {
      const code = error ? error.code : status.OK;
      found.codes[status[code]] = (found.codes[status[code]] ?? 0) + 1;
      // Who waits a millisecond is told so.
      const impatient = error?.details === 'the posting waited too long and was not begun';
      if (
        (forbidden.has(code) && !impatient) ||
        (code === status.DEADLINE_EXCEEDED && error?.details.startsWith('Deadline exceeded after') === true)
      ) {
        fault(`${status[code]} ${error?.details ?? ''}`);
      }
      if (stranger && code === status.OK) fault('answered without the internal token');
      if (answer) {
        try {
          for (const reason of internals(fromBinary(method.output, answer))) fault(reason);
        } catch (cause) {
          fault(`an answer that can't be read: ${(cause as Error).message}`);
        }
      }
      resolve();
    };
    const path = `/${method.parent.typeName}/${method.name}`;
    const asIs = (data: Uint8Array) => Buffer.from(data);
    clients[service].makeUnaryRequest(path, asIs, (data: Buffer) => data, bytes, metadata, { deadline: Date.now() + deadlineMs }, done);
  });
}

// Items of a batch are refused one by one.
function internals(answer: Message): string[] {
  if (answer.$typeName !== 'ledger.v1.PostTransactionsResponse') return [];
  return (answer as PostTransactionsResponse).results.flatMap(({ outcome }) =>
    outcome.case === 'refusal' && outcome.value.reason === 'internal' ? ['an item is refused as internal'] : [],
  );
}

function missing(seeds: Seed[]): string[] {
  const all = Object.values(services).flatMap((service) => service.methods);
  return all.filter((each) => !seeds.some(({ method }) => method === each)).map((each) => `${each.toString()} has no message to mutate`);
}

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

/** A message for each method, right as it stands. */
async function furnish(house: House): Promise<Seed[]> {
  const tenant = await house.tenant();
  const other = await house.tenant();
  const key = await house.apiKey(tenant);
  const path = `/v1/tenants/${tenant.slug}`;
  const made = async (where: string, body: unknown) => {
    const answer = await house.rest('POST', where, { key, body });
    if (answer.status >= 300 && answer.status !== 502) throw new Error(`${where}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  await made(`${path}/accounts/setup`, { business_type: 'wallet' });
  const entries = ['debit', 'credit'].map((side) => ({
    accountCode: side === 'debit' ? 'SETTLEMENT-NGN' : 'CUSTOMER-WALLETS-NGN',
    amount: '10.00',
    side,
    currency: 'NGN',
  }));
  const single = { account_code: 'SETTLEMENT-NGN', amount: '1000000.00', side: 'debit', currency: 'NGN' };
  const transactionId = (await made(`${path}/transactions`, single)).data.transaction.transaction_id as string;
  await made(`${path}/webhooks`, { url: 'http://127.0.0.1:9/hook', events: ['transaction.posted'] });
  const deliveryId = (await made(`${path}/webhooks/test`, {})).delivery_id as string;
  const { id: tenantId, owner } = tenant;
  const keyId = (await house.rest('GET', `/v1/tenants/${tenantId}/api-keys`, { key: owner.token })).body.data.api_keys[0].id as string;
  const posting = {
    tenantId,
    idempotencyKey: 'fuzz-1',
    description: 'A deposit',
    reference: 'R1',
    entries,
    metadata: '{"a":1}',
    actor: 'fuzzer',
    requestId: 'req-1',
  };
  const account = { tenantId, accountCode: 'FUZZ-1', name: 'Fuzz', actor: 'fuzzer', requestId: 'req-1', metadata: '{}' };
  const owned = { userId: owner.id, tenantId };
  const page = { limit: 50, cursor: '' };
  // Events of a tenant whose real ones nobody waits for.
  const event = {
    tenantId: newId('tenant'),
    id: newId('evt'),
    sequence: 1n,
    createdMs: 1_790_000_000_000n,
    actor: 'fuzzer',
    requestId: 'r',
  };
  const hash = { hash: new Uint8Array(32), previousHash: new Uint8Array(32) };
  const record = { id: newId('acc'), accountCode: 'A', name: 'A', type: 'asset', normalBalance: 'debit', status: 'active', metadata: '{}' };
  const line = { accountId: record.id, accountCode: 'A', amount: '1.00', side: 'debit', currency: 'NGN', balanceAfter: '1.00' };
  const changed = {
    accountId: record.id,
    accountCode: 'A',
    currency: 'NGN',
    previousBalance: '0.00',
    balance: '1.00',
    debits: '1.00',
    credits: '0.00',
  };
  const posted = {
    transactionId,
    kind: 'double',
    idempotencyKey: 'k',
    fingerprint: hash.hash,
    entries: [line],
    metadata: '{}',
    balances: [changed],
  };
  const events = [
    { ...event, ...hash, type: 'account.created', data: { case: 'accountCreated', value: { account: record } } },
    { ...event, ...hash, sequence: 2n, type: 'transaction.posted', data: { case: 'transactionPosted', value: posted } },
  ];
  const messages: Record<Service, Record<string, Record<string, unknown>>> = {
    identity: {
      register: { email: 'ada@example.com', password: 'correct horse', firstName: 'Ada', lastName: 'Obi' },
      login: { email: owner.email, password: owner.password, clientAddress: '192.0.2.1' },
      refresh: { refreshToken: 'x'.repeat(43) },
      logout: { refreshToken: 'x'.repeat(43) },
      getKeySet: {},
      getUser: { userId: owner.id },
      createTenant: { userId: owner.id, name: 'Books', slug: 'books-of-ada', businessType: 'wallet', description: 'x' },
      listTenants: { userId: owner.id, ...page },
      createApiKey: { ...owned, name: 'k', scopes: ['accounts:read'], description: 'x', expiresMs: 4_000_000_000_000n },
      listApiKeys: { ...owned, ...page },
      revokeApiKey: { ...owned, keyId: newId('key') },
      rotateApiKey: { ...owned, keyId, overlapSeconds: 3600 },
      verifyApiKey: { key },
      verifyTenantMember: owned,
    },
    ledger: {
      postTransaction: { posting },
      postTransactions: { postings: [posting, { ...posting, idempotencyKey: 'fuzz-2' }, { ...posting, tenantId: other.id }] },
      reverseTransaction: { tenantId, transactionId, idempotencyKey: 'undo', description: 'x', actor: 'fuzzer', requestId: 'r' },
      getTransaction: { tenantId, transactionId },
      listTransactions: { tenantId, accountCode: 'SETTLEMENT-NGN', currency: 'NGN', startMs: 0n, endMs: 4_000_000_000_000n, ...page },
      setUpChart: { tenantId: other.id, businessType: 'wallet', actor: 'fuzzer', requestId: 'r' },
      getHierarchy: { tenantId, includeBalances: true },
      createAccount: { ...account, type: 'asset', normalBalance: 'debit', currency: 'NGN', parentCode: 'ASSETS', allowNegative: true },
      updateAccount: { ...account, accountCode: 'OPERATING-CASH', description: 'x', allowNegative: true, status: 'active', version: 1n },
      getAccount: { tenantId, accountCode: 'SETTLEMENT-NGN' },
      listAccounts: { tenantId, type: 'asset', status: 'active', parentCode: 'ASSETS', ...page },
      getBalance: { tenantId, accountCode: 'SETTLEMENT-NGN', currency: 'NGN' },
      listBalanceHistory: { tenantId, accountCode: 'SETTLEMENT-NGN', currency: 'NGN', startMs: 0n, endMs: 4_000_000_000_000n, ...page },
      listEvents: { tenantId, afterSequence: 0n, limit: 10 },
    },
    notifier: {
      ingest: { events },
      configureWebhook: { tenantId, url: 'http://127.0.0.1:9/hook', events: ['transaction.posted'], secret: 'x'.repeat(16), enabled: true },
      getWebhook: { tenantId },
      updateWebhook: {
        tenantId,
        url: 'http://127.0.0.1:9/',
        events: ['balance.updated'],
        changeEvents: true,
        enabled: true,
        secret: 'y'.repeat(16),
      },
      deleteWebhook: { tenantId: other.id },
      rotateSecret: { tenantId, overlapSeconds: 60 },
      listDeliveries: {
        tenantId,
        eventType: 'test.webhook',
        status: 'failed',
        startMs: 0n,
        endMs: 4_000_000_000_000n,
        limit: 10,
        offset: 0,
      },
      getDelivery: { tenantId, deliveryId },
      retryDelivery: { tenantId, deliveryId },
      testWebhook: { tenantId, eventType: 'test.webhook' },
    },
  };
  return Object.entries(messages).flatMap(([name, inits]) =>
    Object.entries(inits).map(([method, init]) => {
      const found = services[name as Service].method[method];
      if (!found) throw new Error(`${name} has no method ${method}`);
      return { service: name as Service, method: found, init };
    }),
  );
}

/** Whether somebody new can still do everything that counts. */
async function afterwards(house: House): Promise<string[]> {
  const tenant = await house.tenant();
  const key = await house.apiKey(tenant);
  const path = `/v1/tenants/${tenant.slug}`;
  const body = { account_code: 'SETTLEMENT-NGN', amount: '1.00', side: 'debit', currency: 'NGN' };
  const answers = [
    await house.rest('POST', `${path}/accounts/setup`, { key, body: { business_type: 'wallet' } }),
    await house.rest('POST', `${path}/transactions`, { key, body }),
    await house.rest('POST', `${path}/webhooks`, { key, body: { url: 'http://127.0.0.1:9/', events: ['transaction.posted'] } }),
    await house.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key }),
  ];
  const wrong = answers
    .filter(({ status: answered }) => answered > 201)
    .map(({ status: answered, body: said }) => `${answered} ${JSON.stringify(said)}`);
  if (answers.at(-1)?.body.data?.balance?.balance !== '1.00') wrong.push('the balance is not what was posted');
  return wrong.map((each) => `afterwards: ${each}`);
}
