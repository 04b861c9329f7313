// The ledger as an internal caller in any language meets it: plain grpc-js and the .proto files; what this project generated only for other wires.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { type Client, credentials, loadPackageDefinition, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { createClient } from '@connectrpc/connect';
import { Http2SessionManager, createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { loadSync } from '@grpc/proto-loader';
import { root } from '../deploy/local/plan.ts';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { refusalOf as refusalIn } from '../services/platform/caller.ts';
import { newId } from '../services/platform/ids.ts';
import type { Cluster, Tenant } from './cluster.ts';
import { sharedCluster } from './shared-cluster.ts';

type Message = Record<string, any>;
type Call = (request: Message, metadata: Metadata, callback: (error: ServiceError | null, answer: Message) => void) => void;

const options = { keepCase: true, longs: String, defaults: true, oneofs: true, includeDirs: [join(root, 'proto')] };
const packages: Message = loadPackageDefinition(
  loadSync(['ledger/v1/ledger.proto', 'grpc/health/v1/health.proto', 'google/rpc/status.proto'], options),
);
const details: Message = loadPackageDefinition(loadSync('google/rpc/error_details.proto', options));

let cluster: Cluster;
let ledger: Client;
let health: Client;
let authorized: Metadata;
let tenants: Tenant[];

beforeAll(async () => {
  cluster = await sharedCluster();
  const address = cluster.addresses.ledger[0] as string;
  ledger = new packages['ledger'].v1.LedgerService(address, credentials.createInsecure(), {
    'grpc.max_receive_message_length': 8 << 20,
    'grpc.max_send_message_length': 8 << 20,
  });
  health = new packages['grpc'].health.v1.Health(address, credentials.createInsecure());
  authorized = new Metadata();
  authorized.set('authorization', `Bearer ${cluster.internalToken}`);
  tenants = [await cluster.tenant(), await cluster.tenant()];
  for (const { id } of tenants) await call('SetUpChart', { tenant_id: id, business_type: 'wallet', actor: 'test' });
});

afterAll(async () => {
  ledger.close();
  health.close();
  await cluster.stop();
});

function call(method: string, request: Message, metadata = authorized, client = ledger): Promise<Message> {
  return new Promise((resolve, reject) => {
    const rpc = (client as unknown as Record<string, Call>)[method] as Call;
    rpc.call(client, request, metadata, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

function deposit(more: Message = {}, amount = '10.00'): Message {
  const entries = [
    { account_code: 'SETTLEMENT-NGN', amount, side: 'debit', currency: 'NGN' },
    { account_code: 'CUSTOMER-WALLETS-NGN', amount, side: 'credit', currency: 'NGN' },
  ];
  return { tenant_id: tenants[0]?.id, entries, actor: 'card-service', ...more };
}

/** The refusal of a failed call, decoded by the published messages. */
async function refusalOf(
  failed: Promise<Message>,
): Promise<{ code: number; reason: string; fields: string[]; more: Record<string, string> }> {
  const error = await failed.then(
    () => Promise.reject(new Error('was not refused')),
    (cause: ServiceError) => cause,
  );
  const bytes = error.metadata.get('grpc-status-details-bin')[0] as Buffer;
  const { google } = packages;
  const answer = { code: error.code, reason: '', fields: [] as string[], more: {} };
  const types = { ...google.rpc, ...details['google'].rpc } as Message;
  for (const any of decode(types['Status'], bytes).details as { type_url: string; value: Buffer }[]) {
    const name = any.type_url.split('.').at(-1) as string;
    const detail = decode(types[name], any.value);
    if (name === 'ErrorInfo') {
      const { field: _field, tag: _tag, value: _value, ...more } = detail['metadata'];
      Object.assign(answer, { reason: detail['reason'], more });
    }
    if (name === 'BadRequest') answer.fields = (detail['field_violations'] as { field: string }[]).map(({ field }) => field);
  }
  return answer;
}

function decode(type: Message, bytes: Buffer): Message {
  return type['deserialize'] ? type['deserialize'](bytes) : (type as { decode: (b: Buffer) => Message }).decode(bytes);
}

test('a transaction posts once, and again with the same request it is a replay', async () => {
  const first = await call('PostTransaction', { posting: deposit({ idempotency_key: 'grpc-1', metadata: '{"a":1}' }) });
  const second = await call('PostTransaction', { posting: deposit({ idempotency_key: 'grpc-1', metadata: '{ "a": 1 }' }) });
  expect([first['replayed'], second['replayed']]).toEqual([false, true]);
  expect(second['transaction']).toEqual(first['transaction']);
  expect(first['transaction']).toMatchObject({ kind: 'double', status: 'posted', amount: '10.00', currency: 'NGN', metadata: '{"a":1}' });
  const events = await call('ListEvents', {
    tenant_id: tenants[0]?.id,
    after_sequence: Number(first['transaction'].sequence) - 1,
    limit: 1,
  });
  expect(events['events'][0]).toMatchObject({ type: 'transaction.posted', actor: 'card-service', data: 'transaction_posted' });
});

test('a batch of two tenants posts and refuses each item for itself, in order', async () => {
  const [first, second] = tenants.map(({ id }) => id);
  const postings = [
    deposit({ tenant_id: first, idempotency_key: 'batch-1' }),
    deposit({ tenant_id: second, idempotency_key: 'batch-1' }),
    deposit({ tenant_id: first, entries: [{ account_code: 'nobody', amount: '1.00', side: 'debit', currency: 'NGN' }] }),
    deposit({ tenant_id: second }, '1e5'),
    deposit({ tenant_id: first, idempotency_key: 'batch-1' }),
    deposit({ tenant_id: first, idempotency_key: 'batch-1' }, '11.00'),
    deposit({ tenant_id: 'tenant_nonsense' }),
    deposit({ tenant_id: second }),
  ];
  const { results } = await call('PostTransactions', { postings });
  const outcomes = (results as Message[]).map((result) =>
    result['outcome'] === 'transaction'
      ? result['replayed']
        ? 'replayed'
        : 'posted'
      : `${result['refusal'].reason} ${result['refusal'].field}`,
  );
  expect(outcomes).toEqual([
    'posted',
    'posted',
    'account_not_found account_code',
    'validation_failed entries[0].amount',
    'replayed',
    'idempotency_key_reused idempotency_key',
    'validation_failed tenant_id',
    'posted',
  ]);
  expect((results[0] as Message)['transaction'].sequence < (results[4] as Message)['transaction'].sequence).toBe(false);
});

test('a batch of a thousand posts, and one more item is refused as a whole', async () => {
  const postings = Array.from({ length: 1000 }, (_, place) => deposit({ tenant_id: tenants[place % 2]?.id }));
  const { results } = await call('PostTransactions', { postings });
  expect((results as Message[]).filter((result) => result['outcome'] === 'transaction')).toHaveLength(1000);
  const sequences = (results as Message[]).filter((_, place) => place % 2 === 0).map((result) => Number(result['transaction'].sequence));
  expect(sequences).toEqual([...sequences].sort((a, b) => a - b));
  expect(await refusalOf(call('PostTransactions', { postings: [...postings, deposit()] }))).toEqual({
    code: status.INVALID_ARGUMENT,
    reason: 'validation_failed',
    fields: ['postings'],
    more: {},
  });
});

test('a batch of eight megabytes is posted, and one whose answer could be larger is refused before anything is posted', async () => {
  const batch = (length: number) => {
    const entries = Array.from({ length }, (_, place) => ({
      account_code: place % 2 === 0 ? 'SETTLEMENT-NGN' : 'CUSTOMER-WALLETS-NGN',
      amount: '1.00',
      side: place % 2 === 0 ? 'debit' : 'credit',
      currency: 'NGN',
    }));
    return { postings: Array.from({ length: 1000 }, () => deposit({ entries, timeout_ms: 120_000 })) };
  };
  const { results } = await call('PostTransactions', batch(54));
  expect((results as Message[]).filter((result) => result['outcome'] !== 'transaction')).toEqual([]);
  const refused = { code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: ['postings'], more: {} };
  expect(await refusalOf(call('PostTransactions', batch(80)))).toEqual(refused);
}, 180_000);

test.each<[string, Message, number, string, string[]]>([
  [
    'an unknown account',
    { entries: [{ account_code: 'nobody', amount: '1', side: 'debit', currency: 'NGN' }] },
    status.FAILED_PRECONDITION,
    'account_not_found',
    ['account_code'],
  ],
  ['no entries', { entries: [] }, status.INVALID_ARGUMENT, 'validation_failed', ['entries']],
  [
    'a bad side',
    { entries: [{ account_code: 'SETTLEMENT-NGN', amount: '1', side: 'left', currency: 'NGN' }] },
    status.INVALID_ARGUMENT,
    'validation_failed',
    ['side'],
  ],
  ['metadata that is no object', { metadata: '[1]' }, status.INVALID_ARGUMENT, 'validation_failed', ['metadata']],
  ['a NUL in the description', { description: 'a\0b' }, status.INVALID_ARGUMENT, 'validation_failed', ['description']],
  ['a malformed transaction id', { transaction_id: 'txn_1' }, status.INVALID_ARGUMENT, 'validation_failed', ['transaction_id']],
])('%s is refused with reason and field', async (_, more, code, reason, fields) => {
  expect(await refusalOf(call('PostTransaction', { posting: deposit(more) }))).toEqual({ code, reason, fields, more: {} });
});

test('unbalanced entries and a reused key are refused with more in the metadata of ErrorInfo, singly and in a batch', async () => {
  const [debit, credit] = deposit().entries;
  const { transaction } = await call('PostTransaction', { posting: deposit({ idempotency_key: 'reused', reference: 'a' }) });
  for (const [posting, reason, details] of [
    [deposit({ entries: [debit, { ...credit, amount: '9.99' }] }), 'unbalanced', { debits: '10.00', credits: '9.99', difference: '0.01' }],
    [
      deposit({ idempotency_key: 'reused', description: 'b' }),
      'idempotency_key_reused',
      { transaction_id: transaction.transaction_id, fields: 'description,reference' },
    ],
  ] as const) {
    expect(await refusalOf(call('PostTransaction', { posting }))).toMatchObject({ reason, more: details });
    const { results } = await call('PostTransactions', { postings: [posting] });
    expect((results as Message[])[0]?.['refusal']).toMatchObject({ reason, details });
  }
});

test('a hold is made, captured in part and voided; a second capture is refused with its status', async () => {
  const tenant_id = tenants[1]?.id;
  const submit = async (...commands: Message[]): Promise<Message[]> =>
    (await call('Submit', { tenant_id, actor: 'card-service', commands }))['results'];
  const held = { idempotency_key: 'hold-1', entries: deposit().entries, expires_in: 3600 };
  const [made] = await submit({ hold: held });
  expect(made).toMatchObject({
    replayed: false,
    hold: { status: 'pending', captures: 0, entries: [{ remaining: '10.00' }, { remaining: '10.00' }] },
  });
  const { hold_id } = made!['hold'];
  expect((await submit({ hold: held }))[0]).toMatchObject({ replayed: true, hold: { hold_id } });
  const part = { hold_id, idempotency_key: 'hold-1', amount: '4.00', final: false };
  const [captured, late] = await submit({ capture: part }, { void: { hold_id, description: 'The rest is not needed' } });
  expect(captured).toMatchObject({
    transaction: { kind: 'capture', amount: '4.00', origin: { hold_id } },
    hold: {
      status: 'pending',
      captures: 1,
      entries: [
        { captured: '4.00', remaining: '6.00' },
        { captured: '4.00', remaining: '6.00' },
      ],
    },
  });
  expect(late).toMatchObject({ hold: { status: 'voided', entries: [{ remaining: '0.00' }, { remaining: '0.00' }] } });
  const [ended] = await submit({ capture: { hold_id } });
  expect(ended).toMatchObject({ refusal: { reason: 'hold_ended', field: 'hold_id', value: 'voided' } });
  expect((await call('GetHold', { tenant_id, hold_id }))['hold']).toEqual(late!['hold']);
  expect((await call('ListHolds', { tenant_id, status: 'voided' }))['holds']).toEqual([late!['hold']]);
  const other = call('GetHold', { tenant_id: tenants[0]?.id, hold_id });
  expect(await refusalOf(other)).toMatchObject({ code: status.NOT_FOUND, reason: 'hold_not_found' });
  const { events } = await call('ListEvents', { tenant_id, after_sequence: Number(made!['hold'].sequence) - 1 });
  expect((events as Message[]).map(({ type, data }) => [type, data])).toEqual([
    ['hold.created', 'hold_created'],
    ['transaction.posted', 'transaction_posted'],
    ['hold.voided', 'hold_ended'],
  ]);
});

test.each(['k1\n', '   ', 'k1 '])('the idempotency key %j is refused by each call', async (key) => {
  const printable = { reason: 'validation_failed', field: 'idempotency_key', tag: 'printable', value: key };
  const reversal = { tenant_id: tenants[0]?.id, transaction_id: newId('txn'), idempotency_key: key };
  const posting = deposit({ idempotency_key: key });
  for (const refused of [call('PostTransaction', { posting }), call('ReverseTransaction', reversal)])
    expect(await refusalOf(refused)).toMatchObject({ reason: 'validation_failed', fields: ['idempotency_key'] });
  const { results } = await call('PostTransactions', { postings: [posting] });
  expect((results as Message[])[0]?.['refusal']).toMatchObject(printable);
});

test('a call without a token is refused before its message is read', async () => {
  const path = '/ledger.v1.LedgerService/PostTransactions';
  const asIs = (data: Buffer) => data;
  const code = await new Promise((resolve) => {
    ledger.makeUnaryRequest(path, asIs, asIs, Buffer.from('no message'), new Metadata(), (error) => resolve(error?.code));
  });
  expect(code).toBe(status.UNAUTHENTICATED);
});

test.each([
  ['Connect, JSON', createConnectTransport, false],
  ['Connect, protobuf', createConnectTransport, true],
  ['gRPC-Web', createGrpcWebTransport, true],
  ['gRPC, JSON', createGrpcTransport, false],
])('a call without a token is refused over %s, too', async (_, createTransport, useBinaryFormat) => {
  const baseUrl = `http://${cluster.addresses.ledger[0]}`;
  const sessionManager = new Http2SessionManager(baseUrl);
  const caller = createClient(LedgerService, createTransport({ baseUrl, httpVersion: '2', useBinaryFormat, sessionManager }));
  const error: unknown = await caller.getBalance({}).catch((cause: unknown) => cause);
  sessionManager.abort();
  expect(refusalIn(error)).toMatchObject({ reason: 'unauthenticated', message: 'internal token missing or wrong' });
});

test('a call without the internal token is refused, a health check is not', async () => {
  const wrong = new Metadata();
  wrong.set('authorization', 'Bearer wrong');
  for (const metadata of [wrong, new Metadata()]) {
    expect((await refusalOf(call('PostTransaction', { posting: deposit() }, metadata))).code).toBe(status.UNAUTHENTICATED);
  }
  for (const metadata of [wrong, new Metadata()]) {
    expect((await call('Check', { service: 'ledger.v1.LedgerService' }, metadata, health))['status']).toBe(1);
    // Whether it was accepted is a question of its own.
    expect((await call('Check', { service: 'internal-token' }, metadata, health))['status']).toBe(2);
  }
  expect((await call('Check', { service: 'internal-token' }, undefined, health))['status']).toBe(1);
});

const grpcurl = spawnSync('grpcurl', ['--version']).error === undefined ? test : test.skip;

grpcurl('grpcurl finds the services by reflection', () => {
  const listed = spawnSync(
    'grpcurl',
    ['-plaintext', '-H', `authorization: Bearer ${cluster.internalToken}`, cluster.addresses.ledger[0] as string, 'list'],
    { encoding: 'utf8' },
  );
  expect(listed.stdout.split('\n')).toEqual(expect.arrayContaining(['ledger.v1.LedgerService', 'grpc.health.v1.Health']));
});
