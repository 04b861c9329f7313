// Redaction through REST: the scope, the record, and stored deliveries of a webhook that is off by then.
import { sha256 } from '../services/platform/digest.ts';
import { deposit, newWallet, type Customer } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';
import { until } from '../test/polling.ts';
import { failing, newReceiver, startHookCluster } from '../test/subscriber.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
beforeAll(async () => {
  cluster = await startHookCluster();
});
afterAll(() => cluster.stop());

const texts = { description: 'Refund to Adaeze', reference: 'INV-Okafor', metadata: { email: 'ada@okafor.example', order: 7 } };

interface Delivery {
  id: string;
  event_type: string;
  status: string;
}

/** Deliveries of a transaction. */
const deliveriesOf = async (customer: Customer, transaction: string): Promise<Delivery[]> =>
  (await customer.get(`webhooks?transaction_id=${transaction}`)).deliveries as Delivery[];

test('a key with the scope redacts; the record, the event, exports and deliveries have the texts no longer', async () => {
  const customer = await newWallet(cluster);
  const receiver = await newReceiver((request, response) =>
    request.body.includes('INV-Pending') ? failing(request, response, 0) : response.end(request.body),
  );
  await customer.post('webhooks', { url: receiver.url, events: ['transaction.posted', 'balance.updated'] });
  const post = async (more: object) =>
    (await customer.post('transactions/double-entry', { ...deposit('5.00'), ...more })).body.data.transaction;
  const [delivered, pending] = [await post(texts), await post({ ...texts, reference: 'INV-Pending' })];
  for (const [{ transaction_id: of }, status] of [
    [delivered, 'delivered'],
    [pending, 'failed'],
  ]) {
    await until(
      () => deliveriesOf(customer, of),
      (all) => all.length === 3 && all.some((each) => each.event_type === 'transaction.posted' && each.status === status),
    );
  }
  const [stored] = (await deliveriesOf(customer, delivered.transaction_id)).filter(({ event_type: type }) => type === 'transaction.posted');
  expect(JSON.stringify(await customer.get(`webhooks/${stored!.id}`))).toContain('Adaeze');
  // From now on events are passed over, but for those that deliveries must be dropped for.
  await cluster.rest('PATCH', customer.at('webhooks/config'), { key: customer.key, body: { enabled: false } });

  const path = `transactions/${delivered.transaction_id}/redact`;
  const body = { fields: ['description', 'reference', 'metadata.email'], reason: 'A name slipped in' };
  const weak = await cluster.apiKey(customer.tenant, ['transactions:read', 'transactions:write']);
  expect(await cluster.rest('POST', customer.at(path), { key: weak, body })).toMatchObject({ status: 403, body: { code: 'forbidden' } });
  const answer = await customer.post(path, body);
  const transaction = { ...delivered, description: '', reference: null, metadata: { order: 7 }, redacted: body.fields };
  expect([answer.status, answer.body.data]).toEqual([200, { transaction }]);
  expect(await customer.get(`transactions/${delivered.transaction_id}`)).toEqual({ transaction });
  const { events } = await customer.get('events?limit=100');
  const posted = events.find((event: any) => event.data.transaction_id === delivered.transaction_id);
  expect(posted).toMatchObject({ type: 'transaction.posted', data: { description: '', reference: null, redacted: body.fields } });
  expect(events.at(-1)).toMatchObject({
    type: 'transaction.redacted',
    data: { transaction_id: delivered.transaction_id, redacted_sequence: delivered.sequence, redacted_event_id: posted.id, ...body },
  });
  expect((await customer.post(path, body)).body.data).toEqual({ transaction });
  // The proof goes without the payload.
  const { proof } = await customer.get(`transactions/${delivered.transaction_id}/proof`);
  const parts = [Buffer.from(proof.previous_hash, 'hex'), sha256(proof.header), Buffer.from(proof.payload_hash, 'hex')];
  expect(proof).toMatchObject({
    sequence: delivered.sequence,
    payload: null,
    payload_hash: events.at(-1).data.payload_hash,
    hash: posted.hash,
  });
  expect(sha256(Buffer.concat(parts)).toString('hex')).toBe(posted.hash);

  await customer.post(`transactions/${pending.transaction_id}/redact`, { ...body, fields: ['reference'] });
  for (const { transaction_id: of } of [delivered, pending]) {
    const left = await until(
      () => deliveriesOf(customer, of),
      (all) => all.every((each) => each.event_type !== 'transaction.posted'),
    );
    expect(left).toHaveLength(2);
  }
  expect(await cluster.rest('GET', customer.at(`webhooks/${stored!.id}`), { key: customer.key })).toMatchObject({
    status: 404,
    body: { code: 'delivery_not_found' },
  });
  const exported = await fetch(new URL(customer.at('export/everything'), cluster.url), {
    headers: { authorization: `Bearer ${customer.key}` },
  });
  const lines = await exported.text();
  expect([lines.includes('"redacted":["description","reference","metadata.email"]'), /INV-(Okafor|Pending)/.test(lines)]).toEqual([
    true,
    false,
  ]);
});

test('what is wrong with a request is refused with its field', async () => {
  const customer = await newWallet(cluster);
  const { transaction_id: of } = (await customer.post('transactions/double-entry', { ...deposit('5.00'), reference: 'R' })).body.data
    .transaction;
  const wrong: [body: object, field: string, tag: string, value: unknown][] = [
    [{ reason: 'r' }, 'fields', 'required', ''],
    [{ fields: [], reason: 'r' }, 'fields', 'min', []],
    [{ fields: ['amount'], reason: 'r' }, 'fields[0]', 'oneof', 'amount'],
    [{ fields: ['reference', 'metadata.phone'], reason: 'r' }, 'fields[1]', 'oneof', 'metadata.phone'],
    [{ fields: ['reference'] }, 'reason', 'required', ''],
    [{ fields: ['reference'], reason: 'x'.repeat(1001) }, 'reason', 'max', 'x'.repeat(1001)],
  ];
  for (const [body, ...expected] of wrong) {
    const { status, body: problem } = await customer.post(`transactions/${of}/redact`, body);
    const { field, tag, value } = problem.details;
    expect([status, problem.code, field, tag, value]).toEqual([400, 'validation_failed', ...expected]);
  }
  expect((await customer.get(`transactions/${of}`)).transaction).toMatchObject({ reference: 'R', redacted: [] });
});
