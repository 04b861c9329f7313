// The processes of a deployment and their environment, for `npm start` and for tests.
import { resolve } from 'node:path';
import { hostAndPort } from '../../services/platform/settings.ts';
import type { ChildOptions } from './children.ts';
import type { ServiceDatabase } from './databases.ts';
import type { Keys } from './secrets.ts';

/** Services with a database each. */
export const services = ['identity', 'ledger', 'notifier'] as const;

export type Service = (typeof services)[number];

/** Processes with a gRPC address, in the order in which they are started. The auditor reads the ledger's database. */
export const servers = [...services, 'auditor'] as const;

export type Server = (typeof servers)[number];

/** The root of the source tree, where every process runs. */
export const root = resolve(import.meta.dirname, '..', '..');

/** What all processes of a deployment share. */
export interface DeploymentPlan extends Keys {
  /** Where each process listens, `host:port`; several addresses are several replicas. */
  addresses: Record<Server, string[]>;
  databases: Record<Service, ServiceDatabase>;
  /** Where checkpoints are kept as files, unless the environment says. */
  checkpointDirectory: string;
  /** Where mails are written as files, unless the environment says. */
  mailDirectory: string;
  /** The gateway's address for people, unless the environment says. */
  publicUrl: string;
  /** Whether webhooks may go to http and private addresses, unless the environment says. */
  insecureTargets: boolean;
  /** More variables of every process, for example `LOG_LEVEL`. */
  environment: NodeJS.ProcessEnv;
}

/** Brings a service's schema up to date and exits. */
export function migrateChild(service: Service, plan: DeploymentPlan): ChildOptions {
  const { ownerUrl, serviceUrl, auditorUrl } = plan.databases[service];
  const environment = {
    ...plan.environment,
    MIGRATION_DATABASE_URL: ownerUrl,
    DATABASE_URL: serviceUrl,
    ...(auditorUrl !== undefined && { AUDITOR_DATABASE_URL: auditorUrl }),
  };
  return nodeChild(`${service}-migrate`, [`services/${service}/main.ts`, 'migrate'], environment);
}

/** Lets all features of the ledger be used and exits. Every process of this deployment is of one version, so nothing has to wait for another. */
export function enableChild({ environment, databases: { ledger } }: DeploymentPlan): ChildOptions {
  const own = { ...environment, MIGRATION_DATABASE_URL: ledger.ownerUrl };
  return nodeChild('ledger-enable', ['services/ledger/cli.ts', 'enable', 'payments', 'books', 'proof'], own);
}

/** One replica of a process. The first is named after it, the next ones `ledger-2` and so on. */
export function serviceChild(service: Server, replica: number, plan: DeploymentPlan): ChildOptions {
  const { host, port } = hostAndPort(plan.addresses[service][replica] ?? '');
  const { ledger } = plan.databases;
  const [main, databaseUrl] =
    service === 'auditor'
      ? ['services/ledger/auditor.ts', ledger.auditorUrl]
      : [`services/${service}/main.ts`, plan.databases[service].serviceUrl];
  return nodeChild(replica === 0 ? service : `${service}-${replica + 1}`, [main], {
    ...plan.environment,
    HOST: host,
    PORT: String(port),
    DATABASE_URL: databaseUrl,
    INTERNAL_TOKEN: plan.internalToken,
    ...(service === 'identity' && {
      JWT_PRIVATE_KEY: plan.jwtPrivateKey,
      LEDGER_ADDR: plan.addresses.ledger.join(','),
      IDENTITY_ENCRYPTION_KEY: plan.identityEncryptionKey,
      SUBJECT_ENCRYPTION_KEY: plan.subjectEncryptionKey,
      ...unlessSet(plan, 'MAIL_DIR', plan.mailDirectory),
      ...unlessSet(plan, 'PUBLIC_URL', plan.publicUrl),
    }),
    ...(service === 'auditor' && {
      CHECKPOINT_PRIVATE_KEY: plan.checkpointPrivateKey,
      ...unlessSet(plan, 'PROOF_ORIGIN', 'localhost'),
      ...unlessSet(plan, 'CHECKPOINT_DIR', plan.checkpointDirectory),
    }),
    ...((service === 'identity' || service === 'ledger') && { NOTIFIER_ADDR: plan.addresses.notifier.join(',') }),
    ...(service === 'notifier' && {
      WEBHOOK_ENCRYPTION_KEY: plan.webhookEncryptionKey,
      ...unlessSet(plan, 'WEBHOOK_ALLOW_INSECURE_TARGETS', String(plan.insecureTargets)),
    }),
  });
}

/** The gateway. */
export function gatewayChild(host: string, port: number, plan: DeploymentPlan): ChildOptions {
  const addresses = Object.fromEntries(servers.map((service) => [`${service.toUpperCase()}_ADDR`, plan.addresses[service].join(',')]));
  const environment = {
    ...plan.environment,
    HOST: host,
    PORT: String(port),
    INTERNAL_TOKEN: plan.internalToken,
    ...addresses,
    ...unlessSet(plan, 'PUBLIC_URL', plan.publicUrl),
  };
  return nodeChild('gateway', ['gateway/main.ts'], environment);
}

function unlessSet({ environment }: DeploymentPlan, name: string, value: string): NodeJS.ProcessEnv {
  return environment[name] || environment[`${name}_FILE`] ? {} : { [name]: value };
}

function nodeChild(name: string, args: string[], environment: NodeJS.ProcessEnv): ChildOptions {
  const env = { NODE_COMPILE_CACHE: compileCache, MALLOC_ARENA_MAX: arenas, ...environment };
  return { name, command: process.execPath, args: [youngHeap, ...args], cwd: root, env };
}

/** Cache of compiled code: faster starts and 20 MiB less per process. */
export const compileCache = resolve(root, 'node_modules/.cache/compiled');

// Without a limit the young generation grows under load far beyond the live data.
const youngHeap = '--max-semi-space-size=16';

// With an arena per thread glibc keeps up to 50 MiB of freed memory in a busy gateway.
const arenas = '2';

/** The gateway's URL for clients on this machine. */
export function localUrl(host: string, port: number): string {
  const isLocal = ['0.0.0.0', '::', 'localhost'].includes(host);
  return `http://${isLocal ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host}:${port}`;
}
