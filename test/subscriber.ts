// Tenants with a webhook as they ask the gateway, and their receivers, for the tests of what it answers about deliveries.
import { startCheckedCluster } from './contract.ts';
import { newWallet } from './customer.ts';
import type { Answer, Cluster, Tenant } from './cluster.ts';
import { startReceiver, until, type Answering, type Receiver } from './notifier.ts';

const receivers: Receiver[] = [];

/** A receiver until the cluster of {@link startHookCluster} stops. */
export async function newReceiver(answer?: Answering): Promise<Receiver> {
  const receiver = await startReceiver(answer);
  receivers.push(receiver);
  return receiver;
}

/** Starts a cluster, checked as by {@link startCheckedCluster}, whose webhooks have the usual limits and whose retries do not wait. */
export async function startHookCluster(): Promise<Cluster> {
  const limits = { WEBHOOK_CONFIG_PER_MINUTE: '10', WEBHOOK_RETRIES_PER_HOUR: '5', WEBHOOK_TESTS_PER_HOUR: '20' };
  const cluster = await startCheckedCluster({ environment: { notifier: { ...limits, WEBHOOK_RETRY_DELAYS: '0,0' } } });
  return {
    ...cluster,
    async stop() {
      await cluster.stop();
      for (const receiver of receivers.splice(0)) await receiver.close();
    },
  };
}

export const allEvents = ['transaction.posted', 'balance.updated', 'account.created', 'account.updated'];

/** A tenant with a chart and a key. */
export interface Subscriber {
  tenant: Tenant;
  /** Asks for a path under `/webhooks`. */
  call: (method: string, path?: string, body?: unknown) => Promise<Answer>;
  /** Posts, and answers the transaction. */
  post: (description?: string, more?: Record<string, unknown>) => Promise<any>;
  /** Deliveries of a filter, when so many are there and none is pending. */
  settled: (count: number) => Promise<any[]>;
}

/** A new tenant, without a webhook. */
export async function newSubscriber(cluster: Cluster): Promise<Subscriber> {
  const { tenant, key, at, post } = await newWallet(cluster);
  const call: Subscriber['call'] = (method, path = '', body) =>
    cluster.rest(method, `${at('webhooks')}${path}`, { key, ...(body !== undefined && { body }) });
  return {
    tenant,
    call,
    post: async (description = 'A sale', more = {}) => {
      const entry = { account_code: 'SETTLEMENT-USD', amount: '5.00', side: 'debit', currency: 'USD' };
      return (await post('transactions', { ...entry, description, metadata: { n: 1 }, ...more })).body.data.transaction;
    },
    settled: (count) =>
      until(async () => {
        const { body } = await call('GET', '?limit=100');
        // Without a notifier there is no answer for a while.
        const deliveries = body.data?.deliveries;
        return deliveries?.length >= count && deliveries.every(({ status }: any) => status !== 'pending') ? deliveries : null;
      }),
  };
}

/** Refuses whatever is delivered. */
export const failing: Answering = (_, response) => {
  response.statusCode = 500;
  response.end('not today');
};

/** What an answer says of its limit: the policy, and where the caller stands. */
export const limitOf = ({ headers }: Answer): (string | null)[] => [headers.get('ratelimit-policy'), headers.get('ratelimit')];
