// A short run of the model against a real cluster, and whether a wrong model is noticed.
import { LedgerModel } from './ledger-model.ts';
import { describeFailure, ModelBench } from './model.ts';

let bench: ModelBench;

beforeAll(async () => {
  bench = await ModelBench.open();
});

afterAll(() => bench.close());

test('cluster and model agree on six hundred random steps', async () => {
  const { tally, failure } = await bench.drive({ seed: 5, enough: ({ steps }) => steps >= 600 });
  if (failure) throw new Error(describeFailure(failure));
  expect(tally.steps).toBeGreaterThanOrEqual(600);
}, 240_000);

/** Treats every account as one that debits increase. */
class WrongBalances extends LedgerModel {
  override net(account: Parameters<LedgerModel['net']>[0], totals: Parameters<LedgerModel['net']>[1]): bigint {
    return super.net({ ...account, normal_balance: 'debit' }, totals);
  }
}

test('a model with a wrong rule differs from the cluster, and the steps that show it are few', async () => {
  const { failure } = await bench.drive({ seed: 5, enough: () => false, newLedger: () => new WrongBalances(), maxShrinks: 60 });
  expect(failure!.steps.length).toBeLessThanOrEqual(15);
}, 180_000);

/** Lets a client spend what is held. */
class SpendsHeld extends LedgerModel {
  override available(account: Parameters<LedgerModel['net']>[0], totals: Parameters<LedgerModel['net']>[1]): bigint {
    return this.net(account, totals);
  }
}

test('a model that does not know what is held differs from the cluster', async () => {
  const { failure } = await bench.drive({ seed: 5, enough: () => false, newLedger: () => new SpendsHeld(), maxShrinks: 60 });
  expect(failure!.why).toMatch(/available|insufficient_funds/);
}, 180_000);
