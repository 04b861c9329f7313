// Checks of money that is held, of refunds, and of postings that belong together.
import { decimal } from './amount.ts';
import type { Answer, Book, Transfer } from './adapter.ts';
import type { Check, CheckRun } from './check-run.ts';

/** A purse with an amount (hundredths), which a bank has paid in. */
async function purseWith(run: CheckRun, units: number): Promise<{ book: Book; bank: string; purse: string; fund: Transfer }> {
  const book = await run.ledger.prepare({ accounts: 1, floored: 1 });
  const [bank, purse] = [book.accounts[0]!, book.floored[0]!];
  const fund = run.transfer(bank, purse, decimal(BigInt(units)));
  await run.given(book, fund);
  return { book, bank, purse, fund };
}

/** The id in an answer. Throws unless something was created. */
function idOf(answer: Answer, what: string): string {
  if (answer.outcome !== 'created' || answer.id === undefined) throw new Error(`${what} could not be made: ${answer.detail}`);
  return answer.id;
}

export const holdChecks: Check[] = [
  {
    name: 'held money',
    holds: 'what is held stays in the balance and can be neither spent nor held again; released it can be spent',
    needs: ['holds', 'floor'],
    async run(run: CheckRun): Promise<void> {
      const units = run.whole(200, 9_999);
      const { book, bank, purse, fund } = await purseWith(run, units);
      const wanted = decimal(BigInt(units - run.whole(0, 99)));
      const hold = idOf(await book.hold!(run.transfer(purse, bank, wanted)), 'a hold');
      await run.compare(book, [fund]);
      run.must(await book.post(run.transfer(purse, bank, wanted)), ['refused'], 'a posting of what is held');
      run.must(await book.hold!(run.transfer(purse, bank, wanted)), ['refused'], 'a second hold of it');
      run.must(await book.release!(hold), ['created', 'replayed'], 'the release');
      const spent = run.transfer(purse, bank, wanted);
      run.must(await book.post(spent), ['created'], 'a posting of what was released');
      await run.compare(book, [fund, spent]);
    },
  },
  {
    name: 'one end',
    holds: 'of sixteen captures and releases of a hold at once exactly one succeeds, and the balances show it',
    needs: ['holds', 'floor'],
    async run(run: CheckRun): Promise<void> {
      const { book, bank, purse, fund } = await purseWith(run, 100_000);
      const posted = [fund];
      for (let round = 0; round < 5; round += 1) {
        const transfer = run.transfer(purse, bank, decimal(BigInt(run.whole(100, 9_999))));
        const hold = idOf(await book.hold!(transfer), 'a hold');
        const ends = Array.from({ length: 16 }, (_, place) => {
          const part = { key: run.key(), hold, amount: transfer.amount, currency: transfer.currency, final: true };
          return place % 4 === 0 ? { isCapture: false, answer: book.release!(hold) } : { isCapture: true, answer: book.capture!(part) };
        });
        const answers = await Promise.all(ends.map(async ({ isCapture, answer }) => ({ isCapture, ...(await answer) })));
        const captures = answers.filter(({ isCapture, outcome }) => isCapture && outcome === 'created').length;
        // A second release may be answered as the first one.
        const releases = answers.filter(({ isCapture, outcome }) => !isCapture && (outcome === 'created' || outcome === 'replayed')).length;
        if (captures > 1 || (captures === 1) === releases > 0)
          run.wrong(`${captures} captures and ${releases} releases of one hold succeeded`);
        for (const answer of answers) run.must(answer, ['created', 'replayed', 'refused'], 'one of sixteen ends');
        if (captures > 0) posted.push(transfer);
      }
      await run.compare(book, posted);
    },
  },
  {
    name: 'captured in parts',
    holds: 'captures of parts at once never take more than was held, and what the last leaves is released',
    needs: ['holds', 'floor'],
    async run(run: CheckRun): Promise<void> {
      const [part, parts] = [run.whole(100, 999), run.whole(2, 8)];
      const held = part * parts + run.whole(1, part - 1);
      const { book, bank, purse, fund } = await purseWith(run, held);
      const whole = run.transfer(purse, bank, decimal(BigInt(held)));
      const hold = idOf(await book.hold!(whole), 'a hold');
      const capture = (units: number, final: boolean) =>
        book.capture!({ key: run.key(), hold, amount: decimal(BigInt(units)), currency: whole.currency, final });
      const answers = await Promise.all(Array.from({ length: 12 }, () => capture(part, false)));
      const taken = answers.filter(({ outcome }) => outcome === 'created').length;
      if (taken !== parts) run.wrong(`${taken} captures of ${decimal(BigInt(part))} succeeded where ${parts} were held`);
      run.must(await capture(1, true), ['created'], 'the last capture');
      const spent = run.transfer(purse, bank, decimal(BigInt(held - part * parts - 1)));
      if (held - part * parts > 1) run.must(await book.post(spent), ['created'], 'a posting of what it has left');
      const captured = run.transfer(purse, bank, decimal(BigInt(part * parts + 1)));
      await run.compare(book, [fund, captured, ...(held - part * parts > 1 ? [spent] : [])]);
    },
  },
  {
    name: 'refunds in parts',
    holds: 'refunds of parts at once never give back more than was paid, to the last hundredth',
    needs: ['refunds'],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 2, floored: 0 });
      const [part, parts] = [run.whole(100, 999), run.whole(2, 8)];
      const rest = run.whole(1, part - 1);
      const paid = run.transfer(book.accounts[0]!, book.accounts[1]!, decimal(BigInt(part * parts + rest)));
      const transaction = idOf(await book.post(paid), 'a posting');
      const refund = (units: number) =>
        book.refund!({ key: run.key(), transaction, amount: decimal(BigInt(units)), currency: paid.currency });
      const answers = await Promise.all(Array.from({ length: 12 }, () => refund(part)));
      const given = answers.filter(({ outcome }) => outcome === 'created').length;
      if (given !== parts) run.wrong(`${given} refunds of ${decimal(BigInt(part))} succeeded where ${parts} fit`);
      run.must(await refund(rest + 1), ['refused'], 'a refund of more than is left');
      run.must(await refund(rest), ['created'], 'a refund of the rest');
      run.must(await refund(1), ['refused'], 'a refund of what was given back');
      await run.compare(book, []);
    },
  },
  {
    name: 'all or none',
    holds: 'postings that are sent together are posted all or none, and each sees those before it',
    needs: ['atomic', 'floor'],
    async run(run: CheckRun): Promise<void> {
      const { book, bank, purse, fund } = await purseWith(run, 1_000);
      const more = run.transfer(bank, purse, '5.00');
      const together = [more, run.transfer(purse, bank, '14.00')];
      run.must(await book.postTogether!(together), ['created'], 'postings that can be paid one after another');
      const short = [run.transfer(bank, purse, '5.00'), run.transfer(purse, bank, '6.01')];
      run.must(await book.postTogether!(short), ['refused'], 'postings of which the last can not be paid');
      await run.compare(book, [fund, ...together]);
      // Neither key is used up.
      run.must(await book.post(short[0]!), ['created'], 'the first of them by itself');
      await run.compare(book, [fund, ...together, short[0]!]);
    },
  },
];
