// Logs whose chain is whole and whose bookkeeping is not: what a faulty writer would leave behind.
import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { TransactionPostedSchema, type AccountRecord, type TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import { newTenant } from '../../test/ledger.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { createdEvent, newAccount, updatedEvent } from './chart.ts';
import { Derivation, type Added } from './derive.ts';
import { append, genesis, type Head, type LogRow, type NewEvent } from './log.ts';
import type { BusinessType } from './templates.ts';

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

/** A log of the accounts and then these events, chained as the ledger chains them, and what is derived from it. */
function derived(events: NewEvent[], tamper: (rows: LogRow[]) => void = () => undefined, template: BusinessType | null = null) {
  const head: Head = { tenant, sequence: 0n, hash: genesis, lastMs: 0, chart: null, rebuilt: 0n };
  const rows = [...accounts.map((each) => createdEvent(each, template, by)), ...events].map((each) => append(head, each, nowMs));
  tamper(rows);
  const findings: string[] = [];
  const derivation = new Derivation(tenant, (problem) => findings.push(problem));
  const added: Added[] = rows.map((row) => derivation.apply(row));
  return { rows, findings, derivation, added };
}
const findings = (...log: Parameters<typeof derived>) => derived(...log).findings;

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

describe('the rows that an honest log makes', () => {
  const nowText = '2023-11-14T22:13:20.000Z';
  const uuidOf = (id: string) => toUuid('acc', id);
  const reversed = newId('txn');
  const message = posting(
    ['b debit 2.00 NGN 3.00', 'a credit 1.50 NGN 3.50', 'a credit 0.50 NGN 3.00'],
    ['b NGN 5.00 3.00 2.00 5.00 2', 'a NGN 5.00 3.00 5.00 2.00 2'],
    { kind: 'reversal', reference: 'r', reverses: reversed, fingerprint: new Uint8Array([1, 0xab]) },
  );
  message.balances[0]!.pendingDebits = '0.25';
  message.balances[0]!.available = '2.75';
  message.balances[1]!.pendingCredits = '0.50';
  message.balances[1]!.available = '2.50';
  const more = { name: 'Renamed', description: 'd', status: 'closed', version: 2n, metadata: '{"m":1}' };
  const {
    rows,
    findings: found,
    derivation,
    added,
  } = derived(
    [
      event(first()),
      event(message),
      updatedEvent(account('closed', { id: accounts[2]!.id, ...more }), ['name', 'description', 'metadata'], by),
    ],
    undefined,
    'wallet',
  );

  test('are found without fault', () => {
    expect(found).toEqual([]);
  });

  test('are none where nothing has happened', () => {
    const nobody = new Derivation(tenant, () => undefined);
    expect([nobody.head(), nobody.accountRows(), nobody.balanceRows()]).toEqual([[], [], []]);
  });

  test('are a head that stands at the last event and names the chart', () => {
    const { sequence, hash } = rows.at(-1)!;
    expect(derivation.head()).toEqual([
      { tenant_id: tenant, sequence: String(sequence), hash: `\\x${hash.toString('hex')}`, last_at: nowText, chart: 'wallet' },
    ]);
  });

  test('are each account as it was last told', () => {
    const usual = {
      tenant_id: tenant,
      type: 'asset',
      normal_balance: 'debit',
      currency: null,
      parent_code: null,
      is_group: false,
      description: null,
      allow_negative: true,
      status: 'active',
      system: false,
      metadata: '{}',
      version: '1',
      created_at: nowText,
      updated_at: nowText,
    };
    const row = (code: string, own: object = {}) => ({ ...usual, id: uuidOf(byCode.get(code)!.id), code, name: code, ...own });
    expect(derivation.accountRows()).toEqual([
      row('a'),
      row('b', { type: 'liability', normal_balance: 'credit', allow_negative: false }),
      row('closed', { name: 'Renamed', description: 'd', status: 'closed', version: '2', metadata: '{"m":1}' }),
      row('group', { is_group: true }),
      row('pounds', { currency: 'GBP' }),
    ]);
  });

  test('are each balance as the entries add up, with what is pending as it was told', () => {
    const usual = { tenant_id: tenant, currency: 'NGN', version: '2', updated_at: nowText };
    expect(derivation.balanceRows()).toEqual([
      { ...usual, account_id: uuidOf(a.id), debits: '500', credits: '200', pending_debits: '0', pending_credits: '50' },
      { ...usual, account_id: uuidOf(b.id), debits: '200', credits: '500', pending_debits: '25', pending_credits: '0' },
    ]);
  });

  test('are a transaction and its entries for each posting, and none for any other event', () => {
    expect(added.map(({ transactions, entries, posted }) => [transactions.length, entries.length, posted?.idempotencyKey])).toEqual([
      ...accounts.map(() => [0, 0, undefined]),
      [1, 2, expect.stringMatching(/^txn_/)],
      [1, 3, message.idempotencyKey],
      [0, 0, undefined],
    ]);
    const [earlier, { transactions, entries }] = [added[5]!, added[6]!];
    expect(earlier.transactions[0]).toMatchObject({ reference: null, reverses: null });
    expect(transactions).toEqual([
      {
        tenant_id: tenant,
        sequence: '7',
        id: toUuid('txn', message.transactionId),
        idempotency_key: message.transactionId,
        fingerprint: '\\x01ab',
        reference: 'r',
        reverses: toUuid('txn', reversed),
        created_at: nowText,
      },
    ]);
    const usual = { tenant_id: tenant, currency: 'NGN', sequence: '7' };
    expect(entries).toEqual([
      { ...usual, account_id: uuidOf(b.id), position: 0, side: 'debit', amount: '200', balance_after: '300' },
      { ...usual, account_id: uuidOf(a.id), position: 1, side: 'credit', amount: '150', balance_after: '350' },
      { ...usual, account_id: uuidOf(a.id), position: 2, side: 'credit', amount: '50', balance_after: '300' },
    ]);
  });
});

test('a single posting has two entries, one of them the counter-entry', () => {
  const single = (change: (message: TransactionPosted) => void) =>
    changedFirst((message) => {
      message.kind = 'single';
      message.entries[1]!.counter = true;
      change(message);
    });
  expect(single(() => undefined)).toEqual([]);
  expect(single(({ entries }) => (entries[0]!.counter = true))).toEqual(['event 6 is single with 2 entries, 2 of them counter-entries']);
  const three = second();
  three.kind = 'single';
  three.entries[0]!.counter = true;
  expect(findings([event(first()), event(three)])).toEqual(['event 7 is single with 3 entries, 1 of them counter-entries']);
});

test('an account that may not go below zero may be there already, and come nearer to it', () => {
  const free = account('b', { id: b.id, type: 'liability', normalBalance: 'credit', allowNegative: true, version: 2n });
  const below = posting(
    ['b debit 5.00 NGN -5.00', 'a credit 5.00 NGN -5.00'],
    ['b NGN 0.00 -5.00 5.00 0.00 1', 'a NGN 0.00 -5.00 0.00 5.00 1'],
  );
  const nearer = posting(
    ['a debit 2.00 NGN -3.00', 'b credit 2.00 NGN -3.00'],
    ['a NGN -5.00 -3.00 2.00 5.00 2', 'b NGN -5.00 -3.00 5.00 2.00 2'],
  );
  const back = posting(
    ['a debit 5.00 NGN 0.00', 'b credit 5.00 NGN 0.00'],
    ['a NGN -5.00 0.00 5.00 5.00 2', 'b NGN -5.00 0.00 5.00 5.00 2'],
  );
  const forbidden = { ...free, allowNegative: false, version: 3n };
  const freed = updatedEvent(free, ['allow_negative'], by);
  const bound = updatedEvent(forbidden, ['allow_negative'], by);
  expect(findings([freed, event(below), bound])).toEqual(['event 8 forbids an account below zero to be there']);
  expect(findings([freed, event(below), event(back), bound])).toEqual([]);
  expect(findings([freed, event(below), bound, event(nearer)])).toEqual(['event 8 forbids an account below zero to be there']);
});

test('an account is new when it is made, below a group of its own type, and of the one chart', () => {
  const made = (more: Partial<AccountRecord>, template: BusinessType | null = null) =>
    findings([createdEvent(account('c', more), template, by)], undefined, 'wallet');
  expect(made({})).toEqual([]);
  expect(made({ parentCode: 'group' })).toEqual([]);
  expect(made({ parentCode: 'group', type: 'liability' })).toEqual(['event 6 puts an account where no group is']);
  expect(made({ parentCode: 'nowhere' })).toEqual(['event 6 puts an account where no group is']);
  expect(made({ parentCode: '' })).toEqual(['event 6 puts an account where no group is']);
  expect(made({}, 'wallet')).toEqual([]);
  expect(made({}, 'lending')).toEqual(['event 6 is of the chart lending, not wallet']);
  for (const older of [{ version: 2n }, { createdMs: BigInt(nowMs - 1) }, { updatedMs: BigInt(nowMs + 1) }]) {
    expect(made(older)).toEqual(['event 6 makes an account that is not new']);
  }
  expect(made({ id: a.id })).toEqual(['event 6 makes account c again']);
  expect(findings([createdEvent(account('a'), null, by)])).toEqual(['event 6 makes account a again']);
  expect(made({ id: newId('txn') })).toEqual(["event 6 can't be read: no account"]);
});

test.each<[keyof AccountRecord, Partial<AccountRecord>, string]>([
  ['accountCode', { accountCode: 'z' }, 'account_code'],
  ['type', { type: 'expense' }, 'type'],
  ['normalBalance', { normalBalance: 'credit' }, 'normal_balance'],
  ['isGroup', { isGroup: true }, 'is_group'],
  ['system', { system: true }, 'system'],
  ['createdMs', { createdMs: BigInt(nowMs - 1) }, 'created_ms'],
])('a change of an account’s %s is found', (_field, more, named) => {
  const next = account('a', { id: a.id, version: 2n, ...more });
  expect(findings([updatedEvent(next, [named], by)])).toEqual(['event 6 changes what can’t change of an account']);
});

test('a change of an account that is none, or at another time than its event’s, is found', () => {
  expect(findings([updatedEvent(account('c', { version: 2n }), [], by)])).toEqual([
    "event 6 can't be read: no account that was made before",
  ]);
  const late = account('a', { id: a.id, version: 2n, updatedMs: BigInt(nowMs - 1), name: 'A', metadata: '{"m":1}' });
  expect(findings([updatedEvent(late, ['metadata', 'name'], by)])).toEqual(['event 6 has another version or time than its change']);
});
