// Tenants with webhooks and their receivers, for tests of the gateway's webhook and delivery routes.
import { startCheckedCluster } from './contract.ts';
import { newWallet } from './customer.ts';
import type { Answer, Cluster, Tenant } from './cluster.ts';
import { startReceiver, until, type Answering, type Receiver } from './notifier.ts';

const receivers: Receiver[] = [];

/** A receiver that closes with the cluster of {@link startHookCluster}. */
export async function newReceiver(answer?: Answering): Promise<Receiver> {
  const receiver = await startReceiver(answer);
  receivers.push(receiver);
  return receiver;
}

/** A cluster whose deliveries are retried at once: the worker's shared one, or one of its own for a file that kills processes. */
export async function startHookCluster({ own = false } = {}): Promise<Cluster> {
  const cluster = await startCheckedCluster(own ? { environment: { notifier: { WEBHOOK_RETRY_DELAYS: '0,0' } } } : undefined);
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
  /** Calls a path under `/webhooks`. */
  call: (method: string, path?: string, body?: unknown) => Promise<Answer>;
  /** Posts; resolves to the transaction. */
  post: (description?: string, more?: Record<string, unknown>) => Promise<any>;
  /** All deliveries, once there are so many and none is pending. */
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
        // While the notifier is down there is no list.
        const deliveries = body.data?.deliveries;
        return deliveries?.length >= count && deliveries.every(({ status }: any) => status !== 'pending') ? deliveries : null;
      }),
  };
}

/** Answers every delivery with 500. */
export const failing: Answering = (_, response) => {
  response.statusCode = 500;
  response.end('not today');
};

/** The rate-limit headers of an answer: the policy and the client's status. */
export const limitOf = ({ headers }: Answer): (string | null)[] => [headers.get('ratelimit-policy'), headers.get('ratelimit')];
