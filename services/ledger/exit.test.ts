import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import pg from 'pg';
import { Registry } from 'prom-client';
import { root } from '../../deploy/local/plan.ts';
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { until } from '../../test/notifier.ts';
import { toId, toUuid } from '../platform/ids.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { serve, type Served } from '../platform/serve.ts';
import { openLog } from '../platform/telemetry.ts';
import { createAccount } from './accounts.ts';
import { listEvents } from './events.ts';
import { ingestExit } from './ingest.ts';
import { Relay } from './relay.ts';
import { withUpdates } from './updates.ts';
import { orderOf } from './wire.ts';
import { Writer } from './writer.ts';

const logger = openLog('test', 'silent');
const token = 'token-of-the-test';
const poisoned = 'poison';

let database: FreshDatabase;
let owner: pg.Client;
let pool: Pool;
let relayed: Pool;
let notifier: Served;
let writer: Writer;
let relay: Relay;
let metrics: Registry;
/** What the notifier took, in its order. */
let taken: Event[];
/** How it fails over a call that holds a poisoned event; null: it takes everything. */
let failing: Code | null;

beforeEach(async () => {
  [taken, failing, metrics] = [[], null, new Registry()];
  database = await freshDatabase('ledger', { migrated: true });
  owner = new pg.Client({ connectionString: database.adminUrl });
  await owner.connect();
  pool = openPool(database.serviceUrl, { name: 'test', max: 8, logger });
  relayed = openPool(database.serviceUrl, { name: 'relay', max: 8, logger, settings: { 'app.relay': 'on' } });
  notifier = await serve({
    host: '127.0.0.1',
    port: 0,
    services: [NotifierService],
    routes: (router) =>
      router.service(NotifierService, {
        ingest: ({ events }) => {
          if (failing !== null && events.some(isPoisoned)) throw new ConnectError('over a poisoned event', failing);
          taken.push(...events);
          return {};
        },
        // Everybody listens.
        pass: ({ stretches }) => ({ wantedTenantIds: stretches.map(({ tenantId }) => tenantId) }),
      }),
    tokens: [token],
    maxMessageBytes: 32 << 20,
    logger,
    metrics: new Registry(),
    readiness: () => Promise.resolve({ ready: true, dependencies: {} }),
  });
  relay = new Relay({ pool: relayed, exit: ingestExit([`127.0.0.1:${notifier.port}`], token, 32 << 20), pollMs: 50, logger, metrics });
  const bounds = { waiting: 8_000, waitingBytes: 64e6, items: 64, entries: 2_000, bytes: 2e6 };
  const committed = (tenant: string) => relay.wake(tenant);
  writer = new Writer({ pool, lanes: 1, waiters: 1, bounds, rememberedAccounts: 1000, committed, logger, metrics });
});

afterEach(async () => {
  failing = null;
  await writer.close();
  await relay.close();
  await notifier.close();
  await Promise.all([relayed.end(), pool.end(), owner.end()]);
  await database.drop();
});

const isPoisoned = ({ data }: Event) => data.case === 'transactionPosted' && data.value.description === poisoned;

async function newTenant(): Promise<string> {
  const tenant = randomUUID();
  const unspecified = { normalBalance: null, currency: null, parentCode: null, isGroup: false, description: undefined, metadata: '{}' };
  for (const code of ['a', 'b']) {
    await createAccount(
      pool,
      tenant,
      { code, name: code, type: 'asset', allowNegative: true, ...unspecified },
      { actor: 'test', requestId: 'test' },
    );
  }
  return tenant;
}

async function post(tenant: string, description = ''): Promise<void> {
  const entries = ['debit', 'credit'].map((side, place) => ({ accountCode: 'ab'[place] ?? '', side, amount: '1.00', currency: 'NGN' }));
  const outcome = await writer.post(orderOf(create(PostingSchema, { tenantId: toId('tenant', tenant), entries, description })));
  if ('refusal' in outcome) throw outcome.refusal;
}

const idsOf = (events: Event[]) => events.map(({ id }) => id);
const logOf = async (tenant: string) => (await listEvents(pool, tenant, 0n, 1_000)).events.flatMap(withUpdates);
const first = (tenant: string) => [...new Set(idsOf(taken.filter(({ tenantId }) => tenantId === toId('tenant', tenant))))];
const letters = async () => (await owner.query(`select event_id, reason, published_at from relay_dead_letters`)).rows;
const metric = async (name: string) => (await metrics.getSingleMetric(name)?.get())?.values[0]?.value ?? 0;

/** Resolves when everything of these tenants that is not left out has been taken, in order; fails if the order is another. */
async function allTaken(tenant: string, without: Event[] = []): Promise<void> {
  const expected = idsOf((await logOf(tenant)).filter(({ id }) => !idsOf(without).includes(id)));
  await until(() => Promise.resolve(first(tenant).length >= expected.length));
  expect(first(tenant)).toEqual(expected);
}

const mark = async (tenant: string) =>
  (await owner.query(`select sequence from relay_marks where tenant_id = $1`, [tenant])).rows[0]?.sequence;

test('an event that the notifier refuses becomes a dead letter, the rest goes on, and a redrive publishes it', async () => {
  failing = Code.InvalidArgument;
  const [sick, well] = [await newTenant(), await newTenant()];
  await Promise.all([post(sick), post(well), post(sick, poisoned), post(sick), post(well)]);
  await until(async () => (await letters()).length > 0);
  const refused = (await logOf(sick)).filter(isPoisoned);
  await allTaken(well);
  await allTaken(sick, refused);
  await until(async () => (await letters()).length === 1 && (await metric('ledger_relay_dead_letters')) === 1);
  const [letter] = await letters();
  expect(letter).toEqual({
    event_id: toUuid('evt', refused[0]?.id ?? ''),
    reason: '[invalid_argument] over a poisoned event',
    published_at: null,
  });
  expect(relay.state()).toEqual({ notifier: 'ok' });

  failing = null;
  const env = { PATH: process.env['PATH'], DATABASE_URL: database.serviceUrl, MIGRATION_DATABASE_URL: database.ownerUrl };
  const cli = spawnSync(process.execPath, ['services/ledger/cli.ts', 'redrive'], { cwd: root, env, encoding: 'utf8' });
  expect(cli.stdout).toMatch(/^tenant_.* transaction.posted: \[invalid_argument\] over a poisoned event\n1 dead letters are due/);
  await until(async () => (await letters())[0]?.published_at);
  expect(first(sick).at(-1)).toBe(refused[0]?.id);
});

test.each([
  ['INTERNAL', Code.Internal],
  ['UNKNOWN', Code.Unknown],
  ['DATA_LOSS', Code.DataLoss],
])('a notifier that fails over one tenant’s event with %s is asked again, and takes the others’ meanwhile', async (_, code) => {
  failing = code;
  const [sick, well] = [await newTenant(), await newTenant()];
  await Promise.all([post(well), post(sick, poisoned), post(sick), post(well)]);
  await allTaken(well);
  await post(well);
  await allTaken(well);
  // The mark stays where it is until the event is taken: nothing overtakes, nothing is given up.
  const stuck = (await logOf(sick)).find(isPoisoned);
  expect((await mark(sick)) < (stuck?.sequence ?? 0n)).toBe(true);
  expect(idsOf(taken)).not.toContain(stuck?.id);
  expect(await letters()).toEqual([]);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  failing = null;
  await allTaken(sick);
  expect(await letters()).toEqual([]);
});
