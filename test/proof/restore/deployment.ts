// The deployment that is restored: tenants with webhooks, and what identity knows of them before and after the moment.
import { spawnSync } from 'node:child_process';
import { root } from '../../../deploy/local/plan.ts';
import { startCluster, type Answer, type Cluster, type Tenant } from '../../cluster.ts';
import { newTopic } from '../../kafka.ts';
import { startReceiver, type Receiver } from '../../notifier.ts';
import { bareEnvironment } from '../../run.ts';

/** In the order in which they are started. */
export const processes = ['identity', 'notifier', 'ledger', 'auditor', 'gateway'] as const;
const withDatabase = ['identity', 'ledger', 'notifier'] as const;

/** A tenant that posts. */
export interface Poster {
  tenant: Tenant;
  slug: string;
  key: string;
}

/** A running deployment with its receiver. */
export class Deployment {
  readonly cluster: Cluster;
  readonly receiver: Receiver;

  /** Whether events travel over Kafka. */
  readonly hasTopic: boolean;

  private constructor(cluster: Cluster, receiver: Receiver, hasTopic: boolean) {
    [this.cluster, this.receiver, this.hasTopic] = [cluster, receiver, hasTopic];
  }

  /** Starts it on a server, by a superuser's address; `brokers` of Kafka, if events travel over it. */
  static async start(adminUrl: string, brokers: string | undefined): Promise<Deployment> {
    const receiver = await startReceiver();
    const events = brokers === undefined ? {} : { KAFKA_BROKERS: brokers, ...onNewTopic() };
    // A checkpoint soon after each posting, so that some are signed after the moment.
    const environment = { auditor: { CHECKPOINT_SECONDS: '0.5' }, ledger: events, notifier: { ...events, WEBHOOK_RETRY_DELAYS: '1,2' } };
    const cluster = await startCluster({ server: { adminUrl }, environment });
    return new Deployment(cluster, receiver, brokers !== undefined);
  }

  /** A tenant with a chart, a webhook and a key of all scopes. */
  async tenant(): Promise<Poster> {
    const tenant = await this.cluster.tenant();
    const made = { tenant, slug: tenant.slug, key: await this.cluster.apiKey(tenant) };
    await this.call(made, 'POST', 'accounts/setup', { business_type: 'wallet' });
    await this.call(made, 'POST', 'webhooks', { url: this.receiver.url, events: ['transaction.posted'] });
    return made;
  }

  /** Calls a path of a tenant; throws unless it succeeds. */
  async call(poster: Poster, method: string, path: string, body?: unknown): Promise<any> {
    const answer = await this.ask(poster, method, path, body);
    if (answer.status > 202) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  }

  ask({ slug, key }: Poster, method: string, path: string, body?: unknown): Promise<Answer> {
    return this.cluster.rest(method, `/v1/tenants/${slug}/${path}`, { key, ...(body !== undefined && { body }) });
  }

  /** Sends a posting, also one that was sent before. */
  post(poster: Poster, body: object): Promise<Answer> {
    return this.ask(poster, 'POST', 'transactions/double-entry', body);
  }

  /** Runs an operator's command; its output and status. */
  ledger(...args: string[]): { output: string; status: number | null } {
    return run(['services/ledger/cli.ts', ...args], { MIGRATION_DATABASE_URL: this.cluster.databases.ledger.ownerUrl });
  }

  async stop(): Promise<void> {
    for (const name of [...processes].reverse()) await this.cluster.kill(name, 'SIGTERM');
  }

  /** Migrates as after a restore; what went wrong. */
  migrate(): string[] {
    return withDatabase.flatMap((service) => {
      const { serviceUrl, ownerUrl, auditorUrl } = this.cluster.databases[service];
      const urls = {
        DATABASE_URL: serviceUrl,
        MIGRATION_DATABASE_URL: ownerUrl,
        ...(auditorUrl !== undefined && { AUDITOR_DATABASE_URL: auditorUrl }),
      };
      const { output, status } = run([`services/${service}/main.ts`, 'migrate'], urls);
      return status === 0 ? [] : [`${service}: ${output}`];
    });
  }

  /** Starts all, with a new topic. */
  async restart(): Promise<void> {
    const events = this.hasTopic ? onNewTopic() : {};
    await Promise.all(processes.map((name) => this.cluster.restart(name, name === 'ledger' || name === 'notifier' ? events : {})));
  }

  async end(): Promise<void> {
    await this.cluster.stop();
    await this.receiver.close();
  }
}

const onNewTopic = () => ({ KAFKA_TOPIC: newTopic(), KAFKA_PARTITIONS: '4' });

function run(args: string[], environment: NodeJS.ProcessEnv): { output: string; status: number | null } {
  const { stdout, stderr, status } = spawnSync(process.execPath, args, {
    cwd: root,
    env: { ...bareEnvironment, ...environment },
    encoding: 'utf8',
  });
  return { output: stdout + stderr, status };
}
