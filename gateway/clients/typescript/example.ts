// A walk through the API: prints a line for each call. Needs LEDGER_URL, and of a new tenant LEDGER_TENANT, LEDGER_TOKEN and perhaps LEDGER_API_KEY.
import { Ledger, LedgerError, sum, type PostDoubleRequest } from './ledger.ts';
import { verifyWebhook } from './webhooks.ts';

const {
  LEDGER_URL: url = '',
  LEDGER_TENANT: tenant = '',
  LEDGER_API_KEY: key,
  LEDGER_TOKEN: token = '',
  LEDGER_DELIVERY: given,
} = process.env;
const ledger = new Ledger({ url, tenant, token, ...(key !== undefined && { key }) });
const say = (call: string, ...values: unknown[]): void => void process.stdout.write(`${[call, ...values].join(' ')}\n`);
const entries = (from: string, to: string, amount: string): PostDoubleRequest['entries'] => [
  { account_code: from, side: 'debit', amount, currency: 'USD' },
  { account_code: to, side: 'credit', amount, currency: 'USD' },
];
const [bank, wallets] = ['SETTLEMENT-USD', 'CUSTOMER-WALLETS-USD'] as const;
const codeOf = (error: unknown): string => {
  if (error instanceof LedgerError) return error.code;
  throw error;
};

say('service.readiness', (await ledger.service.readiness()).status);
say('user.get', typeof (await ledger.user.get()).user.email);
say(
  'tenants.list',
  (await ledger.tenants.list().all()).some(({ slug }) => slug === tenant),
);
say(
  'members.list',
  (await ledger.members.list()).members.map(({ role }) => role),
);
say('keys.list', (await ledger.keys.list().all()).length);
say('accounts.setUp', (await ledger.accounts.setUp({ business_type: 'wallet' })).business_type);
say('accounts.tree', (await ledger.accounts.tree({ depth: 1 })).accounts.length);
say(
  'accounts.create',
  (await ledger.accounts.create({ account_code: 'PETTY-CASH', name: 'Petty cash', type: 'asset' })).account.normal_balance,
);
say('accounts.update', (await ledger.accounts.update('PETTY-CASH', { name: 'Coins' })).account.version);
say('accounts.get', (await ledger.accounts.get('PETTY-CASH')).account.name);
const { accounts } = await ledger.accounts.list({ limit: 100 });
say('accounts.list', (await ledger.accounts.list({ limit: 5 }).all()).length === accounts.length);

const posting = { description: 'Deposit', idempotency_key: 'example-1', entries: entries(bank, wallets, '100.00') };
const { transaction } = await ledger.transactions.post(posting);
say('transactions.post', transaction.amount);
say('transactions.post again', (await ledger.transactions.post(posting)).transaction.transaction_id === transaction.transaction_id);
say(
  'transactions.post dry run',
  (await ledger.transactions.post({ entries: entries(bank, wallets, '1.00') }, { dry_run: true })).transaction.transaction_id,
);
say('transactions.post refused', await ledger.transactions.post({ entries: entries(wallets, bank, '9999.00') }).catch(codeOf));
say(
  'transactions.postSingle',
  (await ledger.transactions.postSingle({ account_code: wallets, side: 'credit', amount: '5.00', currency: 'USD' })).transaction.kind,
);
const item = (name: string) => ({ op: 'double' as const, idempotency_key: name, entries: entries(bank, wallets, '1.00') });
const batch = await ledger.transactions.batch({ items: [item('example-2'), item('example-3')] });
say('transactions.batch', batch.posted + batch.replayed);
const imported = await ledger.transactions.import(['example-4', 'example-5'].map((name) => JSON.stringify(item(name))).join('\n'));
const { posted, replayed } = JSON.parse((await imported.text()).trim().split('\n').at(-1) ?? '') as { posted: number; replayed: number };
say('transactions.import', posted + replayed);
say('transactions.get', (await ledger.transactions.get(transaction.transaction_id)).transaction.description);
say('transactions.reverse', (await ledger.transactions.reverse(transaction.transaction_id, { amount: '40.00' })).transaction.amount);
const all = await ledger.transactions.list({ limit: 2 }).all();
say('transactions.list', all.length, sum(all.flatMap(({ amount }) => amount ?? [])));

const { hold } = await ledger.holds.create({ entries: entries(wallets, bank, '10.00') });
say('holds.create', hold.status);
say('holds.capture', (await ledger.holds.capture(hold.hold_id, { amount: '4.00', final: false })).transaction.amount);
say('holds.void', (await ledger.holds.void(hold.hold_id)).hold.status);
const { balance } = await ledger.accounts.balance(wallets, { currency: 'USD' });
say('accounts.balance', balance.balance, balance.available);

say('reports.trialBalance', (await ledger.reports.trialBalance({ currency: 'USD' })).report.totals.length);
say('reports.trialBalance file', (await (await ledger.reports.trialBalance({ currency: 'USD', format: 'csv' })).text()).slice(0, 12));
const { job } = await ledger.reports.startJournal({ format: 'csv' });
say('jobs.wait', (await ledger.jobs.wait(job.id)).status);
say('filters.set', (await ledger.filters.set('deposits', { query: 'q=deposit' })).filter.name);
say('books.get', (await ledger.books.get()).books.status);
const sequences: number[] = [];
for await (const { sequence } of ledger.events.list({ limit: 10 })) sequences.push(sequence);
say(
  'events.list',
  sequences.every((sequence, index) => sequence === index + 1),
);
let received = 0;
for await (const { sequence } of ledger.events.listen({ after: sequences.length - 3 })) {
  received += 1;
  if (sequence === sequences.length) break;
}
say('events.listen', received);
say('deliveries.list', (await ledger.deliveries.list({ limit: 1 })).pagination.total);
say('errors', await ledger.accounts.get('NO-SUCH-ACCOUNT').catch(codeOf));
if (given !== undefined) {
  const { body, headers, secret } = JSON.parse(given) as { body: string; headers: Record<string, string>; secret: string };
  const delivery = verifyWebhook(body, headers, secret);
  say('webhooks.verify', delivery.live ? delivery.event.type : delivery.test.type);
  try {
    verifyWebhook(`${body} `, headers, secret);
  } catch {
    say('webhooks.verify refused');
  }
}
