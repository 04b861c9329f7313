// `npm run proof -- faults`: clients that repeat until answered, faults in every part of the cluster, and a final check of what is there.
import { kafkaProblem } from '../../../deploy/local/broker.ts';
import { startCluster } from '../../cluster.ts';
import { diskProblem } from '../../disk.ts';
import { newTopic, ownKafka, type OwnKafka } from '../../kafka.ts';
import { startReceiver } from '../../notifier.ts';
import { startOwnPostgres } from '../../own-postgres.ts';
import { LedgerApi } from '../ledger-api.ts';
import { seededRandom } from '../seeded-random.ts';
import { UsageError, type Task } from '../task.ts';
import { Clients, type Customer } from './clients.ts';
import { FaultInjector, type Plan } from './fault-injector.ts';
import { faultsOf } from './fault-list.ts';
import { finalChecks, subscribed } from './final-checks.ts';
import { ClusterProxies, toKafka } from './proxies.ts';
import { TenantOwner } from './tenant-owner.ts';
import { replicas, type Setup, type TestBench } from './test-bench.ts';
import { isProved, report, type Episode, type Verdict } from './verdict.ts';

/** Owners draw from streams after those of the clients and before those of the faults. */
const firstOwnerStream = 500;

/** Runs a proof. Odd seeds publish events over Kafka, where there is one. Throws {@link UsageError} for an unknown fault. */
export async function prove(task: Task): Promise<boolean> {
  const noKafka = kafkaProblem();
  const noDisk = diskProblem();
  const setup = { kafka: task.seed % 2 === 1 && noKafka === null, disk: noDisk === null };
  checkNames(task.faults ?? [], setup);
  task.say(`events travel over ${setup.kafka ? 'Kafka' : 'gRPC'} (odd seeds: Kafka${noKafka === null ? '' : `, but ${noKafka}`})`);
  if (noDisk !== null) task.say(`no full disk: ${noDisk}`);
  const verdict = await injectFaults({ ...task, setup });
  for (const line of report(verdict)) task.say(line);
  return isProved(verdict);
}

function checkNames(wanted: string[], setup: Setup): void {
  const names = faultsOf(setup).map(({ name }) => name);
  const unknown = wanted.find((each) => !names.includes(each));
  if (unknown === undefined) return;
  const over = setup.kafka ? 'Kafka (odd seeds)' : 'gRPC (even seeds)';
  throw new UsageError(`--fault: there is no ${unknown}; over ${over} there are ${names.join(', ')}`);
}

/** Starts a cluster on a PostgreSQL of its own, injects faults and checks the result. */
export async function injectFaults(plan: Plan): Promise<Verdict> {
  const undo: (() => Promise<unknown>)[] = [];
  const [outcome] = await Promise.allSettled([run(plan, undo)]);
  // Undoes everything, also where a step fails, and reports what failed first.
  const undone: PromiseSettledResult<unknown>[] = [];
  for (const each of undo.reverse()) undone.push(...(await Promise.allSettled([each()])));
  for (const each of [outcome, ...undone]) if (each.status === 'rejected') throw each.reason;
  return (outcome as PromiseFulfilledResult<Verdict>).value;
}

async function run(plan: Plan, undo: (() => Promise<unknown>)[]): Promise<Verdict> {
  const received = new Set<string>();
  const bench = await setUp(plan, received, undo);
  const api = new LedgerApi(bench.cluster);
  undo.push(() => api.close());
  const clients = new Clients(api, bench.customers, { seed: plan.seed, perTenant: 4 });
  const owners = bench.customers.map(
    ({ tenant }, number) => new TenantOwner(bench.cluster, tenant, seededRandom(plan.seed, firstOwnerStream + number)),
  );
  let episodes: Episode[];
  try {
    episodes = await new FaultInjector(plan, bench, clients, owners).run();
  } finally {
    await Promise.all([clients, ...owners].map((each) => each.end()));
  }
  return { episodes, clients, ...(await finalChecks(bench.cluster, clients, received)) };
}

async function setUp(plan: Plan, received: Set<string>, undo: (() => Promise<unknown>)[]): Promise<TestBench> {
  const receiver = await startReceiver(({ headers }, response) => {
    received.add(String(headers['x-webhook-id']));
    receiver.received.length = 0;
    response.writeHead(204).end();
  });
  undo.push(() => receiver.close());
  const { setup } = plan;
  const postgres = await startOwnPostgres({ ownDisk: setup.disk });
  undo.push(() => postgres.end());
  const proxies = new ClusterProxies();
  undo.push(() => proxies.close());
  let kafka: OwnKafka | null = null;
  if (setup.kafka) {
    const broker = await ownKafka(undefined, (port) => proxies.add(toKafka, port));
    undo.push(() => broker.stop());
    kafka = broker;
  }
  const events = kafka ? { KAFKA_BROKERS: kafka.address, KAFKA_TOPIC: newTopic(), KAFKA_PARTITIONS: '4' } : {};
  const cluster = await startCluster({
    replicas: { ledger: replicas.ledger, notifier: replicas.notifier },
    server: postgres,
    between: (places) => proxies.between(places, !setup.kafka),
    // A delivery whose notifier dies waits for its lease, which ends 15 s after the longest attempt.
    environment: { ledger: events, notifier: { ...events, WEBHOOK_TIMEOUT: '5', WEBHOOK_RETRY_DELAYS: '1,2' } },
  });
  undo.push(() => cluster.stop());
  const customers: Customer[] = [];
  const person = await cluster.signUp();
  for (let count = 0; count < 4; count++) {
    const tenant = await cluster.tenant({ person });
    const key = await cluster.apiKey(tenant);
    for (const [path, body] of [
      ['accounts/setup', { business_type: 'wallet' }],
      ['webhooks', { url: receiver.url, events: subscribed }],
    ] as const) {
      const answer = await cluster.rest('POST', `/v1/tenants/${tenant.slug}/${path}`, { key, body });
      if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    customers.push({ tenant, key });
  }
  return { cluster, postgres, kafka, proxies, customers, stallSeconds: plan.stallSeconds ?? [10, 40] };
}
