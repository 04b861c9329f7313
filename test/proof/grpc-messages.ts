// A valid message for every gRPC method of our services, in a cluster that has what they name.
import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { Service } from '../../deploy/local/plan.ts';
import { newId } from '../../services/platform/ids.ts';
import type { Cluster } from '../cluster.ts';

const services: Record<Service, DescService> = { identity: IdentityService, ledger: LedgerService, notifier: NotifierService };

/** A message that a method accepts. */
export interface ValidMessage {
  service: Service;
  method: DescMethod;
  init: Record<string, unknown>;
}

/** A method's path. */
export function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

/** Makes users, accounts and a webhook, and a message for each method. Throws where a method has none. */
export async function makeMessages(cluster: Cluster): Promise<ValidMessage[]> {
  const tenant = await cluster.tenant();
  const other = await cluster.tenant();
  const key = await cluster.apiKey(tenant);
  const path = `/v1/tenants/${tenant.slug}`;
  const made = async (where: string, body: unknown) => {
    const answer = await cluster.rest('POST', where, { key, body });
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
  const keyId = (await cluster.rest('GET', `/v1/tenants/${tenantId}/api-keys`, { key: owner.token })).body.data.api_keys[0].id as string;
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
  const headers = [{ name: 'X-Api-Key', value: 'k' }];
  // Of a tenant without real events.
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
      createTenant: { userId: owner.id, name: 'Ada', slug: 'ledger-of-ada', businessType: 'wallet', description: 'x' },
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
      pass: { stretches: [{ tenantId: newId('tenant'), after: 0n, through: 2n, createdMs: 1_700_000_000_000n }] },
      configureWebhook: {
        tenantId,
        url: 'http://127.0.0.1:9/hook',
        events: ['transaction.posted'],
        secret: 'x'.repeat(16),
        enabled: true,
        headers,
      },
      checkUrl: { url: 'http://127.0.0.1:9/hook' },
      getWebhook: { tenantId },
      updateWebhook: {
        tenantId,
        url: 'http://127.0.0.1:9/',
        events: ['balance.updated'],
        changeEvents: true,
        enabled: true,
        secret: 'y'.repeat(16),
        headers,
        changeHeaders: true,
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
      retryDeliveries: { tenantId, eventType: 'test.webhook', startMs: 0n, endMs: 4_000_000_000_000n },
      testWebhook: { tenantId, eventType: 'test.webhook' },
    },
  };
  return Object.entries(services).flatMap(([name, { method, methods }]) => {
    const inits = messages[name as Service];
    const missing = methods.find(({ localName }) => !inits[localName]);
    if (missing) throw new Error(`${missing.toString()} has no message here`);
    return Object.entries(inits).map(([each, init]) => ({ service: name as Service, method: method[each]!, init }));
  });
}
