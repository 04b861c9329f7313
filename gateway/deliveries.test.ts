import { createHmac } from 'node:crypto';
import { newId } from '../services/platform/ids.ts';
import { readContract } from '../test/contract.ts';
import { deposit, id, newWallet, time } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';
import { until, type Answering } from '../test/notifier.ts';
import { allEvents, failing, limitOf, newReceiver, newSubscriber, startHookCluster } from '../test/subscriber.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;

beforeAll(async () => {
  cluster = await startHookCluster({ own: true });
});
afterAll(() => cluster.stop());

test('a posting is delivered signed, and the delivery can be listed and read', async () => {
  const receiver = await newReceiver((_, response) => response.end('thank you'));
  const { tenant, call, post, settled } = await newSubscriber(cluster);
  const none = await call('GET');
  expect(none.body).toEqual({
    success: true,
    data: { webhook_config: null, deliveries: [], pagination: { total: 0, limit: 50, offset: 0, has_more: false } },
  });

  const made = await call('POST', '', { url: receiver.url, events: ['transaction.posted', 'transaction.posted'] });
  expect(made.status).toBe(201);
  expect(made.headers.get('cache-control')).toBe('no-store');
  expect(limitOf(made)).toEqual(['"webhook-config";q=10;w=60', expect.stringMatching(/^"webhook-config";r=9;t=\d+$/)]);
  const { secret, ...config } = made.body.data.webhook_config;
  expect(config).toEqual({
    url: receiver.url,
    events: ['transaction.posted'],
    enabled: true,
    headers: [],
    created_at: time,
    updated_at: time,
  });
  expect(secret).toMatch(/^whsec_/);

  const transaction = await post();
  const [received] = await receiver.count(1);
  const signature = createHmac('sha256', secret).update(received!.body).digest('hex');
  expect(received!.headers).toMatchObject({ 'content-type': 'application/json', 'x-webhook-signature': `sha256=${signature}` });
  const event = JSON.parse(received!.body);
  expect(event).toMatchObject({ type: 'transaction.posted', tenant_id: tenant.id, livemode: true });
  expect(event.data).toMatchObject({ transaction_id: transaction.transaction_id, metadata: { n: 1 } });

  const [delivery] = await settled(1);
  expect(delivery).toEqual({
    id: id('wh_delivery'),
    event_id: event.id,
    event_type: 'transaction.posted',
    status: 'delivered',
    status_code: 200,
    error_class: null,
    attempts: 1,
    max_attempts: 3,
    next_retry_at: null,
    delivered_at: time,
    created_at: time,
  });
  expect(delivery.id).toBe(received!.headers['x-webhook-delivery']);
  const read = await call('GET', `/${delivery.id}`);
  expect(read.body.data.delivery).toEqual({
    ...delivery,
    payload: event,
    response_body: 'thank you',
    attempt_history: [{ number: 1, started_at: time, duration_ms: expect.any(Number), status_code: 200, error_class: null }],
  });
  expect(JSON.stringify(read.body)).toContain(received!.body.slice(1, -1));
  expect(JSON.stringify([(await call('GET')).body, read.body])).not.toContain(secret);
});

test('deliveries are found by their event, and by the transaction with its balances', async () => {
  const receiver = await newReceiver();
  const { call, post, settled } = await newSubscriber(cluster);
  await call('POST', '', { url: receiver.url, events: allEvents });
  const [one, other] = [await post(), await post()];
  await settled(6);
  const found = async (query: string) => {
    const { body } = await call('GET', `?${query}`);
    const { deliveries, pagination } = body.data;
    expect(deliveries.length).toBe(Math.min(pagination.total, pagination.limit));
    return deliveries as { id: string; event_id: string; event_type: string }[];
  };
  const payloads = async (deliveries: { id: string }[]) =>
    Promise.all(deliveries.map(async ({ id: of }) => (await call('GET', `/${of}`)).body.data.delivery.payload.data.transaction_id));
  const [first, second] = [await found(`transaction_id=${one.transaction_id}`), await found(`transaction_id=${other.transaction_id}`)];
  expect(await payloads([...first, ...second])).toEqual([...Array(3).fill(one.transaction_id), ...Array(3).fill(other.transaction_id)]);
  const posted = first.filter(({ event_type }) => event_type === 'transaction.posted');
  expect(await found(`event_id=${posted[0]!.event_id}`)).toEqual(posted);
  expect(await found(`transaction_id=${one.transaction_id}&event_id=${posted[0]!.event_id}`)).toEqual(posted);
  expect(await found(`transaction_id=${one.transaction_id}&event_type=balance.updated&limit=1`)).toHaveLength(1);
  for (const none of [
    `transaction_id=${other.transaction_id}&event_id=${posted[0]!.event_id}`,
    `transaction_id=${newId('txn')}`,
    `event_id=${newId('evt')}`,
    `transaction_id=${one.transaction_id}&status=failed`,
  ]) {
    expect([none, await found(none)]).toEqual([none, []]);
  }
  expect((await call('GET', '?event_id=evt_1')).body.details).toMatchObject({ field: 'event_id', tag: 'id' });
});

test('every event, and a test of it, comes with the headers and the body that the document shows, and no field beyond', async () => {
  const contract = await readContract(cluster.url);
  const { document } = contract;
  const receiver = await newReceiver();
  const { key, at, post } = await newWallet(cluster);
  await post('webhooks', { url: receiver.url, events: allEvents });
  await post('accounts', { account_code: 'PETTY-CASH', name: 'Petty cash', type: 'asset' });
  await cluster.rest('PATCH', at('accounts/code/PETTY-CASH'), { key, body: { name: 'Coins' } });
  await post('transactions/double-entry', deposit());
  for (const event_type of Object.keys(document.webhooks)) expect((await post('webhooks/test', { event_type })).status).toBe(200);
  const seen: string[] = [];
  const events = ['AccountCreatedEvent', 'AccountUpdatedEvent', 'BalanceUpdatedEvent', 'BalanceUpdatedEvent', 'TransactionPostedEvent'];
  for (const { headers, body } of await receiver.count(events.length + Object.keys(document.webhooks).length)) {
    const event = JSON.parse(body);
    const { parameters, requestBody } = document.webhooks[event.type].post;
    for (const { name, example } of parameters) {
      expect([name, headers[name.toLowerCase()]]).toEqual([name, name === 'X-Webhook-Event' ? example : expect.any(String)]);
    }
    const faultsOf = (of: unknown) => contract.fits(`/webhooks/${event.type}/post/requestBody/content/application~1json/schema`, of);
    expect(faultsOf(event)).toEqual([]);
    if (event.livemode === true) expect(faultsOf({ ...event, type: 'test.webhook' })).not.toEqual([]);
    const { schema } = requestBody.content['application/json'];
    const { $ref } = event.livemode === true ? schema.anyOf[0] : (schema.anyOf?.[1] ?? schema);
    const schemaOf = (ref: string) => document.components.schemas[ref.split('/').at(-1)!];
    const { properties } = schemaOf(schemaOf($ref).properties.data.$ref);
    expect([event.type, Object.keys(event.data).sort()]).toEqual([event.type, Object.keys(properties).sort()]);
    seen.push($ref.split('/').at(-1));
  }
  expect(seen.sort()).toEqual([...events, ...Object.keys(document.webhooks).map(() => 'TestEvent')].sort());
});

test('a delivery that fails three times is failed, is retried by hand five times an hour', async () => {
  let answer: Answering = failing;
  const receiver = await newReceiver((...given) => answer(...given));
  const { call, post, settled } = await newSubscriber(cluster);
  await call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
  await post();
  const [failed] = await settled(1);
  expect(failed).toMatchObject({ status: 'failed', status_code: 500, error_class: 'http_status', attempts: 3, failed_at: time });
  expect(failed).not.toHaveProperty('delivered_at');
  expect(failed.next_retry_at).toBeNull();

  const again = await call('POST', `/${failed.id}/retry`);
  expect(again.status).toBe(202);
  expect(again.body).toEqual({
    success: true,
    data: { message: expect.any(String), delivery_id: failed.id, attempts: 4, next_retry_at: time },
  });
  expect(limitOf(again)).toEqual(['"retries";q=5;w=3600', expect.stringMatching(/^"retries";r=4;t=\d+$/)]);
  await receiver.count(4);
  expect((await settled(1))[0]).toMatchObject({ status: 'failed', attempts: 4 });
  answer = (_, response) => response.end();
  expect((await call('POST', `/${failed.id}/retry`, {})).status).toBe(202);
  await receiver.count(5);
  const [arrived] = await settled(1);
  expect(arrived).toMatchObject({ status: 'delivered', attempts: 5, delivered_at: time });
  expect(arrived).not.toHaveProperty('failed_at');
  const { delivery } = (await call('GET', `/${failed.id}`)).body.data;
  expect(delivery.attempt_history.map((each: any) => each.status_code)).toEqual([500, 500, 500, 500, 200]);
  expect(delivery.response_body).toBe('');

  const done = await call('POST', `/${failed.id}/retry`);
  expect([done.status, done.body.code]).toEqual([409, 'delivery_not_failed']);
  const unknown = await call('POST', `/${newId('wh_delivery')}/retry`);
  expect([unknown.status, unknown.body.error]).toEqual([404, 'Webhook delivery not found']);
  // Malformed ones are not counted, whatever the caller's window.
  for (let many = 0; many < 3; many += 1) expect((await call('POST', '/wh_delivery_1/retry')).status).toBe(400);
  await call('POST', `/${newId('wh_delivery')}/retry`);
  const limited = await call('POST', `/${newId('wh_delivery')}/retry`);
  expect([limited.status, limited.body.code]).toEqual([429, 'rate_limited']);
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(limitOf(limited)).toEqual(['"retries";q=5;w=3600', expect.stringMatching(/^"retries";r=0;t=\d+$/)]);
  expect((await call('POST', '/wh_delivery_1/retry')).status).toBe(400);
});

test('after an outage the failed deliveries that match are retried by one request, the oldest first', async () => {
  let answer: Answering = failing;
  const receiver = await newReceiver((...given) => answer(...given));
  const { call, post, settled } = await newSubscriber(cluster);
  const nothing = await call('POST', '/retry');
  expect([nothing.status, nothing.body.code]).toEqual([409, 'webhook_disabled']);
  await call('POST', '', { url: receiver.url, events: allEvents });
  for (const description of ['one', 'two']) await post(description);
  // A posting and two balances each, and a test.
  await settled(6);
  await call('POST', '/test');
  const failed = await settled(7);
  expect(new Set(failed.map(({ status }) => status))).toEqual(new Set(['failed']));
  for (const [body, field, tag, value] of [
    [{ event_type: 'account.lost' }, 'event_type', 'oneof', 'account.lost'],
    [{ start_date: '2030-02-30' }, 'start_date', 'datetime', '2030-02-30'],
    [{ status: 'failed' }, 'status', 'unknown', 'failed'],
  ] as const) {
    const wrong = await call('POST', '/retry', body);
    expect([wrong.status, wrong.body.details]).toEqual([400, { field, tag, value }]);
  }
  answer = (_, response) => response.end();
  const before = receiver.received.length;
  const day = (offset: number) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
  const none = await call('POST', '/retry', { event_type: 'transaction.posted', start_date: day(2), end_date: null });
  expect([none.status, none.body]).toEqual([202, { success: true, data: { queued: 0, remaining: 0 } }]);
  const some = await call('POST', '/retry', { event_type: 'transaction.posted', start_date: day(-1), end_date: day(2) });
  expect(some.body.data).toEqual({ queued: 2, remaining: 0 });
  expect(limitOf(some)).toEqual(['"retries";q=5;w=3600', expect.stringMatching(/^"retries";r=2;t=\d+$/)]);
  await receiver.count(before + 2);
  expect((await call('POST', '/retry', {})).body.data).toEqual({ queued: 5, remaining: 0 });
  const done = await settled(7);
  expect(done.map(({ status, attempts }) => [status, attempts])).toEqual([['delivered', 2], ...Array(6).fill(['delivered', 4])]);
  expect(receiver.received).toHaveLength(before + 7);

  // It shares the window with the retry of one delivery.
  expect((await call('POST', `/${done[0].id}/retry`)).body.code).toBe('delivery_not_failed');
  const limited = await call('POST', '/retry');
  expect([limited.status, limited.body.code]).toEqual([429, 'rate_limited']);
});

test('the list is filtered, counted and paged', async () => {
  const receiver = await newReceiver((request, response) => {
    response.statusCode = request.body.includes('refuse me') ? 500 : 200;
    response.end();
  });
  const { call, post, settled } = await newSubscriber(cluster);
  await call('POST', '', { url: receiver.url, events: allEvents });
  for (const description of ['one', 'two', 'refuse me']) await post(description);
  // A posting and two balances each.
  const all = await settled(9);
  const list = async (query: string) => (await call('GET', query)).body.data;
  expect(all.map(({ created_at }) => created_at)).toEqual(
    all
      .map(({ created_at }) => created_at)
      .sort()
      .reverse(),
  );
  const pages = [];
  for (const offset of [0, 4, 8, 12]) {
    const { deliveries, pagination } = await list(`?limit=4&offset=${offset}`);
    expect(pagination).toEqual({ total: 9, limit: 4, offset, has_more: offset < 5 });
    pages.push(...deliveries);
  }
  expect(pages).toEqual(all);
  const failed = await list('?status=failed');
  expect(failed.deliveries).toHaveLength(1);
  expect(failed.pagination).toEqual({ total: 1, limit: 50, offset: 0, has_more: false });
  expect((await list('?event_type=transaction.posted')).pagination.total).toBe(3);
  expect((await list('?event_type=balance.updated&status=failed')).pagination.total).toBe(0);
  const day = (offset: number) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
  expect((await list(`?start_date=${day(-1)}&end_date=${day(2)}`)).pagination.total).toBe(9);
  expect((await list(`?end_date=${day(-1)}`)).pagination.total).toBe(0);
  expect((await list(`?start_date=${day(2)}`)).pagination.total).toBe(0);
  const today = all[0].created_at.slice(0, 10);
  const ofToday = all.filter(({ created_at }) => created_at >= today).length;
  expect((await list(`?start_date=${today}`)).pagination.total).toBe(ofToday);
  expect((await list(`?end_date=${today}`)).pagination.total).toBe(9 - ofToday);
  for (const [query, field, tag, value] of [
    ['limit=0', 'limit', 'min', 0],
    ['limit=101', 'limit', 'max', 101],
    ['limit=x', 'limit', 'type', 'x'],
    ['offset=-1', 'offset', 'min', -1],
    ['event_type=nothing', 'event_type', 'oneof', 'nothing'],
    ['status=lost', 'status', 'oneof', 'lost'],
    ['start_date=2030-02-30', 'start_date', 'datetime', '2030-02-30'],
    ['end_date=tomorrow', 'end_date', 'datetime', 'tomorrow'],
  ]) {
    const { status, body } = await call('GET', `?${String(query)}`);
    expect([query, status, body.error, body.details]).toEqual([query, 400, 'Request validation failed', { field, tag, value }]);
  }
});

test('disabled or deleted, nothing is retried', async () => {
  const receiver = await newReceiver(failing);
  const { call, post, settled } = await newSubscriber(cluster);
  await call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
  await post();
  const [failed] = await settled(1);
  await call('PATCH', '', { enabled: false });
  for (let turn = 0; turn < 2; turn += 1) {
    for (const path of [`/${failed.id}/retry`, '/retry']) {
      const { status, body } = await call('POST', path);
      expect([status, body.code]).toEqual([409, 'webhook_disabled']);
    }
    await call('DELETE');
  }
});

test('another tenant’s delivery is an unknown one', async () => {
  const receiver = await newReceiver(failing);
  const [one, other] = [await newSubscriber(cluster), await newSubscriber(cluster)];
  for (const { call } of [one, other]) await call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
  await one.post();
  const [delivery] = await one.settled(1);
  for (const [method, path] of [['GET', `/${delivery.id}`] as const, ['POST', `/${delivery.id}/retry`] as const]) {
    expect((await other.call(method, path)).body.error).toBe('Webhook delivery not found');
  }
  expect((await other.call('GET')).body.data.pagination.total).toBe(0);
});

test('without the notifier postings are answered, webhooks are not, and all arrives when it is back', async () => {
  const receiver = await newReceiver();
  const { call, post, settled } = await newSubscriber(cluster);
  await call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
  await cluster.kill('notifier');
  const ready = await until(async () => {
    const answer = await cluster.rest('GET', '/readyz');
    const { identity, ledger, notifier } = answer.body.dependencies;
    // A busy machine may take a moment longer to answer for the others.
    return identity === 'ok' && ledger === 'ok' && notifier !== 'ok' ? answer : null;
  });
  expect([ready.status, ready.body]).toEqual([
    200,
    { status: 'degraded', dependencies: { identity: 'ok', ledger: 'ok', auditor: 'ok', notifier: 'unavailable' } },
  ]);
  const { transaction_id } = await post();
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['POST', '', { url: receiver.url, events: allEvents }],
    ['POST', '/test', {}],
    ['POST', `/${newId('wh_delivery')}/retry`, undefined],
  ] as const) {
    const { status, body: said } = await call(method, path, body);
    expect([method, path, status, said.code]).toEqual([method, path, 503, 'unavailable']);
  }
  await cluster.restart('notifier');
  const [received] = await receiver.count(1);
  expect(JSON.parse(received!.body).data.transaction_id).toBe(transaction_id);
  expect(await settled(1)).toHaveLength(1);
});
