import { createHmac } from 'node:crypto';
import { newId } from '../services/platform/ids.ts';
import { checkedRest, readContract } from '../test/contract.ts';
import { startHouse, type Answer, type House, type RestOptions, type Tenant } from '../test/house.ts';
import { startReceiver, until, type Answering, type Receiver } from '../test/notifier.ts';

let house: House;
let rest: House['rest'];
const receivers: Receiver[] = [];

beforeAll(async () => {
  const limits = { WEBHOOK_CONFIG_PER_MINUTE: '10', WEBHOOK_RETRIES_PER_HOUR: '5', WEBHOOK_TESTS_PER_HOUR: '20' };
  house = await startHouse({ environment: { notifier: { ...limits, WEBHOOK_RETRY_DELAYS: '0,0' } } });
  // Every answer below is also held against the OpenAPI document.
  rest = checkedRest(house, await readContract(house.url));
});
afterAll(async () => {
  await house.stop();
  for (const receiver of receivers) await receiver.close();
});

const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const id = (prefix: string) => expect.stringMatching(new RegExp(`^${prefix}_[0-7][0-9a-z]{25}$`));
const allEvents = ['transaction.posted', 'balance.updated', 'account.created', 'account.updated'];

interface Customer {
  tenant: Tenant;
  call: (method: string, path?: string, body?: unknown, more?: RestOptions) => Promise<Answer>;
  post: (description?: string) => Promise<any>;
  /** Deliveries of a filter, when so many are there and none is pending. */
  settled: (count: number, query?: string) => Promise<any[]>;
}

/** A tenant with a chart and a key; what it does under `/webhooks`. */
async function newCustomer(): Promise<Customer> {
  const tenant = await house.tenant();
  const key = await house.apiKey(tenant);
  const base = `/v1/tenants/${tenant.slug}`;
  await rest('POST', `${base}/accounts/setup`, { key, body: { business_type: 'wallet' } });
  const call: Customer['call'] = (method, path = '', body, more) =>
    rest(method, `${base}/webhooks${path}`, { key, ...(body !== undefined && { body }), ...more });
  return {
    tenant,
    call,
    post: async (description = 'A sale') => {
      const body = { account_code: 'SETTLEMENT-USD', amount: '5.00', side: 'debit', currency: 'USD', description, metadata: { n: 1 } };
      return (await rest('POST', `${base}/transactions`, { key, body })).body.data.transaction;
    },
    settled: (count, query = '') =>
      until(async () => {
        const { body } = await call('GET', `?limit=100${query}`);
        const { deliveries } = body.data;
        return deliveries.length >= count && deliveries.every(({ status }: any) => status !== 'pending') ? deliveries : null;
      }),
  };
}

async function newReceiver(answer?: Answering): Promise<Receiver> {
  const receiver = await startReceiver(answer);
  receivers.push(receiver);
  return receiver;
}

const failing: Answering = (_, response) => {
  response.statusCode = 500;
  response.end('not today');
};

const limitOf = ({ headers }: Answer) => [headers.get('ratelimit-policy'), headers.get('ratelimit')];

describe('from the configuration to the delivery', () => {
  test('what is posted arrives signed, is listed and read', async () => {
    const receiver = await newReceiver((_, response) => response.end('thank you'));
    const { tenant, call, post, settled } = await newCustomer();
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
    expect(config).toEqual({ url: receiver.url, events: ['transaction.posted'], enabled: true, created_at: time, updated_at: time });
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

  test('a delivery that fails three times is failed, is retried by hand five times an hour', async () => {
    let answer: Answering = failing;
    const receiver = await newReceiver((...given) => answer(...given));
    const { call, post, settled } = await newCustomer();
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

  test('a test is sent at once, disabled or not, and says why it failed', async () => {
    let answer: Answering = (_, response) => response.end('ok');
    const receiver = await newReceiver((...given) => answer(...given));
    const { tenant, call } = await newCustomer();
    const early = await call('POST', '/test');
    expect([early.status, early.body.error]).toEqual([404, 'webhook not configured']);
    await call('POST', '', { url: receiver.url, events: ['account.created'], enabled: false });

    const tested = await call('POST', '/test');
    expect(tested.status).toBe(200);
    expect(tested.body).toEqual({
      success: true,
      data: {
        delivery_id: id('wh_delivery'),
        status: 'delivered',
        status_code: 200,
        response_time_ms: expect.any(Number),
        test_payload: {
          id: id('evt'),
          type: 'test.webhook',
          created: expect.any(Number),
          data: { message: expect.any(String) },
          tenant_id: tenant.id,
          livemode: false,
        },
      },
    });
    expect(limitOf(tested)).toEqual(['"tests";q=20;w=3600', expect.stringMatching(/^"tests";r=18;t=\d+$/)]);
    const typed = await call('POST', '/test', { event_type: 'balance.updated' });
    expect(typed.body.data.test_payload.type).toBe('balance.updated');
    const wrong = await call('POST', '/test', { event_type: 'balance.lost' });
    expect([wrong.status, wrong.body.details]).toEqual([400, { field: 'event_type', tag: 'oneof', value: 'balance.lost' }]);

    answer = failing;
    const failed = await call('POST', '/test', { event_type: null });
    expect(failed.status).toBe(502);
    expect(failed.body).toEqual({
      success: false,
      error: 'Test webhook failed',
      code: 'test_failed',
      request_id: expect.any(String),
      delivery_id: id('wh_delivery'),
      status_code: 500,
      error_class: 'http_status',
    });
    expect(limitOf(failed)[1]).toMatch(/^"tests";r=16;t=\d+$/);
    answer = (_, response) => response.destroy();
    const dropped = await call('POST', '/test');
    expect(dropped.body).toMatchObject({ status_code: null, error_class: 'connection_failed' });
    const { delivery } = (await call('GET', `/${dropped.body.delivery_id}`)).body.data;
    expect(delivery).toMatchObject({ status: 'failed', status_code: null, response_body: null, attempts: 1, payload: { livemode: false } });

    for (let count = 5; count < 20; count += 1) await call('POST', '/test');
    const limited = await call('POST', '/test');
    expect([limited.status, limited.body.code]).toEqual([429, 'rate_limited']);
    expect((await call('POST', '/test', { event_type: 1 })).status).toBe(400);
  });

  test('the list is filtered, counted and paged', async () => {
    const receiver = await newReceiver((request, response) => {
      response.statusCode = request.body.includes('refuse me') ? 500 : 200;
      response.end();
    });
    const { call, post, settled } = await newCustomer();
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
});

describe('the configuration', () => {
  const url = 'http://127.0.0.1:9/hook';

  test('is replaced, changed, read and deleted; its secret is shown once', async () => {
    const { call } = await newCustomer();
    for (const path of ['', '/config']) {
      for (const [method, body] of [['PATCH', { enabled: false }] as const, ['DELETE', undefined] as const]) {
        const { status, body: said } = await call(method, path, body);
        expect([method, path, status, said.error, said.code]).toEqual([
          method,
          path,
          404,
          'webhook not configured',
          'webhook_not_configured',
        ]);
      }
    }
    for (const [method, path] of [['GET', '/config'] as const, ['POST', '/secret/rotate'] as const]) {
      expect((await call(method, path)).body).toMatchObject({ error: 'webhook not configured', code: 'webhook_not_configured' });
    }
    const own = 'a secret of sixteen and more ✓';
    const made = await call('POST', '', { url, events: allEvents, secret: own });
    expect([made.status, made.body.data.webhook_config.secret]).toEqual([201, own]);
    const replaced = await call('POST', '', { url: `${url}/2`, events: ['account.updated'], enabled: false, secret: null });
    expect(replaced.status).toBe(200);
    const { created_at } = made.body.data.webhook_config;
    const config = { url: `${url}/2`, events: ['account.updated'], enabled: false, created_at, updated_at: time };
    expect(replaced.body.data.webhook_config).toEqual({ ...config, secret: null });
    expect((await call('GET', '/config')).body).toEqual({ success: true, data: { webhook_config: config } });
    expect((await call('GET')).body.data.webhook_config).toEqual(config);

    for (const path of ['', '/config']) {
      const untouched = await call('PATCH', path, {});
      expect([untouched.status, untouched.body.data.webhook_config]).toEqual([200, { ...config, secret: null }]);
      expect((await call('PATCH', path, { enabled: true })).body.data.webhook_config).toEqual({ ...config, enabled: true, secret: null });
      const events = (await call('PATCH', path, { events: ['test.webhook', 'test.webhook'] })).body.data.webhook_config.events;
      expect(events).toEqual(['test.webhook']);
      const moved = await call('PATCH', path, { url, secret: 'another one of sixteen', enabled: false, events: ['account.updated'] });
      expect(moved.body.data.webhook_config).toEqual({ ...config, url, secret: 'another one of sixteen' });
      expect(moved.headers.get('cache-control')).toBe('no-store');
      expect((await call('PATCH', path, { url: `${url}/2` })).body.data.webhook_config).toEqual({ ...config, secret: null });
    }
    const rotated = await call('POST', '/secret/rotate', { overlap_seconds: 60 });
    expect(rotated.status).toBe(200);
    expect(rotated.body.data.webhook_config).toEqual({ ...config, secret: expect.stringMatching(/^whsec_/) });
    expect(rotated.headers.get('cache-control')).toBe('no-store');
    expect((await call('POST', '/secret/rotate')).status).toBe(200);
    const wrong = await call('POST', '/secret/rotate', { overlap_seconds: 2_592_001 });
    expect(wrong.body.details).toEqual({ field: 'overlap_seconds', tag: 'max', value: 2_592_001 });

    for (const path of ['', '/config']) {
      const deleted = await call('DELETE', path);
      expect([deleted.status, deleted.body]).toEqual([200, { success: true, data: { deleted: true } }]);
      expect((await call('GET')).body.data.webhook_config).toBeNull();
      expect((await call('POST', '', { url, events: allEvents })).status).toBe(201);
    }
  });

  test('what is wrong is named, without its secret, and not counted', async () => {
    const { call } = await newCustomer();
    const secret = 'sixteen characters\u0007';
    const long = `http://${'x'.repeat(300)}@127.0.0.1/`;
    for (const [body, field, tag, value] of [
      [{}, 'url', 'required', ''],
      [{ url: '', events: ['account.created'] }, 'url', 'required', ''],
      [{ url: 5, events: ['account.created'] }, 'url', 'type', 5],
      [{ url: 'example.com/hook', events: [] }, 'url', 'url', 'example.com/hook'],
      [{ url: 'ftp://example.com', events: ['account.created'] }, 'url', 'https', 'ftp://example.com'],
      [{ url: long, events: ['account.created'] }, 'url', 'url', long],
      [{ url: `${url}/${'x'.repeat(2048)}`, events: ['account.created'] }, 'url', 'max', expect.any(String)],
      [{ url }, 'events', 'required', ''],
      [{ url, events: [] }, 'events', 'min', []],
      [{ url, events: 'account.created' }, 'events', 'type', 'account.created'],
      [{ url, events: ['account.created', 'account.lost'] }, 'events[1]', 'oneof', 'account.lost'],
      [{ url, events: ['account.created'], secret: 'fifteen letters' }, 'secret', 'min', ''],
      [{ url, events: ['account.created'], secret: 'x'.repeat(256) }, 'secret', 'max', ''],
      [{ url, events: ['account.created'], secret: 5 }, 'secret', 'type', ''],
      [{ url, events: ['account.created'], secret }, 'secret', 'unicode', ''],
      [{ url, events: ['account.created'], enabled: 'yes' }, 'enabled', 'type', 'yes'],
    ] as const) {
      const { status, body: said } = await call('POST', '', body);
      expect([body, status, said.error, said.details]).toEqual([body, 400, 'Request validation failed', { field, tag, value }]);
      expect(said.errors[0]).toEqual({ field, tag, value, message: expect.any(String) });
      expect(JSON.stringify(said)).not.toMatch(/fifteen|sixteen|xxxxxxxxxxxxxxxx"/);
    }
    const broken = await call('POST', '', '{');
    expect([broken.status, broken.body.error]).toEqual([400, 'invalid JSON payload']);
    expect((await call('PATCH', '', { events: [] })).body.details).toEqual({ field: 'events', tag: 'min', value: [] });

    for (let count = 0; count < 10; count += 1) {
      const { status, headers } = await call('POST', '', { url, events: allEvents });
      expect([status, headers.get('ratelimit')?.split(';')[1]]).toEqual([count === 0 ? 201 : 200, `r=${9 - count}`]);
    }
    const limited = await call('POST', '', { url, events: allEvents });
    expect([limited.status, limited.body.code]).toEqual([429, 'rate_limited']);
    expect(Number(limited.headers.get('retry-after'))).toBeLessThanOrEqual(60);
    expect(limitOf(limited)).toEqual(['"webhook-config";q=10;w=60', expect.stringMatching(/^"webhook-config";r=0;t=\d+$/)]);
    expect((await call('POST', '', {})).status).toBe(400);
    // The limit is the route's, and the tenant's.
    expect((await call('PATCH', '', { enabled: false })).status).toBe(200);
    expect((await (await newCustomer()).call('POST', '', { url, events: allEvents })).status).toBe(201);
  });

  test('disabled or deleted, nothing is retried', async () => {
    const receiver = await newReceiver(failing);
    const { call, post, settled } = await newCustomer();
    await call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
    await post();
    const [failed] = await settled(1);
    await call('PATCH', '', { enabled: false });
    for (let turn = 0; turn < 2; turn += 1) {
      const { status, body } = await call('POST', `/${failed.id}/retry`);
      expect([status, body.code]).toEqual([409, 'webhook_disabled']);
      await call('DELETE');
    }
  });
});

describe('paths', () => {
  test('the words are no deliveries, and a delivery has its own form', async () => {
    const { call } = await newCustomer();
    for (const [method, path, allow] of [
      ['GET', '/test', 'POST'],
      ['GET', '/secret/rotate', 'POST'],
      ['POST', '/config', 'DELETE, GET, HEAD, PATCH'],
      ['PUT', '', 'DELETE, GET, HEAD, PATCH, POST'],
      ['DELETE', `/${newId('wh_delivery')}`, 'GET, HEAD'],
    ] as const) {
      const { status, headers } = await call(method, path);
      expect([method, path, status, headers.get('allow')]).toEqual([method, path, 405, allow]);
    }
    const sound = newId('wh_delivery');
    for (const wrong of ['1', 'secret', 'wh_delivery_', sound.toUpperCase(), `${sound}0`, newId('txn'), 'x'.repeat(500), 'a%00b']) {
      for (const [method, path] of [['GET', `/${wrong}`] as const, ['POST', `/${wrong}/retry`] as const]) {
        const { status, body } = await call(method, path);
        expect([path, status, body.error, body.code]).toEqual([path, 400, 'Invalid delivery ID', 'invalid_delivery_id']);
      }
    }
    const unknown = await call('GET', `/${sound}`);
    expect([unknown.status, unknown.body.error, unknown.body.code]).toEqual([404, 'Webhook delivery not found', 'delivery_not_found']);
  });

  test('another tenant’s delivery is an unknown one', async () => {
    const receiver = await newReceiver(failing);
    const [one, other] = [await newCustomer(), await newCustomer()];
    for (const { call } of [one, other]) await call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
    await one.post();
    const [delivery] = await one.settled(1);
    for (const [method, path] of [['GET', `/${delivery.id}`] as const, ['POST', `/${delivery.id}/retry`] as const]) {
      expect((await other.call(method, path)).body.error).toBe('Webhook delivery not found');
    }
    expect((await other.call('GET')).body.data.pagination.total).toBe(0);
  });
});

test('without the notifier postings are answered, webhooks are not, and all arrives when it is back', async () => {
  const receiver = await newReceiver();
  const { call, post, settled } = await newCustomer();
  await call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
  await house.kill('notifier');
  const ready = await until(async () => {
    const answer = await rest('GET', '/readyz');
    return answer.body.dependencies.notifier === 'ok' ? null : answer;
  });
  expect([ready.status, ready.body]).toEqual([
    200,
    { status: 'degraded', dependencies: { identity: 'ok', ledger: 'ok', notifier: 'unavailable' } },
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
  await house.restart('notifier');
  const [received] = await receiver.count(1);
  expect(JSON.parse(received!.body).data.transaction_id).toBe(transaction_id);
  expect(await settled(1)).toHaveLength(1);
});
