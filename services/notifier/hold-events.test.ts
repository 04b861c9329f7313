// Events of holds and rules on their way to deliveries: sent each, as over Kafka, or derived, as over gRPC.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { ChangedBalanceSchema, type EventSchema, HoldRecordSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { newTenant, startNotifier, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { newId } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { withDerivedEvents } from '../platform/derived-events.ts';
import { eventTypes } from './webhook.ts';

let notifier: RunningNotifier;

beforeAll(async () => {
  notifier = await startNotifier({ claims: false });
});

afterAll(() => notifier.end());

async function subscribed(events: string[] = [...eventTypes]): Promise<TestTenant> {
  const tenant = newTenant();
  await notifier.client.configureWebhook({ tenantId: tenant.tenantId, url: 'http://127.0.0.1:1/', events });
  return tenant;
}

/** A hold that is made, captured in part and voided, and a rule: four rows of a log. */
function rowsOf(tenant: TestTenant): Event[] {
  const balances = ['CASH', 'SALES'].map((accountCode) =>
    create(ChangedBalanceSchema, { accountId: newId('acc'), accountCode, currency: 'NGN', balance: '1.00', previousBalance: '1.00' }),
  );
  const hold = create(HoldRecordSchema, { holdId: newId('hold'), status: 'pending', idempotencyKey: 'order-1', sequence: 1n });
  const row = (type: string, data: MessageInitShape<typeof EventSchema>['data']) =>
    tenant.posting({ type, data } as MessageInitShape<typeof EventSchema>);
  const created = row('hold.created', { case: 'holdCreated', value: { hold, balances } });
  const capture = tenant.posting();
  if (capture.data.case === 'transactionPosted') Object.assign(capture.data.value, { balances, hold: { ...hold, captures: 1 } });
  return [
    created,
    capture,
    row('hold.voided', { case: 'holdEnded', value: { hold: { ...hold, status: 'voided' }, balances } }),
    row('definition.changed', { case: 'definitionChanged', value: { kind: 'limit', id: newId('limit'), version: 1n } }),
  ];
}

async function made({ tenant }: TestTenant): Promise<{ type: string; body: Record<string, unknown> }[]> {
  return inTransaction(notifier.work, [tenant], async (client) => {
    const text = `select event_type as type, body::jsonb - 'tenant_id' as body from deliveries join payloads using (tenant_id, event_id) order by id`;
    return (await client.query<{ type: string; body: Record<string, unknown> }>(text)).rows;
  });
}

const gaps = async ({ tenant }: TestTenant) =>
  inTransaction(notifier.work, [tenant], async (client) => (await client.query('select after_sequence, after_part from gaps')).rows);

const types = [
  ...['hold.created', 'balance.updated', 'balance.updated'],
  ...['transaction.posted', 'balance.updated', 'balance.updated', 'hold.captured'],
  ...['hold.voided', 'balance.updated', 'balance.updated'],
  'definition.changed',
];

test('events derived from holds and captures are delivered as if they had been sent, each once, in the order of the log', async () => {
  const [sent, derived] = [await subscribed(), await subscribed()];
  const rows = rowsOf(sent);
  const parts = rows.flatMap(withDerivedEvents);
  for (const part of [parts.slice(0, 6), parts.slice(3), parts]) await notifier.client.ingest({ events: part });
  const others = rows.map((row) => ({ ...row, tenantId: derived.tenantId }));
  for (let time = 0; time < 2; time++) await notifier.client.ingest({ events: others, deriveUpdates: true });
  expect((await made(sent)).map(({ type }) => type)).toEqual(types);
  expect(await made(derived)).toEqual(await made(sent));
  expect([await gaps(sent), await gaps(derived)]).toEqual([[], []]);
});

test('a capture that was lost on the way is a gap when the next row comes, and is delivered when it comes late', async () => {
  const tenant = await subscribed();
  const parts = rowsOf(tenant).flatMap(withDerivedEvents);
  const captured = parts.find(({ type }) => type === 'hold.captured')!;
  await notifier.client.ingest({ events: parts.filter((each) => each !== captured) });
  expect(await gaps(tenant)).toEqual([{ after_sequence: 2n, after_part: 2 }]);
  for (let time = 0; time < 2; time++) await notifier.client.ingest({ events: [captured] });
  expect((await made(tenant)).map(({ type }) => type)).toEqual([...types.filter((each) => each !== 'hold.captured'), 'hold.captured']);
});

test('a webhook that does not name events of holds does not get them', async () => {
  const tenant = await subscribed(['transaction.posted', 'balance.updated']);
  await notifier.client.ingest({ events: rowsOf(tenant), deriveUpdates: true });
  expect((await made(tenant)).map(({ type }) => type)).toEqual(types.filter((each) => !/^(hold|definition)/.test(each)));
  expect(await gaps(tenant)).toEqual([]);
});
