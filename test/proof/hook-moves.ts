// The steps about webhooks: configured, changed, deleted, tried; deliveries listed, read and sent again. Each waits until nothing is pending.
import { setTimeout as pause } from 'node:timers/promises';
import { Learned, difference, statusOf, type Expected, type Refused } from './expectation.ts';
import { answerOf, misSigned, type Delivery, type Received } from './hook.ts';
import type { Move } from './ledger-moves.ts';
import { Divergence, type Tenant, type World } from './world.ts';

const noWebhook: Expected = { refused: [{ code: 'webhook_not_configured' }] };
const isAnswer = ({ code }: { code: string | undefined }) => (code === undefined ? null : `refused as ${code}`);

function placeOf({ headers, event }: Received): string {
  const { sequence, account_code, currency } = event.data as Record<string, string>;
  if (event['livemode'] === false) return String(headers['x-webhook-delivery']);
  return `${event.type} ${sequence}${event.type === 'balance.updated' ? ` ${account_code} ${currency}` : ''}`;
}

const classOf = (status: number) => (status === 200 ? null : status === 302 ? 'redirect' : 'http_status');

/** Waits until nothing is pending, then holds every delivery and every request to the receiver against the model. */
export async function settle(world: World, tenant: Tenant): Promise<void> {
  const { books, hook, slug, id } = tenant;
  const first = world.made.length;
  await world.around.consumed(id, books.log.length);
  hook.judge(books);
  const listed = async (query: string) => (await world.ask(world.rest(tenant, 'GET', `/webhooks?${query}`), isAnswer)).data;
  for (const until = Date.now() + 60_000; (await listed('limit=1&status=pending')).pagination.total > 0; await pause(20)) {
    if (Date.now() > until) throw new Divergence('deliveries are pending after 60 s');
  }
  const rows: any[] = [];
  for (let total = 1; rows.length < total;) {
    const { deliveries, pagination, webhook_config } = await listed(`limit=100&offset=${rows.length}`);
    rows.push(...deliveries);
    total = pagination.total;
    const wrong = difference(hook.config, webhook_config, 'webhook_config');
    if (wrong !== null) throw new Divergence(wrong);
    if (deliveries.length === 0) break;
  }
  const requests = Map.groupBy(world.around.receiver.of(slug), placeOf);
  const at = new Map(world.around.receiver.of(slug).map((each) => [each.event.id, placeOf(each)]));
  const byPlace = new Map(hook.deliveries.map((each) => [each.place, each]));
  for (const row of rows) {
    const delivery = byPlace.get(row.id) ?? byPlace.get(at.get(row.event_id) ?? '');
    if (!delivery) throw new Divergence(`a delivery that nothing asked for: ${JSON.stringify(row)}`);
    byPlace.delete(delivery.place);
    const wrong = difference(rowOf(delivery), row, delivery.place) ?? unlike(tenant, delivery, requests.get(delivery.place) ?? []);
    if (wrong !== null) throw new Divergence(wrong);
  }
  const [missing] = byPlace.keys();
  if (missing !== undefined) throw new Divergence(`no delivery of ${missing}`);
  const fresh = world.around.receiver.of(slug).slice(hook.verified);
  const wrong = fresh.map((each) => misSigned(each, hook.secret, hook.previous)).find((each) => each !== null);
  if (wrong !== undefined) throw new Divergence(wrong);
  hook.verified += fresh.length;
  world.around.tally.deliveries += fresh.length;
  for (const made of world.made.slice(first)) world.checks.add(made);
}

function rowOf({ id, event_id, type, status, status_code, attempts }: Delivery): Record<string, unknown> {
  const ended = { [status === 'delivered' ? 'delivered_at' : 'failed_at']: new Learned('time'), next_retry_at: null };
  return { id, event_id, event_type: type, status, status_code, error_class: classOf(status_code), attempts, max_attempts: 3, ...ended };
}

/** What is wrong with the requests of one delivery. */
function unlike(tenant: Tenant, delivery: Delivery, requests: Received[]): string | null {
  const attempts = requests.map(({ headers }) => Number(headers['x-webhook-attempt'])).sort((one, two) => one - two);
  const numbers = Array.from({ length: delivery.attempts }, (_, before) => before + 1);
  const wrong = difference(numbers, attempts, `${delivery.place}: attempts`);
  if (wrong !== null) return wrong;
  if (new Set(requests.map(({ body }) => body)).size > 1) return `${delivery.place}: attempts with different bodies`;
  const envelope = { id: delivery.event_id, type: delivery.type, data: delivery.data, tenant_id: tenant.id, livemode: !delivery.test };
  return difference(envelope, requests[0]?.event, delivery.place);
}

export const hookMoves: Record<string, Move> = {
  async configure(world, tenant, step) {
    await settle(world, tenant);
    const { hook } = tenant;
    const secret = step['secret'] === 0 ? `own secret of ${world.next('s')}, long enough` : undefined;
    const url = `${hook.base}/${step['to']}`;
    const events = step['events'] as string[];
    const sent = { url, events: [...events, events[0]], enabled: step['enabled'], secret };
    const config = { url, events, enabled: step['enabled'] ?? true, created_at: new Learned('time') };
    const shown = hook.config && secret === undefined ? null : (secret ?? new Learned('text'));
    const full = hook.use('config');
    const refused = full !== false ? [{ code: 'rate_limited' }] : [];
    const seen = await world.ask(world.rest(tenant, 'POST', '/webhooks', sent), ({ status, code, data }) => {
      if (code !== undefined) return refused.some((each) => each.code === code && statusOf(each) === status) ? null : `refused as ${code}`;
      if (full === true) return 'answered, expected rate_limited';
      if (status !== (hook.config ? 200 : 201)) return `answered ${status}`;
      return difference({ webhook_config: { ...config, secret: shown } }, data);
    });
    if (seen.code !== undefined) return;
    hook.config = config;
    hook.secret = seen.data.webhook_config.secret ?? hook.secret;
    if (shown !== null) hook.previous = null;
    if (secret === undefined && shown !== null && !hook.secret.startsWith('whsec_')) throw new Divergence('a secret without whsec_');
  },
  async adjust(world, tenant, step) {
    await settle(world, tenant);
    const { hook } = tenant;
    const { to, enabled, events } = step;
    const url = to === undefined ? undefined : `${hook.base}/${to as string}`;
    const body = { ...(url !== undefined && { url }), ...(enabled !== undefined && { enabled }), ...(events !== undefined && { events }) };
    if (hook.config) hook.config = { ...hook.config, ...body };
    await world.ask(
      world.rest(tenant, 'PATCH', '/webhooks/config', body),
      hook.config ? { status: 200, data: { webhook_config: hook.config } } : noWebhook,
    );
  },
  async rotate(world, tenant, step) {
    await settle(world, tenant);
    const { hook } = tenant;
    const secret = new Learned('text');
    const body = step['overlap'] === undefined ? undefined : { overlap_seconds: step['overlap'] };
    const expected: Expected = hook.config ? { status: 200, data: { webhook_config: { ...hook.config, secret } } } : noWebhook;
    await world.ask(world.rest(tenant, 'POST', '/webhooks/secret/rotate', body), expected);
    if (!hook.config) return;
    hook.previous = step['overlap'] === 0 ? null : hook.secret;
    hook.secret = secret.known();
  },
  async unhook(world, tenant) {
    await settle(world, tenant);
    const expected: Expected = tenant.hook.config ? { status: 200, data: { deleted: true } } : noWebhook;
    tenant.hook.config = null;
    await world.ask(world.rest(tenant, 'DELETE', '/webhooks/config'), expected);
  },
  async hook(world, tenant) {
    const { config } = tenant.hook;
    await world.ask(world.rest(tenant, 'GET', '/webhooks/config'), config ? { status: 200, data: { webhook_config: config } } : noWebhook);
  },
  async trial(world, tenant, step) {
    const { hook } = tenant;
    await settle(world, tenant);
    const type = (step['type'] as string | undefined) ?? 'test.webhook';
    const status_code = answerOf(hook.behaviour(), 1);
    const full = hook.use('tests');
    const test_payload = { type, tenant_id: tenant.id, livemode: false, data: { message: new Learned('text') } };
    const told = { delivery_id: new Learned('delivery'), status_code };
    let expected: Expected = { status: 200, data: { ...told, status: 'delivered', test_payload } };
    if (status_code !== 200) expected = { refused: [{ code: 'test_failed' }] };
    if (!hook.config) expected = noWebhook;
    if (full === true) expected = { refused: [{ code: 'rate_limited' }] };
    const sent = step['type'] === undefined ? undefined : { event_type: type };
    const seen = await world.ask(world.rest(tenant, 'POST', '/webhooks/test', sent), expected);
    if (!hook.config || full === true) return;
    const wrong = difference(told, seen.data);
    if (wrong !== null) throw new Divergence(wrong);
    const data = seen.data.test_payload?.data ?? {};
    const status = status_code === 200 ? 'delivered' : 'failed';
    const about = { place: told.delivery_id.known(), test: true, type, data, event_id: new Learned('evt') };
    hook.deliveries.push({ ...about, status, attempts: 1, status_code, id: told.delivery_id });
  },
  async deliveries(world, tenant, step) {
    await settle(world, tenant);
    const { status, type } = step;
    const fits = (each: Delivery) => (status === undefined || each.status === status) && (type === undefined || each.type === type);
    const total = tenant.hook.deliveries.filter(fits).length;
    const query = `limit=5&offset=1${status ? `&status=${status}` : ''}${type ? `&event_type=${type}` : ''}`;
    const pagination = { total, limit: 5, offset: 1, has_more: total > 6 };
    const seen = await world.ask(world.rest(tenant, 'GET', `/webhooks?${query}`), { status: 200, data: { pagination } });
    const rows = seen.data.deliveries as any[];
    const stray = rows.find((row) => !tenant.hook.deliveries.some((each) => fits(each) && each.id.known() === row.id));
    if (stray || rows.length !== Math.max(0, Math.min(5, total - 1)))
      throw new Divergence(`${rows.length} deliveries of ${total}: ${JSON.stringify(stray)}`);
  },
  async delivery(world, tenant, step) {
    await settle(world, tenant);
    const [id, delivery] = chosen(tenant, step['at']);
    const call = world.rest(tenant, 'GET', `/webhooks/${id}`);
    if (!delivery) {
      await world.ask(call, { refused: unknown(id) });
      return;
    }
    const { data, type, status_code } = delivery;
    const payload = { type, data, id: delivery.event_id, tenant_id: tenant.id };
    const attempt_history = Array.from({ length: delivery.attempts }, (_, before) => ({ number: before + 1 }));
    const whole = { ...rowOf(delivery), payload, response_body: `answer ${status_code}`, attempt_history };
    await world.ask(call, { status: 200, data: { delivery: whole } });
  },
  async retry(world, tenant, step) {
    const { hook } = tenant;
    if (step['off'] === 0 && hook.config?.enabled) await hookMoves['adjust']!(world, tenant, { ...step, enabled: false });
    await settle(world, tenant);
    const [id, delivery] = chosen(tenant, step['at']);
    const faults: Refused[] = unknown(id);
    const full = id === 'nonsense' ? false : hook.use('retries');
    if (delivery) faults.length = 0;
    if (delivery?.status === 'delivered') faults.push({ code: 'delivery_not_failed' });
    if (delivery && hook.config?.enabled !== true) faults.push({ code: 'webhook_disabled' });
    if (full === true) faults.splice(0, faults.length, { code: 'rate_limited' });
    const told = { delivery_id: id, attempts: (delivery?.attempts ?? 0) + 1, next_retry_at: new Learned('time') };
    const expected: Expected = faults.length > 0 ? { refused: faults } : { status: 202, data: told };
    await world.ask(world.rest(tenant, 'POST', `/webhooks/${id}/retry`), expected);
    if (delivery && faults.length === 0) hook.retried(delivery);
  },
  /** One request more than a limit allows. */
  async burst(world, tenant, step) {
    const requests: Record<string, [times: number, own: object]> = {
      configure: [11, { to: 'ok', events: ['account.updated'], secret: 1 }],
      trial: [21, {}],
      retry: [6, { at: { at: 0, odd: 1 } }],
    };
    const [times, own] = requests[step['of']]!;
    for (let turn = 0; turn < times; turn++) await hookMoves[step['of']]!(world, tenant, { ...step, ...own });
  },
};

function unknown(id: string): Refused[] {
  return [{ code: id === 'nonsense' ? 'invalid_delivery_id' : 'delivery_not_found' }];
}

function chosen({ hook }: Tenant, { at, odd }: { at: number; odd: number }): [id: string, delivery: Delivery | undefined] {
  if (odd === 0) return ['nonsense', undefined];
  const failed = hook.deliveries.filter(({ status }) => status === 'failed');
  const among = odd > 5 && failed.length > 0 ? failed : hook.deliveries;
  const delivery = odd === 1 ? undefined : among[at % Math.max(1, among.length)];
  return [delivery?.id.known() ?? 'wh_delivery_01jd1zq5v8e6n9w2k4m7p3r5t8', delivery];
}
