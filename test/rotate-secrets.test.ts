// Migrations of a later version, and every secret is rotated as the page says, in rolling restarts under load: clients notice nothing.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { createClient } from '@connectrpc/connect';
import { jest } from '@jest/globals';
import { withClient } from '../deploy/local/databases.ts';
import { root, services } from '../deploy/local/plan.ts';
import { newEncryptionKey, newPassword, newSigningKey } from '../deploy/local/secrets.ts';
import { IdentityService } from '../proto/gen/identity/v1/identity_pb.js';
import { openCaller } from '../services/platform/caller.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { underLoad } from './load.ts';
import { bareEnvironment } from './run.ts';
import { processes, startRolling, type Change, type Rolling } from './rolling.ts';
import { codeOf } from './second-factor.ts';

jest.setTimeout(400_000);

/** The settings of one secret of each kind. */
interface Secrets {
  token: string;
  jwt: string;
  checkpoint: string;
  identity: string;
  subject: string;
  webhook: string;
}

const encryptionKey = (id: string) => newEncryptionKey().replace(/^[^:]*/, id);
const newSecrets = (id: string): Secrets => ({
  token: newPassword(),
  jwt: newSigningKey(),
  checkpoint: newSigningKey(),
  identity: encryptionKey(id),
  subject: encryptionKey(id),
  webhook: encryptionKey(id),
});
const [old, next] = [newSecrets('old'), newSecrets('next')];

type Process = (typeof processes)[number];

/** The variables of each process; the first of the secrets is the one in use. `encryption`: those that decrypt, where they are more. */
function environmentOf(secrets: Secrets[], encryption = secrets): Record<Process, NodeJS.ProcessEnv> {
  const INTERNAL_TOKEN = secrets.map(({ token }) => token).join();
  return {
    identity: {
      INTERNAL_TOKEN,
      JWT_PRIVATE_KEY: secrets.map(({ jwt }) => jwt).join(''),
      IDENTITY_ENCRYPTION_KEY: encryption.map(({ identity }) => identity).join(),
      SUBJECT_ENCRYPTION_KEY: encryption.map(({ subject }) => subject).join(),
    },
    ledger: { INTERNAL_TOKEN },
    notifier: { INTERNAL_TOKEN, WEBHOOK_ENCRYPTION_KEY: encryption.map(({ webhook }) => webhook).join() },
    auditor: { INTERNAL_TOKEN, CHECKPOINT_SECONDS: '0.2', CHECKPOINT_PRIVATE_KEY: encryption.map(({ checkpoint }) => checkpoint).join('') },
    // On a busy machine the clients, which share a process, may rest for longer than the default.
    gateway: { INTERNAL_TOKEN, IDLE_CLOSE_SECONDS: '6' },
  };
}

let rolling: Rolling;

beforeAll(async () => {
  rolling = await startRolling({ environment: environmentOf([old]) });
});

afterAll(() => rolling.stop());

/** Restarts one replica of all processes, then the other: as `kubectl rollout restart` does with all Deployments. */
async function restartAll(changes: Record<Process, NodeJS.ProcessEnv>): Promise<void> {
  for (const suffix of ['', '-2']) {
    const restarts = processes.map((name) => rolling.restart(`${name}${suffix}`, { environment: changes[name] } satisfies Change));
    await Promise.all(restarts);
  }
}

const names = new Map<string, string>();

/** Gives each service a new role with a new password by `migrate`; returns the variables with it. */
async function newRoles(id: string): Promise<Record<'identity' | 'ledger' | 'notifier' | 'auditor', NodeJS.ProcessEnv>> {
  const suffix = randomBytes(4).toString('hex');
  const urlOf = (service: string, url: string) => {
    const renamed = new URL(url);
    [renamed.username, renamed.password] = [`${service}_${id}_${suffix}`, newPassword()];
    names.set(`${service} ${id}`, renamed.username);
    return renamed.href;
  };
  const { databases } = rolling.cluster;
  const urls = {
    identity: urlOf('identity', databases.identity.serviceUrl),
    ledger: urlOf('ledger', databases.ledger.serviceUrl),
    notifier: urlOf('notifier', databases.notifier.serviceUrl),
    auditor: urlOf('auditor', databases.ledger.auditorUrl ?? ''),
  };
  for (const service of ['identity', 'ledger', 'notifier'] as const) {
    const env = {
      ...bareEnvironment,
      MIGRATION_DATABASE_URL: databases[service].ownerUrl,
      DATABASE_URL: urls[service],
      ...(service === 'ledger' && { AUDITOR_DATABASE_URL: urls.auditor }),
    };
    await promisify(execFile)(process.execPath, [`services/${service}/main.ts`, 'migrate'], { cwd: root, env });
  }
  return {
    identity: { DATABASE_URL: urls.identity },
    ledger: { DATABASE_URL: urls.ledger },
    notifier: { DATABASE_URL: urls.notifier },
    auditor: { DATABASE_URL: urls.auditor },
  };
}

/** Drops the roles of an earlier step, as the page says. */
async function dropRoles(id: string): Promise<void> {
  const { databases } = rolling.cluster;
  for (const service of ['identity', 'ledger', 'notifier', 'auditor'] as const) {
    const { adminUrl } = databases[service === 'auditor' ? 'ledger' : service];
    const name = names.get(`${service} ${id}`) ?? '';
    await withClient(adminUrl, (client) => client.query(`drop owned by "${name}"; drop role "${name}"`));
  }
}

const merged = (
  secrets: Record<Process, NodeJS.ProcessEnv>,
  roles: Awaited<ReturnType<typeof newRoles>>,
): Record<Process, NodeJS.ProcessEnv> => ({
  identity: { ...secrets.identity, ...roles.identity },
  ledger: { ...secrets.ledger, ...roles.ledger },
  notifier: { ...secrets.notifier, ...roles.notifier },
  auditor: { ...secrets.auditor, ...roles.auditor },
  gateway: secrets.gateway,
});

/** What migrations of a later version do: a column more in every table, and a name in the list of migrations. */
async function migrateFurther(): Promise<void> {
  for (const service of services) {
    await withClient(rolling.cluster.databases[service].ownerUrl, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        `select quote_ident(tablename) as name from pg_tables where schemaname = 'public' and tablename <> 'mikro_orm_migrations'`,
      );
      for (const { name } of rows) await client.query(`alter table ${name} add column of_a_later_version text`);
      await client.query(`insert into mikro_orm_migrations (name, executed_at) values ('9999-later', now())`);
    });
  }
}

/** Posts with data of a subject; returns the path of the transaction. */
async function postPersonal({ post, at }: Customer, subject: string): Promise<string> {
  const personal = [{ subject, data: { name: 'Ada Lovelace' } }];
  const { body } = await post('transactions/double-entry', deposit('1.00', { idempotency_key: subject, personal }));
  return at(`transactions/${body.data.transaction.transaction_id}`);
}

test('migrations run and every secret is rotated in three rolling restarts under load, and no client gets an error', async () => {
  const { cluster, url } = rolling;
  const customer = await newWallet({ ...cluster, url });
  const { owner } = customer.tenant;
  const oldSession = owner.token;
  const personal = await postPersonal(customer, 'customer-old');
  const factor = (await cluster.rest('POST', '/v1/auth/totp', { key: oldSession, body: { password: owner.password } })).body.data;
  const { secret } = factor.totp ?? factor;
  await cluster.rest('POST', '/v1/auth/totp/confirm', { key: oldSession, body: { code: codeOf(secret) } });
  const [{ vkey: oldKey }] = (await customer.get('tlog/keys')).keys;

  const work = async () => {
    await migrateFurther();
    // Appended, so that every process accepts them; moved to the front, so that they are used; the old ones removed.
    await restartAll(merged(environmentOf([old, next]), await newRoles('one')));
    await restartAll(merged(environmentOf([next, old]), await newRoles('two')));
    await dropRoles('one');
    await restartAll(environmentOf([next], [next, old]));
  };
  const { faults, answers } = await underLoad(url, work, { tenants: 2 });
  expect(faults).toEqual([]);
  expect(Math.min(...['posting', 'batch', 'hold', 'login', 'user'].map((kind) => answers[kind] ?? 0))).toBeGreaterThan(5);

  expect(await tokenResult(old.token)).toBe('unauthenticated');
  expect(await tokenResult(next.token)).toBe('accepted');
  // What the old key has signed is refused now; a login with the second factor, encrypted under the old key, works.
  expect((await cluster.rest('GET', '/v1/user', { key: oldSession })).status).toBe(401);
  const { email, password } = owner;
  const login = await cluster.rest('POST', '/v1/auth/login', { body: { email, password, totp_code: codeOf(secret, 1) } });
  expect(login.status).toBe(200);
  expect((await cluster.rest('GET', '/v1/user', { key: login.body.data.token })).status).toBe(200);
  const stored = await withClient(cluster.databases.identity.adminUrl, (client) =>
    client.query<{ id: string }>(`select split_part(totp_secret, ':', 1) as id from users where totp_secret is not null`),
  );
  expect(stored.rows).toEqual([{ id: 'next' }]);
  for (const path of [personal, await postPersonal(customer, 'customer-next')]) {
    const { body } = await cluster.rest('GET', path, { key: customer.key });
    expect(body.data.transaction.personal).toMatchObject([{ data: { name: 'Ada Lovelace' } }]);
  }
  const { keys } = await customer.get('tlog/keys');
  expect(keys).toMatchObject([{ retired_at: null }, { vkey: oldKey, retired_at: expect.any(String) }]);
  expect(keys[0].vkey).not.toBe(oldKey);
});

/** What identity answers to a call with a token. */
async function tokenResult(token: string): Promise<string> {
  const caller = openCaller({ addresses: rolling.cluster.addresses.identity, token, maxMessageBytes: 1e6 });
  try {
    await createClient(IdentityService, caller).verifyApiKey({ key: 'none' });
    return 'accepted';
  } catch (error) {
    return String(error).includes('unauthenticated') ? 'unauthenticated' : String(error);
  } finally {
    caller.close();
  }
}
