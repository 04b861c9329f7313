// A message for every gRPC method of our services, made from its schema: fields have the values that their names stand for.
import type { DescField, DescMessage, DescMethod, DescService } from '@bufbuild/protobuf';
import { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { AuditService } from '../../proto/gen/ledger/v1/audit_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { Server } from '../../deploy/local/plan.ts';
import { newId } from '../../services/platform/ids.ts';
import type { Cluster } from '../cluster.ts';
import { newTenantRecords } from '../tenant-records.ts';

const services: Record<Server, DescService> = {
  identity: IdentityService,
  ledger: LedgerService,
  notifier: NotifierService,
  auditor: AuditService,
};

/** A message for a method. */
export interface MethodMessage {
  service: Server;
  method: DescMethod;
  init: Record<string, unknown>;
}

/** Values by the names of fields; of several the first in the first item of a list, and so on. */
type Values = Record<string, unknown[]>;

/** A method's path. */
export function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

/** Makes a tenant with a record of each kind, and a message for each method. */
export async function makeMessages(cluster: Cluster): Promise<MethodMessage[]> {
  const { tenant, key, ids } = await newTenantRecords(cluster);
  const values: Values = {
    ...{ tenantId: [tenant.id], userId: [tenant.owner.id], email: [tenant.owner.email], password: [tenant.owner.password], key: [key] },
    ...{
      transactionId: [ids.transaction_id],
      holdId: [ids.hold_id],
      limitId: [ids.limit_id],
      jobId: [ids.job_id],
      deliveryId: [ids.delivery_id],
      keyId: [ids.key_id],
      parentCode: ['ASSETS'],
    },
    accountCode: ['SETTLEMENT-NGN', 'CUSTOMER-WALLETS-NGN'],
    ...{ amount: ['10.00'], side: ['debit', 'credit'], currency: ['NGN'], kind: ['double'], type: ['asset'], normalBalance: ['debit'] },
    ...{ description: ['A deposit'], reference: ['R1'], metadata: ['{"a":1}'], actor: ['fuzzer'], requestId: ['req-1'] },
    ...{ idempotencyKey: ['fuzz-1', 'fuzz-2'], name: ['Fuzz'], slug: ['ledger-of-ada'], businessType: ['wallet'], status: ['active'] },
    ...{ firstName: ['Ada'], lastName: ['Obi'], scopes: [['accounts:read']], refreshToken: ['x'.repeat(43)], clientAddress: ['192.0.2.1'] },
    ...{ url: ['http://127.0.0.1:9/hook'], events: [['transaction.posted']], secret: ['x'.repeat(16)], eventType: ['test.webhook'] },
    ...{
      root: ['ASSETS'],
      depth: [3],
      onExisting: ['skip'],
      limit: [10],
      overlapSeconds: [60],
      startMs: [0n],
      endMs: [4_000_000_000_000n],
      expiresMs: [4_000_000_000_000n],
    },
    ...{ afterSequence: [0n], sequence: [1n, 2n], version: [1n], after: [0n], through: [2n], createdMs: [1_790_000_000_000n] },
    ...{ hash: [new Uint8Array(32)], previousHash: [new Uint8Array(32)], fingerprint: [new Uint8Array(33)], balanceAfter: ['10.00'] },
    ...{ report: ['trial-balance'], parameters: ['{}'], what: ['entries'], format: ['ndjson'], interval: ['day'] },
    ...{ from: ['2026-01-01'], to: ['2026-01-31'] },
    ...{ enabled: [true], includeBalances: [true], allowNegative: [true], changeEvents: [true], changeHeaders: [true], value: ['k'] },
  };
  const daily = { account_code: 'SETTLEMENT-NGN', currency: 'NGN', side: 'credit', max_count: 9, window: { rolling_seconds: 60 } };
  const definition: Values = { kind: ['limit'], id: [ids.limit_id], record: [JSON.stringify(daily)] };
  // Where the names alone would break what the other methods need.
  const other = await cluster.tenant();
  const own: Record<string, Values> = {
    setUpChart: { tenantId: [other.id] },
    createAccount: { accountCode: ['FUZZ-1'] },
    createAccounts: { accountCode: ['FUZZ-2', 'FUZZ-3'] },
    putDefinition: { ...definition, id: [newId('limit')] },
    deleteDefinition: { ...definition, id: [newId('limit')] },
    getDefinition: definition,
    listDefinitions: definition,
    startJob: { kind: ['trial-balance'] },
    deleteJob: { jobId: [newId('job')] },
    deleteWebhook: { tenantId: [other.id] },
    revokeApiKey: { keyId: [newId('key')] },
    // Of a tenant without real events.
    ingest: { tenantId: [newId('tenant')], id: [newId('evt'), newId('evt')], type: ['transaction.posted', 'balance.updated'] },
    pass: { tenantId: [newId('tenant')] },
  };
  return Object.entries(services).flatMap(([service, { methods }]) =>
    methods.map((method) => ({
      ...{ service: service as Server, method },
      init: initOf(method.input, { ...values, ...own[method.localName] }, 0),
    })),
  );
}

function initOf(schema: DescMessage, values: Values, place: number): Record<string, unknown> {
  const fields = schema.members.flatMap((member): [string, unknown][] => {
    if (member.kind === 'field') return [[member.localName, valueOf(member, values, place)]];
    const chosen = member.fields[place % member.fields.length]!;
    return [[member.localName, { case: chosen.localName, value: valueOf(chosen, values, place) }]];
  });
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}

/** Fields with which most messages would be refused; a mutation may set them. */
const unset = ['exchange', 'require'];

/** Undefined: the field stays unset. */
function valueOf(field: DescField, values: Values, place: number): unknown {
  if (unset.includes(field.localName)) return undefined;
  if (field.fieldKind === 'message') return initOf(field.message, values, place);
  if (field.fieldKind === 'list' && field.listKind === 'message') {
    // Of commands one of each kind.
    const kinds = Math.max(2, ...field.message.oneofs.map(({ fields }) => fields.length));
    return Array.from({ length: kinds }, (_, each) => initOf(field.message, values, each));
  }
  const known = values[field.localName];
  return known?.[Math.min(place, known.length - 1)];
}
