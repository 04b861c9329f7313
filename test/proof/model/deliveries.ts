// The tenants' webhook in the model: every event is delivered once, with the model's data.
import { bodySignature } from '../../../services/notifier/webhook.ts';
import { until } from '../../notifier.ts';
import { balanceOf } from './chart-model.ts';
import { difference, valueOf } from './expectation.ts';
import { Divergence, type ModelRun, type Tenant } from './model-run.ts';
import type { Moves } from './posting-moves.ts';
import { decimal } from './records.ts';

const secret = 'the secret of every webhook here';
const types = [
  ...['transaction.posted', 'balance.updated', 'account.created', 'account.updated'],
  ...['hold.created', 'hold.captured', 'hold.voided', 'hold.expired'],
];

export const deliveryMoves: Moves = {
  subscribe: {
    weight: 0.5,
    own: {},
    move: async (run, tenant) => {
      if (tenant.isSubscribed || tenant.ledger.log.length > 0) return;
      tenant.isSubscribed = true;
      const { cluster, hooks } = run.context;
      const body = { url: `${hooks}/${tenant.slug}`, events: types, secret };
      const { status } = await cluster.rest('POST', `/v1/tenants/${tenant.slug}/webhooks`, { key: tenant.key, body });
      if (status !== 201) throw new Divergence(`a webhook was answered ${status}`);
    },
  },
};

/** What must be delivered, by what it is about. */
function expectedOf({ ledger }: Tenant): Map<string, unknown> {
  const all = ledger.log.flatMap(({ type, data, changes, captured }, index): [string, object][] => {
    const { transaction_id = null, hold_id = captured?.hold_id ?? null } = data;
    const updates = changes.map(({ account, currency, before, after }): [string, object] => {
      const previous_balance = decimal(ledger.net(account, before));
      const update = { ...balanceOf(ledger, account, currency, after), previous_balance, transaction_id, hold_id, sequence: index + 1 };
      return ['balance.updated', update];
    });
    return [[type, data], ...updates, ...(captured ? [['hold.captured', { ...captured, transaction_id }] as [string, object]] : [])];
  });
  return new Map(all.map(([type, data]) => [subjectOf(type, data), data]));
}

/** Names an event by its data, of which each type has another part that differs. */
function subjectOf(type: string, data: Record<string, any>): string {
  const { sequence, account_code, currency, transaction_id } = data;
  if (type === 'balance.updated') return `${type} ${sequence} ${account_code} ${currency}`;
  return type === 'hold.captured' ? `${type} ${String(valueOf(transaction_id))}` : `${type} ${sequence}`;
}

/** Waits until everything has arrived, and compares it. Throws {@link Divergence}. */
export async function settle(run: ModelRun, tenant: Tenant): Promise<void> {
  if (!tenant.isSubscribed) return;
  const { tally } = run.context;
  const expected = expectedOf(tenant);
  const received = () => run.context.received.get(tenant.slug) ?? [];
  const end = Date.now() + 60_000;
  await until(() => Promise.resolve(received().length >= expected.size || Date.now() > end));
  for (const { headers, body } of received()) {
    const { type, data, tenant_id } = JSON.parse(body) as { type: string; data: any; tenant_id: string };
    const subject = subjectOf(type, data);
    const isSigned = headers['x-webhook-signature'] === bodySignature(secret, body);
    if (!expected.has(subject) || tenant_id !== tenant.id || !isSigned) throw new Divergence(`an unexpected delivery: ${body}`);
    const wrong = difference(expected.get(subject), data, subject);
    if (wrong !== null) throw new Divergence(wrong);
    expected.delete(subject);
    tally.deliveries++;
  }
  const [missing] = expected.keys();
  if (missing !== undefined) throw new Divergence(`no delivery of ${missing}`);
}
