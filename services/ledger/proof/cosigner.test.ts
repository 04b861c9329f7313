// Witnesses as they are: slow to know a log, away, forgetful, ahead, or forging. What they cosign joins the checkpoint.
import { generateKeyPairSync } from 'node:crypto';
import { proofOrigin, startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { entries, newTenant, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { startWitness, type TestWitness } from '../../../test/witness.ts';
import { readCheckpoint, readNote, verifierKey } from './note.ts';
import { readWitnesses, type Witness } from './witness-list.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
let witnesses: [TestWitness, TestWitness];
const key = generateKeyPairSync('ed25519').privateKey;
const start = () =>
  startAuditor(ledger.database, {
    signingKeys: [key],
    signEveryMs: 40,
    witnesses: readWitnesses(witnesses.map(({ line }) => line).join('\n')) as Witness[],
  });
beforeAll(async () => {
  ledger = await startLedger();
  witnesses = await Promise.all([startWitness('witness.example/one'), startWitness('witness.example/two')]);
  auditor = await start();
});
afterAll(async () => {
  await auditor.end();
  await Promise.all(witnesses.map((each) => each.close()));
  await ledger.end();
});

async function newBook() {
  const { tenantId } = newTenant();
  const vkey = verifierKey(`${proofOrigin}/${tenantId}`, key);
  for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const post = () => ledger.client.postTransaction({ posting: { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } });
  /** The newest checkpoint, when it has so many events and these witnesses' signatures. */
  const checkpoint = (size: number, by: TestWitness[]) =>
    until(
      async () => (await auditor.client.getCheckpoint({ tenantId })).checkpoint,
      (note) => {
        const names = readNote(note).signatures.map(({ name }) => name);
        return (
          readCheckpoint(note).size === size &&
          by.every(({ vkey: of }) => names.includes(of.split('+')[0]!)) &&
          names.length === 1 + by.length
        );
      },
    );
  const state = (wanted: string) =>
    until(
      () => Promise.resolve(auditor.cosigner?.state()),
      (is) => is === wanted,
    );
  return { tenantId, origin: `${proofOrigin}/${tenantId}`, vkey, post, checkpoint, state };
}

test('every witness cosigns what extends its last checkpoint, also one that was away, has forgotten the log, or is new to this auditor', async () => {
  const [one, two] = witnesses;
  const { origin, vkey, post, checkpoint, state } = await newBook();
  one.trust(vkey);
  await checkpoint(2, [one]);
  await state('degraded');
  expect(two.answers).toContain(404);
  two.trust(vkey);
  await checkpoint(2, [one, two]);
  await state('ok');

  two.fault = 'unavailable';
  await post();
  await checkpoint(3, [one]);
  await state('degraded');
  for (let count = 0; count < 4; count++) await post();
  await checkpoint(7, [one]);
  two.fault = undefined;
  await checkpoint(7, [one, two]);
  await state('ok');
  expect([one, two].map(({ logs }) => logs.get(origin)?.size)).toEqual([7, 7]);

  one.logs.delete(origin);
  await post();
  await checkpoint(8, [one, two]);
  // A new process knows nothing of what they have cosigned.
  await auditor.end();
  auditor = await start();
  await post();
  await checkpoint(9, [one, two]);
  expect([one, two].flatMap(({ answers }) => answers).filter((status) => ![200, 404, 409, 503].includes(status))).toEqual([]);
});

test('a signature of another text, and that of a witness that has seen a longer or another log, do not join', async () => {
  const [one, two] = witnesses;
  const { origin, vkey, post, checkpoint, state } = await newBook();
  for (const each of witnesses) each.trust(vkey);
  await checkpoint(2, [one, two]);
  const known = one.logs.get(origin)!;
  one.logs.set(origin, { ...known, size: 99 });
  two.fault = 'forged';
  await post();
  await checkpoint(3, []);
  await state('degraded');
  await until(
    () => Promise.resolve(two.logs.get(origin)?.size),
    (size) => size === 3,
  );
  // Another root of the size that is asked for.
  one.logs.set(origin, { size: 3, root: Buffer.alloc(32) });
  await until(
    () => Promise.resolve(one.answers.slice(-2)),
    (last) => last.every((status) => status === 409),
  );
  await checkpoint(3, []);
  two.fault = undefined;
  await checkpoint(3, [two]);
  const counted = await auditor.metrics.getSingleMetricAsString('ledger_cosignatures_total');
  expect(counted).toMatch(/witness="witness\.example\/one",outcome="refused"\} [1-9]/);
  expect(counted).toMatch(/witness="witness\.example\/two",outcome="failed"\} [1-9]/);
  one.logs.set(origin, two.logs.get(origin)!);
  await checkpoint(3, [one, two]);
  await state('ok');
});
