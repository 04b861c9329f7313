// One identity service as a process of its own, on a database of its own, for the tests of its rules.
import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, type Client } from '@connectrpc/connect';
import pg from 'pg';
import { Children, type Child } from '../deploy/local/children.ts';
import { root } from '../deploy/local/plan.ts';
import { newEncryptionKey, newSigningKey } from '../deploy/local/secrets.ts';
import { IdentityService, type User } from '../proto/gen/identity/v1/identity_pb.js';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../proto/gen/grpc/health/v1/health_pb.js';
import { openCaller, refusalOf, type Caller } from '../services/platform/caller.ts';
import type { RefusalInfo } from '../services/platform/errors.ts';
import { withLongDeadline } from './polling.ts';
import { mailsIn, type Mail } from './mails.ts';
import { freshDatabase, testPort, type FreshDatabase } from './cluster.ts';
import { bareEnvironment, currentRun } from './run.ts';

export type IdentityClient = Client<typeof IdentityService>;

/** A running service. */
export interface RunningIdentity {
  client: IdentityClient;
  child: Child;
  /** The value of a line of `/metrics`, 0 where there is none. */
  metric(name: string): Promise<number>;
  mailDirectory: string;
  /** The mails to an address, oldest first. Waits until there are as many as `count`, one by default. */
  mails(email: string, count?: number): Promise<Mail[]>;
  /** What `/readyz` answers. */
  ready(): Promise<Response>;
  end(): Promise<void>;
}

const token = 'token-of-the-test';
export const signingKey = newSigningKey();
export const encryptionKey = newEncryptionKey();

/** Starts the service's process with these variables alone and does not wait for anything. */
export function launchIdentity(env: NodeJS.ProcessEnv, args: string[] = []): { child: Child; end: () => Promise<void> } {
  const directory = join(currentRun().directory, `identity-${randomBytes(4).toString('hex')}`);
  const children = new Children(directory, join(directory, 'processes.json'));
  const child = children.start({
    name: 'identity',
    command: process.execPath,
    args: ['services/identity/main.ts', ...args],
    cwd: root,
    env: { ...bareEnvironment, ...env },
  });
  return {
    child,
    end: async () => {
      await children.end();
    },
  };
}

/** Starts a service on a migrated database and waits until it answers. */
export async function startIdentity(databaseUrl: string, env: NodeJS.ProcessEnv = {}): Promise<RunningIdentity> {
  const [port, ops] = [await testPort(), await testPort()];
  const mailDirectory = mkdtempSync(join(currentRun().directory, 'mail-'));
  const { child, end } = launchIdentity({
    MAIL_DIR: mailDirectory,
    DATABASE_URL: databaseUrl,
    INTERNAL_TOKEN: token,
    JWT_PRIVATE_KEY: signingKey,
    IDENTITY_ENCRYPTION_KEY: encryptionKey,
    SUBJECT_ENCRYPTION_KEY: encryptionKey,
    PORT: String(port),
    OPS_PORT: String(ops),
    ...env,
  });
  const caller = openCaller({ addresses: [`127.0.0.1:${port}`], token, maxMessageBytes: 1 << 20 });
  await answering(caller, child);
  return {
    client: createClient(IdentityService, withLongDeadline(caller)),
    child,
    async metric(name) {
      const text = await (await fetch(`http://127.0.0.1:${ops}/metrics`)).text();
      return Number(
        text
          .split('\n')
          .find((line) => line.startsWith(name))
          ?.split(' ')
          .at(-1) ?? 0,
      );
    },
    mailDirectory,
    mails: (email, count) => mailsIn(mailDirectory, email, count),
    ready: () => fetch(`http://127.0.0.1:${ops}/readyz`),
    async end() {
      caller.close();
      await end();
    },
  };
}

async function answering(caller: Caller, child: Child): Promise<void> {
  const health = createClient(Health, withLongDeadline(caller));
  while (child.running()) {
    const answer = await health.check({}).catch(() => undefined);
    if (answer?.status === Serving.SERVING) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`identity did not start: ${child.output()}`);
}

/** A service, its database, and a connection to that database that sees all rows. */
export interface OwnIdentity {
  identity: RunningIdentity;
  client: IdentityClient;
  database: FreshDatabase;
  admin: pg.Client;
}

/** Starts a service on a database of its own before the tests of a file, which `ready` then gets, and ends it after them. */
export function useIdentity(ready: (own: OwnIdentity) => unknown, env: () => NodeJS.ProcessEnv = () => ({})): void {
  let own: OwnIdentity;
  beforeAll(async () => {
    const database = await freshDatabase('identity', { migrated: true });
    const identity = await startIdentity(database.serviceUrl, env());
    const admin = new pg.Client({ connectionString: database.adminUrl });
    await admin.connect();
    own = { identity, client: identity.client, database, admin };
    ready(own);
  });
  afterAll(async () => {
    await own.admin.end();
    await own.identity.end();
    await own.database.drop();
  });
}

/** What a call is refused for; throws where it is not. */
export async function refusal(call: Promise<unknown>): Promise<RefusalInfo> {
  const error = await call.then(
    () => new Error('the call was answered'),
    (thrown: unknown) => thrown,
  );
  const info = refusalOf(error);
  if (!info) throw error;
  return info;
}

export const password = 'correct horse battery';

/** A new email address. */
export function newEmail(): string {
  return `ada.${randomBytes(6).toString('hex')}@example.com`;
}

/** A new slug. */
export function newSlug(): string {
  return `books-${randomBytes(6).toString('hex')}`;
}

/** Registers a new user. */
export async function newUser(client: IdentityClient): Promise<User> {
  const { user } = await client.register({ email: newEmail(), password, firstName: 'Ada', lastName: 'Lovelace' });
  return user!;
}

/** A tenant of this user, new. */
export async function newTenant(client: IdentityClient, userId: string): Promise<string> {
  const { tenant } = await client.createTenant({ userId, name: 'Books', slug: newSlug(), businessType: 'wallet' });
  return tenant!.id;
}
