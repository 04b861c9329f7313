import { newId } from '../services/platform/ids.ts';
import { id, time } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';
import type { Answering } from '../test/notifier.ts';
import { allEvents, failing, limitOf, newReceiver, newSubscriber, startHookCluster } from '../test/subscriber.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;

beforeAll(async () => {
  cluster = await startHookCluster();
});
afterAll(() => cluster.stop());

const url = 'http://127.0.0.1:9/hook';

test('the configuration is replaced, changed, read and deleted; its secret is shown once', async () => {
  const { call } = await newSubscriber(cluster);
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
  const config = { url: `${url}/2`, events: ['account.updated'], enabled: false, headers: [], created_at, updated_at: time };
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

test('errors of a configuration name the field, without its secret, and do not count', async () => {
  const { call } = await newSubscriber(cluster);
  const secret = 'sixteen characters\u0007';
  const long = `http://127.0.0.1:0/${'x'.repeat(300)}/`;
  for (const [body, field, tag, value] of [
    [{}, 'url', 'required', ''],
    [{ url: '', events: ['account.created'] }, 'url', 'required', ''],
    [{ url: 5, events: ['account.created'] }, 'url', 'type', 5],
    [{ url: 'example.com/hook', events: [] }, 'url', 'url', 'example.com/hook'],
    [{ url: 'ftp://example.com', events: ['account.created'] }, 'url', 'https', 'ftp://example.com'],
    [{ url: long, events: ['account.created'] }, 'url', 'url', long],
    [{ url: 'http://user:fifteen@127.0.0.1/', events: ['account.created'] }, 'url', 'url', ''],
    [{ url: 'http://user:fifteen@127.0.0.1/a path', events: ['account.created'] }, 'url', 'url', ''],
    [{ url: ['http://user:fifteen@127.0.0.1/'], events: ['account.created'] }, 'url', 'type', ''],
    [{ url: [`http://user:fifteen${'y'.repeat(1000)}@127.0.0.1/`, ...Array<number>(10_000).fill(0)] }, 'url', 'type', ''],
    [{ url: `http://user:fifteen@127.0.0.1/${'y'.repeat(2048)}`, events: ['account.created'] }, 'url', 'max', ''],
    [{ url: `${url}/${'y'.repeat(2048)}`, events: ['account.created'] }, 'url', 'max', `${url}/${'y'.repeat(2048)}`],
    [{ url }, 'events', 'required', ''],
    [{ url, events: [] }, 'events', 'min', []],
    [{ url, events: 'account.created' }, 'events', 'type', 'account.created'],
    [{ url, events: ['account.created', 'account.lost'] }, 'events[1]', 'oneof', 'account.lost'],
    [{ url, events: ['account.created'], secret: 'fifteen letters' }, 'secret', 'min', ''],
    [{ url, events: ['account.created'], secret: 'x'.repeat(256) }, 'secret', 'max', ''],
    [{ url, events: ['account.created'], secret: 5 }, 'secret', 'type', ''],
    [{ url, events: ['account.created'], secret }, 'secret', 'printable', ''],
    [{ url, events: ['account.created'], enabled: 'yes' }, 'enabled', 'type', 'yes'],
  ] as const) {
    const { status, body: said } = await call('POST', '', body);
    expect([body, status, said.error, said.details]).toEqual([body, 400, 'Request validation failed', { field, tag, value }]);
    expect(said.errors[0]).toEqual({ field, tag, value, message: expect.any(String) });
    expect(JSON.stringify(said)).not.toMatch(/fifteen|sixteen|xxxxxxxxxxxxxxxx"/);
  }
  // All of it, in the schema's order, whoever has to judge it.
  const named = async (method: 'POST' | 'PATCH', body: unknown) => {
    const { status, body: said } = await call(method, '', body);
    expect([status, said.details]).toEqual([400, { field: said.errors[0].field, tag: said.errors[0].tag, value: said.errors[0].value }]);
    expect(JSON.stringify(said)).not.toMatch(/fifteen|sixteen/);
    return said.errors.map(({ field, tag }: { field: string; tag: string }) => `${field} ${tag}`);
  };
  for (const [body, ...expected] of [
    [{ url: 'ftp://a.b/', events: [] }, 'url https', 'events min'],
    [{ url: 'ftp://a.b/', events: ['x'], secret }, 'url https', 'events[0] oneof', 'secret printable'],
    [{ url: 'http://user:fifteen@127.0.0.1/', events: ['x'] }, 'url url', 'events[0] oneof'],
    [{ url: 'http://127.0.0.1:0/', events: allEvents, secret: 'fifteen' }, 'url url', 'secret min'],
    [{ url, events: ['x'], secret: 'fifteen' }, 'events[0] oneof', 'secret min'],
    [
      { url: 'ftp://a.b/', events: Array<string>(30).fill('x') },
      'url https',
      ...Array.from({ length: 19 }, (_, at) => `events[${at}] oneof`),
    ],
    [{ url: '', events: [] }, 'url required', 'events min'],
  ] as const) {
    expect(await named('POST', body)).toEqual(expected);
  }
  expect(await named('PATCH', { url: 'ftp://a.b/', secret: 'fifteen' })).toEqual(['url https', 'secret min']);
  expect(await named('PATCH', { events: [], enabled: 1 })).toEqual(['events min', 'enabled type']);
  for (const nothing of [undefined, null, [], 5]) expect((await call('POST', '', nothing)).status).toBe(400);
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
  expect((await (await newSubscriber(cluster)).call('POST', '', { url, events: allEvents })).status).toBe(201);
});

test('headers of the tenant’s own go with every delivery, are replaced or kept like the secret, and are never shown', async () => {
  const receiver = await newReceiver();
  const { call, post, settled } = await newSubscriber(cluster);
  const sent = [
    { name: 'Authorization', value: 'Bearer token-of-the-receiver' },
    { name: 'X-Api-Key', value: 'key of the receiver ~' },
  ];
  const shown = sent.map(({ name }) => ({ name, value: null }));
  const made = await call('POST', '', { url: receiver.url, events: ['transaction.posted'], headers: sent });
  expect([made.status, made.body.data.webhook_config.headers]).toEqual([201, shown]);
  // What the receiver gets, by a test and by a posting.
  const receives = async () => {
    const before = receiver.received.length;
    expect((await call('POST', '/test')).status).toBe(200);
    await post();
    await receiver.count(before + 2);
    return receiver.received.slice(before).map(({ headers }) => [headers['authorization'], headers['x-api-key'], headers['content-type']]);
  };
  const both = ['Bearer token-of-the-receiver', 'key of the receiver ~', 'application/json'];
  expect(await receives()).toEqual([both, both]);
  const answers = [
    made,
    await call('GET', '/config'),
    await call('GET'),
    await call('POST', '/secret/rotate'),
    await call('PATCH', '', {}),
  ];
  for (const { body } of answers) expect(body.data.webhook_config.headers).toEqual(shown);
  for (const { id: each } of await settled(2)) answers.push(await call('GET', `/${each}`));
  expect(JSON.stringify(answers.map(({ body }) => body))).not.toMatch(/of.the.receiver/);
  expect(await receives()).toEqual([both, both]);

  const other = await call('PATCH', '/config', { headers: [{ name: 'x-api-key', value: 'another' }] });
  expect(other.body.data.webhook_config.headers).toEqual([{ name: 'x-api-key', value: null }]);
  const one = [undefined, 'another', 'application/json'];
  expect(await receives()).toEqual([one, one]);
  // Configured again without headers there are none; an empty list and null in a change mean none and no change.
  const none = [undefined, undefined, 'application/json'];
  await call('PATCH', '', { headers: null });
  expect(await receives()).toEqual([one, one]);
  expect((await call('PATCH', '', { headers: [] })).body.data.webhook_config.headers).toEqual([]);
  expect(await receives()).toEqual([none, none]);
  await call('PATCH', '', { headers: sent });
  expect((await call('POST', '', { url: receiver.url, events: ['transaction.posted'] })).body.data.webhook_config.headers).toEqual([]);
  expect(await receives()).toEqual([none, none]);
});

test('errors of headers name the field and the rule, without a value', async () => {
  const { call } = await newSubscriber(cluster);
  const value = 'Bearer fifteen';
  const many = Array.from({ length: 11 }, (_, index) => ({ name: `X-${index}`, value }));
  for (const [headers, field, tag, echoed = ''] of [
    ['Authorization: Bearer fifteen', 'headers', 'type'],
    [{ Authorization: value }, 'headers', 'type'],
    [[`Authorization: ${value}`], 'headers[0]', 'type'],
    [many, 'headers', 'max'],
    [[{ value }], 'headers[0].name', 'required'],
    [[{ name: 'X-Key' }], 'headers[0].value', 'required'],
    [[{ name: 'X-Key', value: null }], 'headers[0].value', 'required'],
    [[{ name: 'X-Key', value, more: value }], 'headers[0].more', 'unknown'],
    [[{ name: 'X Key fifteen', value }], 'headers[0].name', 'code'],
    [[{ name: 'x'.repeat(129), value }], 'headers[0].name', 'max'],
    [[many[0], { name: 'X-Key', value: `${value}\n` }], 'headers[1].value', 'printable'],
    [[{ name: 'X-Key', value: `${value} ` }], 'headers[0].value', 'printable'],
    [[{ name: 'X-Key', value: `${value}é` }], 'headers[0].value', 'printable'],
    [[{ name: 'X-Key', value: 'y'.repeat(4097) }], 'headers[0].value', 'max'],
    [[many[0], { name: 'x-0', value }], 'headers[1].name', 'unique', 'x-0'],
    ...['Content-Type', 'X-Webhook-Signature', 'WEBHOOK-ID', 'traceparent', 'User-Agent', 'Host', 'content-length', 'Connection', 'TE'].map(
      (name) => [[{ name, value }], 'headers[0].name', 'oneof', name] as const,
    ),
  ] as const) {
    for (const [method, rest] of [['POST', { url, events: allEvents }] as const, ['PATCH', {}] as const]) {
      const { status, body } = await call(method, '', { ...rest, headers });
      expect([headers, status, body.details]).toEqual([headers, 400, { field, tag, value: echoed }]);
      expect(JSON.stringify(body)).not.toMatch(/fifteen|yyyy/);
    }
  }
  const { body } = await call('POST', '', { url: 'https://user:fifteen@example.com/hook', events: allEvents });
  expect(body.errors).toEqual([
    { field: 'url', tag: 'url', value: '', message: 'url must not contain a user or password: credentials go into headers' },
  ]);
});

test('a test is sent at once, even if disabled, and answers why it failed', async () => {
  let answer: Answering = (_, response) => response.end('ok');
  const receiver = await newReceiver((...given) => answer(...given));
  const { tenant, call } = await newSubscriber(cluster);
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
  expect(dropped.body).toMatchObject({ status_code: null, error_class: 'reset' });
  const { delivery } = (await call('GET', `/${dropped.body.delivery_id}`)).body.data;
  expect(delivery).toMatchObject({ status: 'failed', status_code: null, response_body: null, attempts: 1, payload: { livemode: false } });

  for (let count = 5; count < 20; count += 1) await call('POST', '/test');
  const limited = await call('POST', '/test');
  expect([limited.status, limited.body.code]).toEqual([429, 'rate_limited']);
  expect((await call('POST', '/test', { event_type: 1 })).status).toBe(400);
});

test('the words are no deliveries, and a delivery has its own form', async () => {
  const { call } = await newSubscriber(cluster);
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
