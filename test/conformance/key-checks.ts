// Checks of idempotency: one key, one effect.
import type { Answer, Transfer } from './adapter.ts';
import type { Check, CheckRun } from './check-run.ts';

/** What a repetition may be answered. */
const repeated: Answer['outcome'][] = ['replayed', 'duplicate'];

/** What a posting that others race with may be answered; one that is answered "unknown" is repeated. */
const raced: Answer['outcome'][] = ['created', ...repeated, 'unknown'];

async function pair(run: CheckRun): Promise<{ book: Awaited<ReturnType<CheckRun['ledger']['prepare']>>; transfer: Transfer }> {
  const book = await run.ledger.prepare({ accounts: 2, floored: 0 });
  const amount = `${run.whole(1, 500)}.${run.whole(10, 99)}`;
  return { book, transfer: run.transfer(book.accounts[0]!, book.accounts[1]!, amount) };
}

/** That these name one transaction. */
function sameTransaction(run: CheckRun, answers: Answer[]): void {
  const ids = new Set(answers.flatMap(({ id }) => id ?? []));
  if (ids.size > 1) run.wrong(`one key was answered with ${ids.size} transactions: ${[...ids].slice(0, 4).join(', ')}`);
}

export const keyChecks: Check[] = [
  {
    name: 'repeated in sequence',
    holds: 'a posting that is sent three times under one key has one effect',
    needs: ['keys'],
    async run(run: CheckRun): Promise<void> {
      const { book, transfer } = await pair(run);
      await run.given(book, transfer);
      for (const time of ['second', 'third']) run.must(await book.post(transfer), repeated, `the ${time} request`);
      await run.compare(book, [transfer]);
    },
  },
  {
    name: 'same answer',
    holds: 'a repetition is answered with the transaction that the first request made',
    needs: ['keys', 'replay'],
    async run(run: CheckRun): Promise<void> {
      const { book, transfer } = await pair(run);
      const first = await run.given(book, transfer);
      const second = await book.post(transfer);
      run.must(second, ['replayed'], 'the repetition');
      if (first.id === undefined || second.id === undefined) run.wrong('an answer names no transaction');
      sameTransaction(run, [first, second]);
    },
  },
  {
    name: 'repeated in parallel',
    holds: 'sixteen requests at once under one key have one effect, and all that are answered name one transaction',
    needs: ['keys'],
    async run(run: CheckRun): Promise<void> {
      const { book, transfer } = await pair(run);
      const posted: Transfer[] = [];
      for (let round = 0; round < 5; round += 1) {
        const raced16 = { ...transfer, key: run.key() };
        const answers = await Promise.all(Array.from({ length: 16 }, () => book.post(raced16)));
        for (const answer of answers) run.must(answer, raced, 'one of sixteen');
        const last = await run.settle(book, raced16);
        if (!answers.some(({ outcome }) => outcome === 'created')) run.must(last, ['created', ...repeated], 'the request after sixteen');
        else run.must(last, repeated, 'the request after sixteen');
        sameTransaction(run, [...answers, last]);
        posted.push(raced16);
      }
      await run.compare(book, posted);
    },
  },
  {
    name: 'key with another body',
    holds: 'another amount, account, direction or currency under a used key is refused and changes nothing',
    needs: ['keys'],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 3, floored: 0 });
      const [one, two, three] = book.accounts as [string, string, string];
      const transfer = run.transfer(one, two, '12.50');
      await run.given(book, transfer);
      const others: Partial<Transfer>[] = [{ amount: '12.51' }, { to: three }, { from: two, to: one }];
      others.push(...run.ledger.currencies.slice(1, 2).map((currency) => ({ currency })));
      for (const other of others) {
        const what = `the key again with ${JSON.stringify(other)}`;
        run.must(await book.post({ ...transfer, ...other }), ['refused', 'duplicate'], what);
      }
      await run.compare(book, [transfer]);
    },
  },
  {
    name: 'key after a refusal',
    holds: 'a refused posting has no effect; sent again once there is money it has one effect or is refused again, as it is answered',
    needs: ['keys', 'floor'],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 1, floored: 1 });
      const [bank, purse] = [book.accounts[0]!, book.floored[0]!];
      const spend = run.transfer(purse, bank, '40.00');
      run.must(await book.post(spend), ['refused'], 'more than there is');
      await run.compare(book, []);
      const fund = run.transfer(bank, purse, '100.00');
      await run.given(book, fund);
      const again = [await book.post(spend), await book.post(spend)];
      run.must(again[0]!, ['created', 'refused', 'duplicate'], 'the same request once there is money');
      const posted = again[0]!.outcome === 'created';
      run.must(again[1]!, posted ? repeated : ['refused', 'duplicate'], 'the same request once more');
      await run.compare(book, posted ? [fund, spend] : [fund]);
    },
  },
  {
    name: 'connection lost',
    holds: 'a posting whose connection was lost before the answer, and which is sent again under its key, has one effect',
    needs: ['keys'],
    async run(run: CheckRun): Promise<void> {
      const { book, transfer } = await pair(run);
      const posted = Array.from({ length: 32 }, () => ({ ...transfer, key: run.key() }));
      const lost = posted.map((each) => ({ each, cutAfter: run.whole(0, 12) }));
      for (let start = 0; start < lost.length; start += 4) {
        await Promise.all(
          lost.slice(start, start + 4).map(async ({ each, cutAfter }) => {
            await book.post(each, cutAfter);
            run.must(await run.settle(book, each), ['created', ...repeated], 'the request after a lost connection');
          }),
        );
      }
      // What was lost may arrive after its repetition.
      for (const each of posted) run.must(await run.settle(book, each), repeated, 'one more repetition');
      await run.compare(book, posted);
    },
  },
];
