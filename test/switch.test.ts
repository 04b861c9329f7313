// A deployment that switches from gRPC to Kafka and back under load, one process after the other, in the order of the Kafka page.
import { jest } from '@jest/globals';
import { createClient } from '@connectrpc/connect';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import { withBalanceEvents } from '../services/platform/balance-events.ts';
import { openCaller } from '../services/platform/caller.ts';
import { newId } from '../services/platform/ids.ts';
import { startCluster } from './cluster.ts';
import { describeWithKafka, kafkaBrokers, newTopic, uncommitted } from './kafka.ts';
import { startReceiver, until } from './notifier.ts';

// Eight processes are started again.
jest.setTimeout(180_000);

const steadily = <Answer>(call: () => Promise<Answer>) => until(() => call().catch(() => null));

describeWithKafka('between gRPC and Kafka', () => {
  test('a cluster is switched there and back without losing an event', async () => {
    const receiver = await startReceiver();
    const [brokers, topic] = [await kafkaBrokers(), newTopic()];
    const kafka = { KAFKA_BROKERS: brokers, KAFKA_TOPIC: topic, KAFKA_PARTITIONS: '2' };
    const cluster = await startCluster({ ledgers: 2, notifiers: 2 });
    const call = (addresses: string[]) => openCaller({ addresses, token: cluster.internalToken, maxMessageBytes: 1 << 25 });
    const callers = [call(cluster.addresses.ledger), call(cluster.addresses.notifier)] as const;
    const ledger = createClient(LedgerService, callers[0]);
    const notifier = createClient(NotifierService, callers[1]);
    const tenantId = newId('tenant');
    await steadily(() => notifier.configureWebhook({ tenantId, url: receiver.url, events: ['transaction.posted', 'account.created'] }));
    for (const accountCode of ['a', 'b']) await ledger.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });

    const entries = ['debit', 'credit'].map((side, place) => ({ accountCode: 'ab'.charAt(place), side, amount: '1.00', currency: 'NGN' }));
    const switched = new AbortController();
    const posting = (async () => {
      while (!switched.signal.aborted) {
        const idempotencyKey = newId('txn');
        await steadily(() => ledger.postTransaction({ posting: { tenantId, entries, idempotencyKey } }));
      }
    })();
    const restart = async (service: string, environment: NodeJS.ProcessEnv) => {
      for (const name of [service, `${service}-2`]) {
        await cluster.kill(name, 'SIGTERM');
        await cluster.restart(name, environment);
      }
    };
    // Of both notifiers, added up.
    const figure = async (name: RegExp) => {
      const texts = await Promise.all(
        ['notifier', 'notifier-2'].map(async (each) => (await fetch(`${cluster.opsUrl(each)}/metrics`)).text()),
      );
      const lines = texts.flatMap((text) => text.split('\n').filter((line) => name.test(line)));
      return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    };
    await restart('notifier', kafka);
    await restart('ledger', kafka);
    await until(async () => (await figure(/^notifier_events_total\{.*"consumed"/)) > 0);
    const back = { KAFKA_BROKERS: '' };
    await restart('ledger', back);
    // The figure is some seconds old: it may be from before the last messages.
    await until(async () => (await uncommitted(brokers, topic, `notifier.${topic}`)) === 0n);
    await until(async () => (await figure(/^notifier_consumer_lag[{ ]/)) === 0);
    await restart('notifier', back);
    switched.abort();
    await posting;

    const expected = new Set<string>();
    for (let after = 0n, more = true; more;) {
      const { events, hasMore } = await steadily(() => ledger.listEvents({ tenantId, afterSequence: after, limit: 100 }));
      for (const { id, type } of events.flatMap(withBalanceEvents)) if (type !== 'balance.updated') expected.add(id);
      [after, more] = [events.at(-1)?.sequence ?? after, hasMore];
    }
    const arrived = () => new Set(receiver.received.map(({ headers }) => String(headers['x-webhook-id'])));
    await until(() => Promise.resolve(arrived().size >= expected.size));
    expect(arrived()).toEqual(expected);
    for (const caller of callers) caller.close();
    await cluster.stop();
    await receiver.close();
  });
});
