// Logs whose chain is whole and whose bookkeeping is not: what a faulty writer would leave behind.
import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { TransactionPostedSchema, type AccountRecord, type TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import { newTenant } from '../../test/ledger.ts';
import { newId } from '../platform/ids.ts';
import { createdEvent, newAccount, updatedEvent } from './chart.ts';
import { Derivation } from './derive.ts';
import { append, genesis, type Head, type LogRow, type NewEvent } from './log.ts';

const by = { actor: 'test', requestId: 'r' };
const { tenant } = newTenant();
const nowMs = 1_700_000_000_000;

function account(code: string, more: Partial<AccountRecord> = {}): AccountRecord {
  const line = { code, name: code, type: 'asset' as const, normalBalance: 'debit' as const, currency: null, parentCode: null };
  const made = newAccount({ ...line, isGroup: false, allowNegative: true, system: false }, { sequence: 1n, createdMs: nowMs });
  return Object.assign(made, { id: newId('acc') }, more);
}

const a = account('a');
const b = account('b', { type: 'liability', normalBalance: 'credit', allowNegative: false });
const accounts = [
  a,
  b,
  account('closed', { status: 'closed' }),
  account('group', { isGroup: true }),
  account('pounds', { currency: 'GBP' }),
];
const byCode = new Map(accounts.map((each) => [each.accountCode, each]));

/** A posting as an honest writer tells it, from its lines (`a debit 1.00 NGN 1.00`, the last the balance after) and balances. */
function posting(lines: string[], balances: string[], more: MessageInitShape<typeof TransactionPostedSchema> = {}): TransactionPosted {
  const transactionId = newId('txn');
  return create(TransactionPostedSchema, {
    ...{ transactionId, idempotencyKey: transactionId, kind: 'double', fingerprint: new Uint8Array(33), metadata: '{}' },
    entries: lines.map((line) => {
      const [accountCode = '', side = '', amount = '', currency = '', balanceAfter = ''] = line.split(' ');
      return { accountId: byCode.get(accountCode)?.id ?? newId('acc'), accountCode, side, amount, currency, balanceAfter };
    }),
    balances: balances.map((line) => {
      const [accountCode = '', currency = '', previousBalance = '', balance = '', debits = '', credits = '', version = ''] =
        line.split(' ');
      const pending = { pendingDebits: '0.00', pendingCredits: '0.00' };
      const accountId = byCode.get(accountCode)?.id ?? '';
      return {
        accountId,
        accountCode,
        currency,
        previousBalance,
        balance,
        debits,
        credits,
        ...pending,
        available: balance,
        version: BigInt(version),
      };
    }),
    ...more,
  });
}

const first = () =>
  posting(['a debit 5.00 NGN 5.00', 'b credit 5.00 NGN 5.00'], ['a NGN 0.00 5.00 5.00 0.00 1', 'b NGN 0.00 5.00 0.00 5.00 1']);
const second = () =>
  posting(
    ['b debit 2.00 NGN 3.00', 'a credit 1.50 NGN 3.50', 'a credit 0.50 NGN 3.00'],
    ['b NGN 5.00 3.00 2.00 5.00 2', 'a NGN 5.00 3.00 5.00 2.00 2'],
  );

const event = (message: TransactionPosted): NewEvent => ({
  ...{ type: 'transaction.posted', ...by },
  payload: toBinary(TransactionPostedSchema, message),
});

/** What the derivation says of a log of the accounts and then these events, chained as the ledger chains them. */
function findings(events: NewEvent[], tamper: (rows: LogRow[]) => void = () => undefined): string[] {
  const head: Head = { tenant, sequence: 0n, hash: genesis, lastMs: 0, chart: null, rebuilt: 0n };
  const rows = [...accounts.map((each) => createdEvent(each, null, by)), ...events].map((each) => append(head, each, nowMs));
  tamper(rows);
  const found: string[] = [];
  const derivation = new Derivation(tenant, (problem) => found.push(problem));
  for (const row of rows) derivation.apply(row);
  return found;
}

const changedFirst = (change: (message: TransactionPosted) => void) => {
  const message = first();
  change(message);
  return findings([event(message)]);
};

test('honest postings are derived without a word', () => {
  expect(findings([event(first()), event(second())])).toEqual([]);
});

const faults: [what: string, change: (message: TransactionPosted) => void, finding: RegExp][] = [
  ['does not balance', ({ entries }) => (entries[1]!.amount = '4.00'), /does not balance in NGN/],
  ['balances only over two currencies', ({ entries }) => (entries[1]!.currency = 'USD'), /does not balance in USD/],
  ['has an entry of nothing', ({ entries }) => entries.forEach((entry) => (entry.amount = '0.00')), /not greater than zero/],
  ['has a negative entry', ({ entries }) => entries.forEach((entry) => (entry.amount = '-5.00')), /not greater than zero/],
  ['has an entry of half a unit', ({ entries }) => (entries[0]!.amount = '5.000'), /5.000 is no amount/],
  ['tells a wrong balance after an entry', ({ entries }) => (entries[0]!.balanceAfter = '5.01'), /leaves a at 5.01, where .* 5.00/],
  ['tells a wrong balance', ({ balances }) => (balances[0]!.balance = '6.00'), /promises the balance/],
  ['tells a wrong total', ({ balances }) => (balances[1]!.credits = '6.00'), /promises the balance/],
  ['tells a wrong version', ({ balances }) => (balances[1]!.version = 2n), /promises the balance/],
  ['tells a wrong previous balance', ({ balances }) => (balances[1]!.previousBalance = '1.00'), /promises the balance/],
  ['tells what is pending wrong', ({ balances }) => (balances[0]!.pendingCredits = '1.00'), /promises the balance/],
  ['leaves a balance untold', ({ balances }) => balances.pop(), /changes 2 balances and tells of 1/],
  ['tells balances in another order', ({ balances }) => balances.reverse(), /promises the balance/],
  ['is single without a counter-entry', (message) => (message.kind = 'single'), /is single with 2 entries, 0 of them counter-entries/],
  ['is double with a counter-entry', ({ entries }) => (entries[1]!.counter = true), /is double with 2 entries, 1 of them/],
  ['posts to an account that is none', ({ entries }) => (entries[0]!.accountId = newId('acc')), /no account a/],
  ['posts to one account under the code of another', ({ entries }) => (entries[0]!.accountCode = 'b'), /no account b/],
];

test.each(faults)('a posting that %s is found', (_what, change, finding) => {
  expect(changedFirst(change).join('\n')).toMatch(finding);
});

test.each(['closed', 'group'])('a posting to an account that is %s is found', (code) => {
  const message = posting(
    [`${code} debit 5.00 NGN 5.00`, 'b credit 5.00 NGN 5.00'],
    [`${code} NGN 0.00 5.00 5.00 0.00 1`, 'b NGN 0.00 5.00 0.00 5.00 1'],
  );
  expect(findings([event(message)])).toEqual([`event 6 posts to ${code}, a group or closed account`]);
});

test('a posting in a currency that the account does not hold is found', () => {
  const message = posting(
    ['pounds debit 5.00 NGN 5.00', 'b credit 5.00 NGN 5.00'],
    ['pounds NGN 0.00 5.00 5.00 0.00 1', 'b NGN 0.00 5.00 0.00 5.00 1'],
  );
  expect(findings([event(message)])).toEqual(['event 6 posts NGN to pounds']);
});

test('an account that may not go below zero is found there', () => {
  const message = posting(
    ['b debit 5.00 NGN -5.00', 'a credit 5.00 NGN -5.00'],
    ['b NGN 0.00 -5.00 5.00 0.00 1', 'a NGN 0.00 -5.00 0.00 5.00 1'],
  );
  expect(findings([event(message)])).toEqual(['event 6 leaves b below zero in NGN']);
});

test('an account made twice, or changed in what can’t change, is found', () => {
  expect(findings([createdEvent(a, null, by)])).toEqual(['event 6 makes account a again']);
  const next = (more: Partial<AccountRecord>) => account('a', { id: a.id, version: 2n, ...more });
  expect(findings([updatedEvent(next({ name: 'A' }), ['name'], by)])).toEqual([]);
  expect(findings([updatedEvent(next({ currency: 'NGN' }), ['currency'], by)])).toEqual([
    'event 6 changes what can’t change of an account',
  ]);
  expect(findings([updatedEvent(next({ name: 'A', version: 3n }), ['name'], by)])).toEqual([
    'event 6 has another version or time than its change',
  ]);
  expect(findings([updatedEvent(next({ name: 'A' }), ['status'], by)])).toEqual(['event 6 changes name and says status']);
  const closing = updatedEvent(next({ status: 'closed' }), ['status'], by);
  expect(findings([closing])).toEqual([]);
  expect(findings([event(first()), closing])).toEqual(['event 7 closes an account that has a balance']);
  expect(findings([createdEvent(account('c', { parentCode: 'a' }), null, by)])).toEqual(['event 6 puts an account where no group is']);
});

test('a chain with a gap, a swap, a step back in time or a changed byte is found', () => {
  const events = [event(first()), event(second())];
  expect(findings(events, (rows) => rows.splice(2, 1)).join()).toMatch(/event 4 follows event 2.*event 4 does not have the hash/);
  expect(findings(events, (rows) => rows.reverse()).length).toBeGreaterThan(3);
  expect(findings(events, (rows) => (rows[3]!.createdMs -= 1)).join()).toMatch(/event 4 is older than the event before it/);
  for (const change of [
    (row: LogRow) => (row.actor = 'x'),
    (row: LogRow) => (row.requestId = 'x'),
    (row: LogRow) => (row.eventId = '01a1fb00-56d3-7ddc-8316-6d72a3f74836'),
    (row: LogRow) => (row.createdMs += 0.001),
    (row: LogRow) => (row.payload = row.payload.slice(1)),
    (row: LogRow) => (row.hash = Buffer.alloc(32, 1)),
  ]) {
    expect(findings(events, (rows) => change(rows[1]!)).join()).toMatch(/event 2 does not have the hash/);
  }
});
