// Checks of idempotency: one key, one effect.
import type { Answer, Transfer } from '../adapter.ts';
import type { Check, Trial } from '../trial.ts';

/** What a repetition may be answered. */
const repeated: Answer['outcome'][] = ['replayed', 'duplicate'];

/** What a posting that others race with may be answered; one that is answered "unknown" is repeated. */
const raced: Answer['outcome'][] = ['created', ...repeated, 'unknown'];

async function pair(trial: Trial): Promise<{ book: Awaited<ReturnType<Trial['ledger']['prepare']>>; transfer: Transfer }> {
  const book = await trial.ledger.prepare({ accounts: 2, floored: 0 });
  const amount = `${trial.whole(1, 500)}.${trial.whole(10, 99)}`;
  return { book, transfer: trial.transfer(book.accounts[0]!, book.accounts[1]!, amount) };
}

/** That these name one transaction. */
function sameTransaction(trial: Trial, answers: Answer[]): void {
  const ids = new Set(answers.flatMap(({ id }) => id ?? []));
  if (ids.size > 1) trial.wrong(`one key was answered with ${ids.size} transactions: ${[...ids].slice(0, 4).join(', ')}`);
}

export const keyChecks: Check[] = [
  {
    name: 'repeated in sequence',
    holds: 'a posting that is sent three times under one key has one effect',
    needs: ['keys'],
    async run(trial: Trial): Promise<void> {
      const { book, transfer } = await pair(trial);
      await trial.given(book, transfer);
      for (const time of ['second', 'third']) trial.must(await book.post(transfer), repeated, `the ${time} request`);
      await trial.compare(book, [transfer]);
    },
  },
  {
    name: 'same answer',
    holds: 'a repetition is answered with the transaction that the first request made',
    needs: ['keys', 'replay'],
    async run(trial: Trial): Promise<void> {
      const { book, transfer } = await pair(trial);
      const first = await trial.given(book, transfer);
      const second = await book.post(transfer);
      trial.must(second, ['replayed'], 'the repetition');
      if (first.id === undefined || second.id === undefined) trial.wrong('an answer names no transaction');
      sameTransaction(trial, [first, second]);
    },
  },
  {
    name: 'repeated in parallel',
    holds: 'sixteen requests at once under one key have one effect, and all that are answered name one transaction',
    needs: ['keys'],
    async run(trial: Trial): Promise<void> {
      const { book, transfer } = await pair(trial);
      const posted: Transfer[] = [];
      for (let round = 0; round < 5; round += 1) {
        const raced16 = { ...transfer, key: trial.key() };
        const answers = await Promise.all(Array.from({ length: 16 }, () => book.post(raced16)));
        for (const answer of answers) trial.must(answer, raced, 'one of sixteen');
        const last = await trial.settle(book, raced16);
        if (!answers.some(({ outcome }) => outcome === 'created')) trial.must(last, ['created', ...repeated], 'the request after sixteen');
        else trial.must(last, repeated, 'the request after sixteen');
        sameTransaction(trial, [...answers, last]);
        posted.push(raced16);
      }
      await trial.compare(book, posted);
    },
  },
  {
    name: 'key with another body',
    holds: 'another amount, account, direction or currency under a used key is refused and changes nothing',
    needs: ['keys'],
    async run(trial: Trial): Promise<void> {
      const book = await trial.ledger.prepare({ accounts: 3, floored: 0 });
      const [one, two, three] = book.accounts as [string, string, string];
      const transfer = trial.transfer(one, two, '12.50');
      await trial.given(book, transfer);
      const others: Partial<Transfer>[] = [{ amount: '12.51' }, { to: three }, { from: two, to: one }];
      others.push(...trial.ledger.currencies.slice(1, 2).map((currency) => ({ currency })));
      for (const other of others) {
        const what = `the key again with ${JSON.stringify(other)}`;
        trial.must(await book.post({ ...transfer, ...other }), ['refused', 'duplicate'], what);
      }
      await trial.compare(book, [transfer]);
    },
  },
  {
    name: 'key after a refusal',
    holds: 'a refused posting has no effect; sent again once there is money it has one effect or is refused again, as it is answered',
    needs: ['keys', 'floor'],
    async run(trial: Trial): Promise<void> {
      const book = await trial.ledger.prepare({ accounts: 1, floored: 1 });
      const [bank, purse] = [book.accounts[0]!, book.floored[0]!];
      const spend = trial.transfer(purse, bank, '40.00');
      trial.must(await book.post(spend), ['refused'], 'more than there is');
      await trial.compare(book, []);
      const fund = trial.transfer(bank, purse, '100.00');
      await trial.given(book, fund);
      const again = [await book.post(spend), await book.post(spend)];
      trial.must(again[0]!, ['created', 'refused', 'duplicate'], 'the same request once there is money');
      const posted = again[0]!.outcome === 'created';
      trial.must(again[1]!, posted ? repeated : ['refused', 'duplicate'], 'the same request once more');
      await trial.compare(book, posted ? [fund, spend] : [fund]);
    },
  },
  {
    name: 'connection lost',
    holds: 'a posting whose connection was lost before the answer, and which is sent again under its key, has one effect',
    needs: ['keys'],
    async run(trial: Trial): Promise<void> {
      const { book, transfer } = await pair(trial);
      const posted = Array.from({ length: 32 }, () => ({ ...transfer, key: trial.key() }));
      const lost = posted.map((each) => ({ each, cutAfter: trial.whole(0, 12) }));
      for (let start = 0; start < lost.length; start += 4) {
        await Promise.all(
          lost.slice(start, start + 4).map(async ({ each, cutAfter }) => {
            await book.post(each, cutAfter);
            trial.must(await trial.settle(book, each), ['created', ...repeated], 'the request after a lost connection');
          }),
        );
      }
      // What was lost may arrive after its repetition.
      for (const each of posted) trial.must(await trial.settle(book, each), repeated, 'one more repetition');
      await trial.compare(book, posted);
    },
  },
];
