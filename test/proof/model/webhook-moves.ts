// The steps about webhooks: configure, change, delete, test; list, read and retry deliveries. Each waits until nothing is pending.
import { setTimeout as pause } from 'node:timers/promises';
import { Learned, difference, statusOf, type Expected, type Refused } from './expectation.ts';
import { answerOf, signatureFault, type Delivery, type Received } from './webhook-model.ts';
import type { Move } from './posting-moves.ts';
import { Divergence, type Tenant, type ModelRun } from './model-run.ts';

const noWebhook: Expected = { refused: [{ code: 'webhook_not_configured' }] };
const isAnswer = ({ code }: { code: string | undefined }) => (code === undefined ? null : `refused as ${code}`);

function subjectOf({ headers, event }: Received): string {
  const { sequence, account_code, currency } = event.data as Record<string, string>;
  if (event['livemode'] === false) return String(headers['x-webhook-delivery']);
  return `${event.type} ${sequence}${event.type === 'balance.updated' ? ` ${account_code} ${currency}` : ''}`;
}

const classOf = (status: number) => (status === 200 ? null : status === 302 ? 'redirect' : 'http_status');

/** Waits until nothing is pending, then compares all deliveries and requests to the receiver with the model. */
export async function settle(run: ModelRun, tenant: Tenant): Promise<void> {
  const { ledger, webhook, slug, id } = tenant;
  const first = run.made.length;
  await run.context.published(id, ledger.log.length);
  webhook.expectDeliveries(ledger);
  const listed = async (query: string) => (await run.call(run.rest(tenant, 'GET', `/webhooks?${query}`), isAnswer)).data;
  for (const until = Date.now() + 60_000; (await listed('limit=1&status=pending')).pagination.total > 0; await pause(20)) {
    if (Date.now() > until) throw new Divergence('deliveries are pending after 60 s');
  }
  const rows: any[] = [];
  for (let total = 1; rows.length < total;) {
    const { deliveries, pagination, webhook_config } = await listed(`limit=100&offset=${rows.length}`);
    rows.push(...deliveries);
    total = pagination.total;
    const wrong = difference(webhook.config, webhook_config, 'webhook_config');
    if (wrong !== null) throw new Divergence(wrong);
    if (deliveries.length === 0) break;
  }
  const requests = Map.groupBy(run.context.receiver.of(slug), subjectOf);
  const at = new Map(run.context.receiver.of(slug).map((each) => [each.event.id, subjectOf(each)]));
  const bySubject = new Map(webhook.deliveries.map((each) => [each.subject, each]));
  for (const row of rows) {
    const delivery = bySubject.get(row.id) ?? bySubject.get(at.get(row.event_id) ?? '');
    if (!delivery) throw new Divergence(`an unexpected delivery: ${JSON.stringify(row)}`);
    bySubject.delete(delivery.subject);
    const wrong = difference(rowOf(delivery), row, delivery.subject) ?? unlike(tenant, delivery, requests.get(delivery.subject) ?? []);
    if (wrong !== null) throw new Divergence(wrong);
  }
  const [missing] = bySubject.keys();
  if (missing !== undefined) throw new Divergence(`no delivery of ${missing}`);
  const fresh = run.context.receiver.of(slug).slice(webhook.verified);
  const wrong = fresh.map((each) => signatureFault(each, webhook.secret, webhook.previous)).find((each) => each !== null);
  if (wrong !== undefined) throw new Divergence(wrong);
  webhook.verified += fresh.length;
  run.context.tally.deliveries += fresh.length;
  for (const made of run.made.slice(first)) run.checks.add(made);
}

function rowOf({ id, event_id, type, status, status_code, attempts }: Delivery): Record<string, unknown> {
  const ended = { [status === 'delivered' ? 'delivered_at' : 'failed_at']: new Learned('time'), next_retry_at: null };
  return { id, event_id, event_type: type, status, status_code, error_class: classOf(status_code), attempts, max_attempts: 3, ...ended };
}

/** What is wrong with the requests of one delivery. */
function unlike(tenant: Tenant, delivery: Delivery, requests: Received[]): string | null {
  const attempts = requests.map(({ headers }) => Number(headers['x-webhook-attempt'])).sort((one, two) => one - two);
  const numbers = Array.from({ length: delivery.attempts }, (_, before) => before + 1);
  const wrong = difference(numbers, attempts, `${delivery.subject}: attempts`);
  if (wrong !== null) return wrong;
  if (new Set(requests.map(({ body }) => body)).size > 1) return `${delivery.subject}: attempts with different bodies`;
  const envelope = { id: delivery.event_id, type: delivery.type, data: delivery.data, tenant_id: tenant.id, livemode: !delivery.test };
  return difference(envelope, requests[0]?.event, delivery.subject);
}

export const webhookMoves: Record<string, Move> = {
  async configure(run, tenant, step) {
    await settle(run, tenant);
    const { webhook } = tenant;
    const secret = step['secret'] === 0 ? `own secret of ${run.next('s')}, long enough` : undefined;
    const url = `${webhook.base}/${step['to']}`;
    const events = step['events'] as string[];
    const sent = { url, events: [...events, events[0]], enabled: step['enabled'], secret };
    const config = { url, events, enabled: step['enabled'] ?? true, created_at: new Learned('time') };
    const shown = webhook.config && secret === undefined ? null : (secret ?? new Learned('text'));
    const full = webhook.use('config');
    const refused = full !== false ? [{ code: 'rate_limited' }] : [];
    const seen = await run.call(run.rest(tenant, 'POST', '/webhooks', sent), ({ status, code, data }) => {
      if (code !== undefined) return refused.some((each) => each.code === code && statusOf(each) === status) ? null : `refused as ${code}`;
      if (full === true) return 'answered, expected rate_limited';
      if (status !== (webhook.config ? 200 : 201)) return `answered ${status}`;
      return difference({ webhook_config: { ...config, secret: shown } }, data);
    });
    if (seen.code !== undefined) return;
    webhook.config = config;
    webhook.secret = seen.data.webhook_config.secret ?? webhook.secret;
    if (shown !== null) webhook.previous = null;
    if (secret === undefined && shown !== null && !webhook.secret.startsWith('whsec_')) throw new Divergence('a secret without whsec_');
  },
  async adjust(run, tenant, step) {
    await settle(run, tenant);
    const { webhook } = tenant;
    const { to, enabled, events } = step;
    const url = to === undefined ? undefined : `${webhook.base}/${to as string}`;
    const body = { ...(url !== undefined && { url }), ...(enabled !== undefined && { enabled }), ...(events !== undefined && { events }) };
    if (webhook.config) webhook.config = { ...webhook.config, ...body };
    await run.call(
      run.rest(tenant, 'PATCH', '/webhooks/config', body),
      webhook.config ? { status: 200, data: { webhook_config: webhook.config } } : noWebhook,
    );
  },
  async rotate(run, tenant, step) {
    await settle(run, tenant);
    const { webhook } = tenant;
    const secret = new Learned('text');
    const body = step['overlap'] === undefined ? undefined : { overlap_seconds: step['overlap'] };
    const expected: Expected = webhook.config ? { status: 200, data: { webhook_config: { ...webhook.config, secret } } } : noWebhook;
    await run.call(run.rest(tenant, 'POST', '/webhooks/secret/rotate', body), expected);
    if (!webhook.config) return;
    webhook.previous = step['overlap'] === 0 ? null : webhook.secret;
    webhook.secret = secret.known();
  },
  async unhook(run, tenant) {
    await settle(run, tenant);
    const expected: Expected = tenant.webhook.config ? { status: 200, data: { deleted: true } } : noWebhook;
    tenant.webhook.config = null;
    await run.call(run.rest(tenant, 'DELETE', '/webhooks/config'), expected);
  },
  async webhook(run, tenant) {
    const { config } = tenant.webhook;
    await run.call(run.rest(tenant, 'GET', '/webhooks/config'), config ? { status: 200, data: { webhook_config: config } } : noWebhook);
  },
  async trial(run, tenant, step) {
    const { webhook } = tenant;
    await settle(run, tenant);
    const type = (step['type'] as string | undefined) ?? 'test.webhook';
    const status_code = answerOf(webhook.behaviour(), 1);
    const full = webhook.use('tests');
    const test_payload = { type, tenant_id: tenant.id, livemode: false, data: { message: new Learned('text') } };
    const shown = { delivery_id: new Learned('delivery'), status_code };
    let expected: Expected = { status: 200, data: { ...shown, status: 'delivered', test_payload } };
    if (status_code !== 200) expected = { refused: [{ code: 'test_failed' }] };
    if (!webhook.config) expected = noWebhook;
    if (full === true) expected = { refused: [{ code: 'rate_limited' }] };
    const sent = step['type'] === undefined ? undefined : { event_type: type };
    const seen = await run.call(run.rest(tenant, 'POST', '/webhooks/test', sent), expected);
    if (!webhook.config || full === true) return;
    const wrong = difference(shown, seen.data);
    if (wrong !== null) throw new Divergence(wrong);
    const data = seen.data.test_payload?.data ?? {};
    const status = status_code === 200 ? 'delivered' : 'failed';
    const about = { subject: shown.delivery_id.known(), test: true, type, data, event_id: new Learned('evt') };
    webhook.deliveries.push({ ...about, status, attempts: 1, status_code, id: shown.delivery_id });
  },
  async deliveries(run, tenant, step) {
    await settle(run, tenant);
    const { status, type } = step;
    const fits = (each: Delivery) => (status === undefined || each.status === status) && (type === undefined || each.type === type);
    const total = tenant.webhook.deliveries.filter(fits).length;
    const query = `limit=5&offset=1${status ? `&status=${status}` : ''}${type ? `&event_type=${type}` : ''}`;
    const pagination = { total, limit: 5, offset: 1, has_more: total > 6 };
    const seen = await run.call(run.rest(tenant, 'GET', `/webhooks?${query}`), { status: 200, data: { pagination } });
    const rows = seen.data.deliveries as any[];
    const stray = rows.find((row) => !tenant.webhook.deliveries.some((each) => fits(each) && each.id.known() === row.id));
    if (stray || rows.length !== Math.max(0, Math.min(5, total - 1)))
      throw new Divergence(`${rows.length} deliveries of ${total}: ${JSON.stringify(stray)}`);
  },
  async delivery(run, tenant, step) {
    await settle(run, tenant);
    const [id, delivery] = chosen(tenant, step['at']);
    const call = run.rest(tenant, 'GET', `/webhooks/${id}`);
    if (!delivery) {
      await run.call(call, { refused: unknown(id) });
      return;
    }
    const { data, type, status_code } = delivery;
    const payload = { type, data, id: delivery.event_id, tenant_id: tenant.id };
    const attempt_history = Array.from({ length: delivery.attempts }, (_, before) => ({ number: before + 1 }));
    const whole = { ...rowOf(delivery), payload, response_body: `answer ${status_code}`, attempt_history };
    await run.call(call, { status: 200, data: { delivery: whole } });
  },
  async retry(run, tenant, step) {
    const { webhook } = tenant;
    if (step['off'] === 0 && webhook.config?.enabled) await webhookMoves['adjust']!(run, tenant, { ...step, enabled: false });
    await settle(run, tenant);
    const [id, delivery] = chosen(tenant, step['at']);
    const faults: Refused[] = unknown(id);
    const full = id === 'nonsense' ? false : webhook.use('retries');
    if (delivery) faults.length = 0;
    if (delivery?.status === 'delivered') faults.push({ code: 'delivery_not_failed' });
    if (delivery && webhook.config?.enabled !== true) faults.push({ code: 'webhook_disabled' });
    if (full === true) faults.splice(0, faults.length, { code: 'rate_limited' });
    const shown = { delivery_id: id, attempts: (delivery?.attempts ?? 0) + 1, next_retry_at: new Learned('time') };
    const expected: Expected = faults.length > 0 ? { refused: faults } : { status: 202, data: shown };
    await run.call(run.rest(tenant, 'POST', `/webhooks/${id}/retry`), expected);
    if (delivery && faults.length === 0) webhook.retried(delivery);
  },
  /** One request more than the limit. */
  async burst(run, tenant, step) {
    const requests: Record<string, [times: number, own: object]> = {
      configure: [11, { to: 'ok', events: ['account.updated'], secret: 1 }],
      trial: [21, {}],
      retry: [6, { at: { at: 0, odd: 1 } }],
    };
    const [times, own] = requests[step['of']]!;
    for (let turn = 0; turn < times; turn++) await webhookMoves[step['of']]!(run, tenant, { ...step, ...own });
  },
};

function unknown(id: string): Refused[] {
  return [{ code: id === 'nonsense' ? 'invalid_delivery_id' : 'delivery_not_found' }];
}

function chosen({ webhook }: Tenant, { at, odd }: { at: number; odd: number }): [id: string, delivery: Delivery | undefined] {
  if (odd === 0) return ['nonsense', undefined];
  const failed = webhook.deliveries.filter(({ status }) => status === 'failed');
  const among = odd > 5 && failed.length > 0 ? failed : webhook.deliveries;
  const delivery = odd === 1 ? undefined : among[at % Math.max(1, among.length)];
  return [delivery?.id.known() ?? 'wh_delivery_01jd1zq5v8e6n9w2k4m7p3r5t8', delivery];
}
