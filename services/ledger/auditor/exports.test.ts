// Exports: the same as the lists, as of one position, and complete after any cut.
import { createHash } from 'node:crypto';
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { accountJson, transactionJson } from '../../platform/ledger-records.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
let tenantId: string;
beforeAll(async () => {
  ledger = await startLedger();
  auditor = await startAuditor(ledger.database);
  ({ tenantId } = newTenant());
  await posted(tenantId, 450);
});
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

/** Accounts and so many transactions, of which some count at other times, and some are reversed. */
async function posted(of: string, count: number): Promise<void> {
  for (const accountCode of ['a', 'b', 'c'])
    await ledger.client.createAccount({ tenantId: of, accountCode, name: `=${accountCode}`, type: 'asset', metadata: '{"n":1.50}' });
  const first = await post(of, { description: '=1+1' });
  const part = { tenantId: of, transactionId: first.transactionId, amount: '0.25' };
  await ledger.client.submit({ tenantId: of, commands: [{ command: { case: 'reversal', value: part } }] });
  const postings = Array.from({ length: count - 3 }, (_, number) => ({
    tenantId: of,
    ...(number % 7 === 0 && { effectiveMs: BigInt(Date.UTC(2026, 0, 1 + (number % 20))) }),
    entries: entries(`a debit 1.00 NGN`, number % 2 === 0 ? 'b credit 1.00 NGN' : 'c credit 1.00 NGN'),
  }));
  await ledger.client.postTransactions({ postings });
  await post(of, { currency: 'USD' });
}

async function post(of: string, { description = '', currency = 'NGN' } = {}) {
  const posting = { tenantId: of, description, entries: entries(`a debit 2.00 ${currency}`, `b credit 2.00 ${currency}`) };
  return (await ledger.client.postTransaction({ posting })).transaction!;
}

interface Export {
  through: bigint;
  text: string;
  lines: any[];
}

const options = { timeoutMs: 60_000 };

async function read(what: string, afterSequence = 0n, format = 'ndjson', of = tenantId): Promise<Export> {
  let through = -1n;
  const parts: Uint8Array[] = [];
  for await (const { throughSequence, bytes } of auditor.client.export({ tenantId: of, what, format, afterSequence }, options)) {
    if (through < 0n) through = throughSequence;
    parts.push(bytes);
  }
  const text = Buffer.concat(parts).toString();
  return {
    through,
    text,
    lines:
      format === 'csv'
        ? []
        : text
            .trimEnd()
            .split('\n')
            .map((line) => JSON.parse(line) as unknown),
  };
}

const dataLines = ({ text }: Export) => text.trimEnd().split('\n').slice(0, -1);

async function allTransactions(): Promise<string[]> {
  const all: string[] = [];
  for (let cursor = ''; ;) {
    const page = await ledger.client.listTransactions({ tenantId, limit: 100, cursor });
    all.unshift(...page.transactions.map((each) => transactionJson(each)).reverse());
    cursor = page.nextCursor;
    if (cursor === '') return all;
  }
}

test('transactions are those of the list, oldest first, and their entries', async () => {
  const transactions = await read('transactions');
  expect(dataLines(transactions)).toEqual(await allTransactions());
  const { lines } = await read('entries');
  const wanted = transactions.lines.slice(0, -1).flatMap(({ entries: own, ...of }) =>
    own.map(({ counter: _, ...entry }: any, position: number) => {
      const { transaction_id, sequence, effective_at, created_at, description, reference } = of;
      return { transaction_id, sequence, position, effective_at, created_at, description, reference, ...entry };
    }),
  );
  expect(lines.slice(0, -1)).toEqual(wanted);
});

test('events hold all that their hashes are made of, from the first to the one that the end names', async () => {
  const { through, lines } = await read('events');
  const sha256 = (...parts: (string | Buffer)[]) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
  let previous = Buffer.alloc(32);
  const end = lines.pop();
  for (const [index, line] of lines.entries()) {
    const payloadHash = sha256(Buffer.from(line.payload, 'base64'));
    expect([line.sequence, line.payload_hash, line.previous_hash]).toEqual([
      index + 1,
      payloadHash.toString('hex'),
      previous.toString('hex'),
    ]);
    previous = sha256(previous, sha256(line.header), payloadHash);
    expect([JSON.parse(line.header)[1], line.hash]).toEqual([line.sequence, previous.toString('hex')]);
  }
  expect(end).toEqual({ end: true, count: lines.length, sequence: Number(through), hash: previous.toString('hex') });
  expect(lines.length).toBe(Number(through));
});

test('accounts and balances are those of the ledger', async () => {
  const { accounts } = await ledger.client.listAccounts({ tenantId, limit: 100 });
  expect(dataLines(await read('accounts'))).toEqual(accounts.map(accountJson).reverse());
  const { lines } = await read('balances');
  expect(lines.length).toBe(6);
  for (const { account_code: accountCode, currency, ...line } of lines.slice(0, -1)) {
    const { balance } = await ledger.client.getBalance({ tenantId, accountCode, currency });
    const { accountId: account_id, balance: net, debits, credits } = balance!;
    expect(line).toEqual({ account_id, balance: net, debits, credits });
  }
});

test('everything is all of them, each with its type', async () => {
  const { lines } = await read('everything');
  const end = lines.pop();
  const parts = Map.groupBy(lines, ({ type }) => type as string);
  expect([...parts.keys()]).toEqual(['account', 'transaction', 'entry', 'balance']);
  for (const [type, what] of Object.entries({ account: 'accounts', transaction: 'transactions', entry: 'entries', balance: 'balances' })) {
    const own = await read(what);
    expect(parts.get(type)!.map(({ data }) => data)).toEqual(own.lines.slice(0, -1));
  }
  expect(end).toMatchObject({ end: true, count: lines.length });
});

test('an export that was cut anywhere and resumed equals a whole one', async () => {
  for (const what of ['events', 'transactions', 'entries']) {
    const whole = await read(what);
    const all = dataLines(whole);
    // In the middle of lines, at their ends, within the first one, and between two entries of one transaction.
    const cuts = [0, 1, 0.1, 0.5, 0.9].map((part) => Math.floor(whole.text.length * part));
    for (const cut of [...cuts, whole.text.indexOf('\n') + 1, all.slice(0, 7).join('\n').length + 1]) {
      const kept = whole.text
        .slice(0, cut)
        .split('\n')
        .slice(0, -1)
        .filter((line) => !line.startsWith('{"end"'));
      const sequences = kept.map((line) => JSON.parse(line).sequence as number);
      const sound = kept.filter((_, index) => sequences[index] !== sequences.at(-1));
      const rest = await read(what, BigInt(sequences[sound.length - 1] ?? 0));
      expect([what, cut, [...sound, ...dataLines(rest)]]).toEqual([what, cut, all]);
      expect(rest.lines.at(-1)).toMatchObject({ end: true, count: all.length - sound.length, sequence: Number(whole.through) });
    }
  }
});

test('what is posted meanwhile is not in an export, and changes nothing in it', async () => {
  const of = newTenant().tenantId;
  await posted(of, 450);
  const before = await read('everything', 0n, 'ndjson', of);
  const messages = auditor.client.export({ tenantId: of, what: 'everything', format: 'ndjson' }, options)[Symbol.asyncIterator]();
  const first = await messages.next();
  const { transactionId } = await post(of);
  const last = before.lines.findLast(({ type }) => type === 'transaction').data.transaction_id;
  await ledger.client.reverseTransaction({ tenantId: of, transactionId: last });
  await ledger.client.updateAccount({ tenantId: of, accountCode: 'a', name: 'renamed' });
  let text = '';
  for (let next = await messages.next(); next.done !== true; next = await messages.next()) text += Buffer.from(next.value.bytes).toString();
  expect(text).toBe(before.text);
  expect(first.value!.throughSequence).toBe(before.through);
  const after = await read('everything', 0n, 'ndjson', of);
  expect(after.lines.filter(({ type }) => type === 'transaction').map(({ data }) => data.transaction_id)).toContain(transactionId);
  expect(after.lines.find(({ data }) => data.account_code === 'a').data.name).toBe('renamed');
});

test('filters leave out what the list leaves out, and a cut export goes on with them', async () => {
  const filters = [
    { currency: 'USD' },
    { accountCode: 'c' },
    { kind: 'reversal' },
    { accountCode: 'b', kind: 'double' },
    { reference: 'x' },
    { words: 'x' },
  ];
  for (const filter of filters) {
    const listed: bigint[] = [];
    for (let cursor = ''; ;) {
      const page = await ledger.client.listTransactions({ tenantId, limit: 100, cursor, ...filter });
      listed.unshift(...page.transactions.map(({ sequence }) => sequence).reverse());
      if ((cursor = page.nextCursor) === '') break;
    }
    const exportedOf = async (what: string, afterSequence = 0n) => {
      const request = { tenantId, what, format: 'ndjson', afterSequence, filter: { tenantId, ...filter } };
      const parts = await Array.fromAsync(auditor.client.export(request, options));
      const lines = Buffer.concat(parts.map(({ bytes }) => bytes))
        .toString()
        .trimEnd()
        .split('\n');
      return lines.slice(0, -1).map((line) => BigInt(JSON.parse(line).sequence));
    };
    expect([filter, await exportedOf('transactions')]).toEqual([filter, listed]);
    const middle = listed[Math.floor(listed.length / 2)] ?? 0n;
    expect(await exportedOf('transactions', middle)).toEqual(listed.filter((sequence) => sequence > middle));
    expect([...new Set(await exportedOf('entries'))]).toEqual(listed);
  }
});

test('CSV has a header, a row for each record, and no formulas', async () => {
  for (const [what, columns] of Object.entries({ transactions: 15, entries: 13, accounts: 16, balances: 6 })) {
    const [{ text }, { lines }] = [await read(what, 0n, 'csv'), await read(what)];
    const rows = text.split('\r\n');
    expect([what, rows[0]!.split(',').length, rows.length]).toEqual([what, columns, lines.length + 1]);
  }
  expect((await read('transactions', 0n, 'csv')).text).toContain(`,'=1+1,`);
  expect((await read('accounts', 0n, 'csv')).text).toContain(`,'=a,asset,debit,`);
});

test('an empty log has an empty export, and one after its end too', async () => {
  const of = newTenant().tenantId;
  const end = { end: true, count: 0, sequence: 0, hash: '0'.repeat(64) };
  for (const what of ['events', 'everything', 'balances']) {
    expect(await read(what, 0n, 'ndjson', of)).toMatchObject({ through: 0n, lines: [end] });
  }
  const { through, lines } = await read('entries', 1_000_000n);
  expect(lines).toMatchObject([{ end: true, count: 0, sequence: Number(through) }]);
});

test('bad requests name their field', async () => {
  const bad: [object, string, string][] = [
    [{ tenantId, what: 'holds', format: 'csv' }, 'what', 'oneof'],
    [{ tenantId, what: 'entries', format: 'xml' }, 'format', 'oneof'],
    [{ tenantId, what: 'events', format: 'csv' }, 'format', 'oneof'],
    [{ tenantId, what: 'everything', format: 'csv' }, 'format', 'oneof'],
    [{ tenantId, what: 'entries', format: 'csv', afterSequence: -1n }, 'after_sequence', 'min'],
    [{ tenantId, what: 'accounts', format: 'csv', afterSequence: 1n }, 'after_sequence', 'oneof'],
    [{ what: 'entries', format: 'csv' }, 'tenant_id', 'required'],
    [{ tenantId, what: 'accounts', format: 'csv', filter: { kind: 'double' } }, 'filter', 'oneof'],
    [{ tenantId, what: 'entries', format: 'csv', filter: { kind: 'x' } }, 'kind', 'oneof'],
    [{ tenantId, what: 'entries', format: 'csv', filter: { metadata: [{ key: 'k', values: ['v'] }] } }, 'metadata.k', 'oneof'],
  ];
  for (const [request, field, tag] of bad) {
    const call = Array.fromAsync(auditor.client.export(request));
    expect(await refusal(call)).toMatchObject({ reason: 'validation_failed', field, tag });
  }
});
