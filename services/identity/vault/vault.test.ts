// The vault: what is sealed opens for its tenant, transaction and subject alone, and an erasure is finished whatever fails on its way.
import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { withClient } from '../../../deploy/local/databases.ts';
import { newEncryptionKey } from '../../../deploy/local/secrets.ts';
import { freshDatabase, type FreshDatabase } from '../../../test/cluster.ts';
import { newTenant, newUser, startIdentity, type RunningIdentity } from '../../../test/identity.ts';
import { startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { newId, toId, toUuid } from '../../platform/ids.ts';
import { openPool, type Pool } from '../../platform/postgres.ts';
import { SecretEncryption } from '../../platform/secret-encryption.ts';
import { Settings } from '../../platform/settings.ts';
import { openLog } from '../../platform/telemetry.ts';
import { Erasures, type ErasingLedger } from './erasures.ts';
import { Vault, type SealedItem } from './vault.ts';

let database: FreshDatabase;
let identity: RunningIdentity;
let ledger: RunningLedger;
let pool: Pool;
let userId: string;
const key = newEncryptionKey();
const logger = pino({ level: 'silent' });

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  // It has the job as well, and reaches no ledger.
  identity = await startIdentity(database.serviceUrl, { LEDGER_ADDR: '127.0.0.1:1' });
  ledger = await startLedger();
  pool = openPool(database.serviceUrl, { name: 'test', max: 8, logger: openLog('test', 'silent') });
  userId = (await newUser(identity.client)).id;
});
const started: Erasures[] = [];
afterAll(async () => {
  await Promise.all(started.map((each) => each.stop()));
  await pool.end();
  await Promise.all([ledger.end(), identity.end()]);
  await database.drop();
});

const vaultWith = (...keys: string[]) =>
  new Vault(pool, new SecretEncryption('KEYS', new Settings({ KEYS: keys.join(',') }).encryptionKeys('KEYS')), logger);
const tenantOf = async () => toUuid('tenant', await newTenant(identity.client, userId))!;
const context = { reason: 'asked for', actor: 'key', requestId: 'request' };
const personal = (subject: string, transactionId = newId('txn')) => ({ subject, data: `{"name":"${subject}"}`, transactionId });

test('what is sealed opens for its own tenant, transaction and subject, and with no bit changed', async () => {
  const vault = vaultWith(key);
  const [tenant, other] = [await tenantOf(), await tenantOf()];
  const all = [personal('ada'), personal('ben'), personal('ada')];
  const sealed = await vault.seal(tenant, all);
  const items = sealed.map((each, index) => ({ ...each, transactionId: all[index]!.transactionId }));
  expect(sealed[0]!.subject).toBe(sealed[2]!.subject);
  expect(sealed[0]!.nonce).not.toEqual(sealed[2]!.nonce);
  const [first, second] = items as [(typeof items)[number], (typeof items)[number]];
  expect(await vault.open(tenant, items, false)).toEqual(all.map(({ subject, data }) => ({ state: 'open', personal: { subject, data } })));
  const changed = (bytes: Uint8Array, at: number) => Uint8Array.from(bytes, (byte, index) => (index === at ? byte ^ 1 : byte));
  const foreign: (SealedItem & { transactionId: string })[] = [
    { ...first, transactionId: second.transactionId },
    { ...first, subject: second.subject },
    { ...first, nonce: changed(first.nonce, 0) },
    { ...first, nonce: first.nonce.subarray(1) },
    { ...first, ciphertext: first.ciphertext.subarray(0, 3) },
    ...Array.from(first.ciphertext, (_, at) => ({ ...first, ciphertext: changed(first.ciphertext, at) })),
  ];
  expect(new Set((await vault.open(tenant, foreign, false)).map(({ state }) => state))).toEqual(new Set(['sealed']));
  expect((await vault.open(tenant, items, true)).map(({ state }) => state)).toEqual(['sealed', 'sealed', 'sealed']);
  await vault.seal(other, [personal('ada')]);
  expect((await vault.open(other, items, false)).map(({ state }) => state)).toEqual(['sealed', 'sealed', 'sealed']);
  await expect(vault.seal(toUuid('tenant', newId('tenant'))!, [personal('ada')])).rejects.toMatchObject({ reason: 'tenant_not_found' });
});

test('replicas that meet a name at once make one subject, and it is found under a new key too', async () => {
  const tenant = await tenantOf();
  const names = Array.from({ length: 5 }, () => randomBytes(8).toString('hex'));
  const vaults = [vaultWith(key), vaultWith(key), vaultWith(key)];
  const calls = vaults.flatMap((vault) =>
    [names, [...names].reverse()].map((each) =>
      vault.seal(
        tenant,
        each.map((name) => personal(name)),
      ),
    ),
  );
  const made = (await Promise.all(calls)).map((items, call) => (call % 2 === 0 ? items : items.reverse()).map(({ subject }) => subject));
  expect(new Set(made.map(String)).size).toBe(1);
  const newKey = newEncryptionKey();
  const rotated = vaultWith(newKey, key);
  expect(await rotated.find(tenant, names[0]!)).toBe(made[0]![0]);
  const newest = personal('made with the new key');
  const [item] = await rotated.seal(tenant, [newest]);
  await expect(vaultWith(key).find(tenant, 'made with the new key')).resolves.toEqual(expect.any(String));
  await expect(vaultWith(key).seal(tenant, [personal('made with the new key')])).rejects.toThrow(
    `encrypted with key ${newKey.split(':')[0]}, which KEYS does not name`,
  );
  // Without its key it stays sealed, and what stands next to it opens.
  const known = personal(names[0]!);
  const [other] = await rotated.seal(tenant, [known]);
  const items = [
    { ...item!, transactionId: newest.transactionId },
    { ...other!, transactionId: known.transactionId },
  ];
  expect((await vaultWith(key).open(tenant, items, false)).map(({ state }) => state)).toEqual(['sealed', 'open']);
});

test('an erasure that the ledger does not answer is finished by the job, once, and no row has name or key', async () => {
  const tenant = await tenantOf();
  const tenantId = toId('tenant', tenant);
  const vault = vaultWith(key);
  const [item] = await vault.seal(tenant, [personal('ada')]);
  let isAway = true;
  const calls: ErasingLedger = {
    getBooks: ledger.client.getBooks,
    // Each answer is lost while it is away, the last one after the event was appended.
    eraseSubject: async (request, options) => {
      const answer = await ledger.client.eraseSubject(request, options);
      if (isAway) throw new Error('the answer is lost');
      return answer;
    },
  };
  const erasures = new Erasures({ pool, openLedger: () => calls, logger, metrics: new Registry() });
  started.push(erasures);
  await erasures.checkOpen(tenantId);
  const erasure = await vault.erase(tenant, 'ada', context);
  await erasures.finish(erasure);
  expect(await vault.open(tenant, [{ ...item!, transactionId: newId('txn') }], true)).toEqual([{ state: 'erased' }]);
  // The call was cut off, and comes again.
  expect(await vault.erase(tenant, 'ada', context)).toEqual(erasure);
  const [again] = await vault.seal(tenant, [personal('ada')]);
  expect(again!.subject).not.toBe(item!.subject);
  isAway = false;
  await pool.query('update erasures set next_attempt_at = now()');
  const left = async () => (await pool.query('select from erasures where tenant_id = $1', [tenant])).rowCount;
  await until(left, (count) => count === 0);
  const { events } = await ledger.client.listEvents({ tenantId });
  expect(events.map(({ type, data, actor }) => [type, data.value, actor])).toMatchObject([
    ['subject.erased', { subjectId: toId('subj', item!.subject), reason: 'asked for' }, 'key'],
  ]);
  // While the books are frozen nothing is erased at all.
  await withClient(ledger.database.adminUrl, (admin) => admin.query('select freeze_tenant($1, $2)', [tenant, 'a row differs']));
  await expect(erasures.checkOpen(tenantId)).rejects.toMatchObject({
    reason: 'books_frozen',
    message: 'the books are frozen: a row differs',
  });
  await vault.erase(tenant, 'ada', context);
  await expect(vaultWith(key).find(tenant, 'ada')).rejects.toMatchObject({ reason: 'subject_not_found' });
  await expect(vault.erase(tenant, 'nobody', context)).rejects.toMatchObject({ reason: 'subject_not_found' });
});
