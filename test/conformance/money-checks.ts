// Checks of conservation: no money comes from nowhere, none gets lost, whatever happens at once.
import type { Answer, Book, Transfer } from './adapter.ts';
import { decimal, hundredths } from './amount.ts';
import { effect, type Check, type CheckRun } from './check-run.ts';

const answered: Answer['outcome'][] = ['created', 'replayed', 'duplicate'];

/** Posts all, so many at once; resolves to the answers in order. */
async function postAll(book: Book, transfers: Transfer[], atOnce: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  const waiting = transfers.entries();
  const client = async () => {
    for (const [index, transfer] of waiting) answers[index] = await book.post(transfer);
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return answers;
}

/** Random transfers between the accounts of a book in all currencies. */
function load(run: CheckRun, book: Book, count: number): Transfer[] {
  return Array.from({ length: count }, () => {
    const from = run.one(book.accounts);
    const to = run.one(book.accounts.filter((each) => each !== from));
    return run.transfer(from, to, decimal(BigInt(run.whole(1, 99_999))), { currency: run.one(run.ledger.currencies) });
  });
}

/** Transfers between two accounts in both directions, sixteen at once. */
async function cross(run: CheckRun): Promise<{ book: Book; transfers: Transfer[]; answers: Answer[] }> {
  const book = await run.ledger.prepare({ accounts: 2, floored: 0 });
  const [one, two] = book.accounts as [string, string];
  const transfers = Array.from({ length: 160 }, (_, index) => {
    const amount = decimal(BigInt(run.whole(1, 9999)));
    return index % 2 === 0 ? run.transfer(one, two, amount) : run.transfer(two, one, amount);
  });
  return { book, transfers, answers: await postAll(book, transfers, 16) };
}

export const moneyChecks: Check[] = [
  {
    name: 'crossing, exact',
    holds: 'after transfers between two accounts in both directions at once, each sent until it is answered, the balances are exact',
    needs: ['keys'],
    async run(run: CheckRun): Promise<void> {
      const { book, transfers, answers } = await cross(run);
      const posted = await settled(run, book, transfers, answers);
      if (posted.length < transfers.length) run.wrong(`${transfers.length - posted.length} of ${transfers.length} were not posted`);
      await run.compare(book, posted);
    },
  },
  {
    name: 'crossing, answered',
    holds: 'each of those transfers is posted at the first attempt: none fails because others cross it',
    needs: [],
    async run(run: CheckRun): Promise<void> {
      const { transfers, answers } = await cross(run);
      const failed = answers.filter(({ outcome }) => outcome !== 'created');
      if (failed.length > 0) run.wrong(`${failed.length} of ${transfers.length} were not posted: ${failed[0]!.detail}`);
    },
  },
  {
    name: 'random load',
    holds: 'after a random load, a tenth of it sent twice at once, each balance is exact and all of a currency add up to zero',
    needs: [],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 6, floored: 0 });
      const transfers = load(run, book, 200);
      const twice = run.ledger.lacks.keys === undefined ? transfers.filter(() => run.whole(1, 10) === 1) : [];
      const [answers] = await Promise.all([postAll(book, transfers, 10), postAll(book, twice, 2)]);
      const posted = await settled(run, book, transfers, answers);
      if (posted.length < transfers.length) run.wrong(`${transfers.length - posted.length} of ${transfers.length} were not posted`);
      await run.compare(book, posted);
    },
  },
  {
    name: 'never below zero',
    holds: 'of sixteen withdrawals at once from an account that may not go below zero exactly those succeed that it can pay',
    needs: ['floor'],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 1, floored: 3 });
      const bank = book.accounts[0]!;
      const posted: Transfer[] = [];
      for (const purse of book.floored) {
        const amount = run.whole(100, 999);
        const affordable = run.whole(1, 9);
        const fund = run.transfer(bank, purse, decimal(BigInt(amount * affordable + run.whole(0, amount - 1))));
        await run.given(book, fund);
        const withdrawals = Array.from({ length: 16 }, () => run.transfer(purse, bank, decimal(BigInt(amount))));
        const watch = watched(run, book, purse, withdrawals[0]!.currency);
        const answers = await postAll(book, withdrawals, 16);
        await watch.end();
        const paid = await settled(run, book, withdrawals, answers);
        if (paid.length !== affordable)
          run.wrong(`${paid.length} withdrawals of ${decimal(BigInt(amount))} succeeded where ${affordable} can be paid`);
        posted.push(fund, ...paid);
      }
      await run.compare(book, posted);
    },
  },
  {
    name: 'unbalanced entries',
    holds: 'entries that do not balance, in all or in one currency, are refused and change nothing',
    needs: ['entries'],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 2, floored: 0 });
      const [one, two] = book.accounts as [string, string];
      const [currency, other] = run.ledger.currencies;
      const out = { account: one, way: 'out', amount: '10.00', currency } as const;
      const wrong = [
        [out, { account: two, way: 'in', amount: '10.01', currency } as const],
        ...(other === undefined ? [] : [[out, { account: two, way: 'in', amount: '10.00', currency: other } as const]]),
      ];
      for (const entries of wrong) {
        const answer = await book.postEntries!({ key: run.key(), entries });
        run.must(answer, ['refused'], entries.map((each) => `${each.amount} ${each.currency} ${each.way}`).join(', '));
      }
      const right = run.transfer(one, two, '10.00');
      const entries = [out, { account: two, way: 'in', amount: '10.00', currency } as const];
      run.must(await book.postEntries!({ key: right.key, entries }), ['created'], 'entries that balance');
      await run.compare(book, [right]);
    },
  },
  {
    name: 'one moment',
    holds: 'balances that are read together never show money that has left one account and not come to the other',
    needs: ['reading'],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 3, floored: 0 });
      const currency = run.ledger.currencies[0];
      const transfers = load(run, book, 120).map((each) => ({ ...each, currency }));
      let reads = 0;
      let working = true;
      const reader = async () => {
        while (working || reads === 0) {
          const texts = await book.balances!(book.accounts, currency);
          reads += 1;
          const values = texts.map((text) => run.read(text, 'a balance'));
          const sum = values.reduce<bigint>((total, each) => total + (each ?? 0n), 0n);
          if (values.includes(undefined)) return;
          if (sum !== 0n) run.wrong(`read together: ${texts.join(', ')}, which add up to ${decimal(sum)}`);
        }
      };
      const readers = [reader(), reader()];
      await postAll(book, transfers, 8).finally(() => (working = false));
      await Promise.all(readers);
    },
  },
  {
    name: 'history',
    holds: 'the listed changes of each account are those that were posted, each once, and add up to its balance',
    needs: ['history'],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 3, floored: 0 });
      // More than one page.
      const transfers = load(run, book, 360);
      const posted = await settled(run, book, transfers, await postAll(book, transfers, 8));
      for (const currency of run.ledger.currencies) {
        for (const account of book.accounts) {
          const due = posted.map((each) => effect(each, account, currency)).filter((each) => each !== 0n);
          const listed = await book.history!(account, currency);
          const changes = listed.map(({ amount }) => run.read(amount, `a change of ${account}`) ?? 0n);
          const transactions = new Set(listed.map(({ transaction }) => transaction));
          if (transactions.size < listed.length)
            run.wrong(`${account} lists ${listed.length} changes of ${transactions.size} transactions`);
          if (sorted(changes) !== sorted(due))
            run.wrong(`${account} lists ${changes.length} changes in ${currency} where ${due.length} are due`);
          const balance = run.read(await book.balance(account, currency), 'a balance');
          const sum = changes.reduce((total, each) => total + each, 0n);
          if (balance !== undefined && sum !== balance) {
            run.wrong(`the changes of ${account} add up to ${decimal(sum)} ${currency}, its balance is ${decimal(balance)}`);
          }
        }
      }
    },
  },
  {
    name: 'large amounts',
    holds: 'amounts and balances beyond 2^53 hundredths are exact to the last digit',
    needs: [],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 2, floored: 0 });
      const [one, two] = book.accounts as [string, string];
      const beyond = 2n ** 53n + 1n;
      const largest = hundredths(run.ledger.largest);
      const posted: Transfer[] = [];
      for (let total = 0n; total <= beyond;) {
        const amount = largest < beyond ? largest : beyond;
        posted.push(run.transfer(one, two, decimal(amount)));
        total += amount;
      }
      // An odd number of hundredths: a double holds only even ones there.
      posted.push(run.transfer(one, two, '0.01'), run.transfer(one, two, posted.length % 2 === 0 ? '0.02' : '0.01'));
      for (const each of posted) {
        await run.given(book, each);
        await run.compare(book, posted.slice(0, posted.indexOf(each) + 1));
      }
    },
  },
  {
    name: 'decimals',
    holds: '0.10 and 0.20 are 0.30, and a hundred times 0.01, 0.07 and 1.10 are exact',
    needs: [],
    async run(run: CheckRun): Promise<void> {
      const book = await run.ledger.prepare({ accounts: 2, floored: 0 });
      const [one, two] = book.accounts as [string, string];
      const first = [run.transfer(one, two, '0.10'), run.transfer(one, two, '0.20')];
      for (const each of first) await run.given(book, each);
      await run.compare(book, first);
      const more = Array.from({ length: 102 }, (_, index) => run.transfer(one, two, ['0.01', '0.07', '1.10'][index % 3]!));
      const posted = await settled(run, book, more, await postAll(book, more, 6));
      if (posted.length < more.length) run.wrong(`${more.length - posted.length} of ${more.length} were not posted`);
      await run.compare(book, [...first, ...posted]);
    },
  },
];

/** The posted transfers; an unknown outcome is repeated until it is known. */
async function settled(run: CheckRun, book: Book, transfers: Transfer[], answers: Answer[]): Promise<Transfer[]> {
  const posted: Transfer[] = [];
  for (const [index, transfer] of transfers.entries()) {
    let answer = answers[index]!;
    if (answer.outcome === 'unknown' && run.ledger.lacks.keys === undefined) answer = await run.settle(book, transfer);
    if (answered.includes(answer.outcome)) posted.push(transfer);
  }
  return posted;
}

const sorted = (values: bigint[]) => values.map(String).sort().join();

/** Reads a balance again and again until `end`. */
function watched(run: CheckRun, book: Book, account: string, currency: string): { end: () => Promise<void> } {
  const watch = { working: true };
  const reading = (async () => {
    while (watch.working) {
      const text = await book.balance(account, currency);
      if ((run.read(text, 'a balance') ?? 0n) < 0n) run.wrong(`${account} was seen with ${text} ${currency}`);
    }
  })();
  return {
    end: async () => {
      watch.working = false;
      await reading;
    },
  };
}
