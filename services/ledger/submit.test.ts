// Commands of one call: alone or all together, tried or done, repeated or refused.
import { toJson, type MessageInitShape } from '@bufbuild/protobuf';
import { TransactionSchema, type CommandResult, type CommandSchema, type PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { withClient } from '../../deploy/local/databases.ts';
import { entries, newTenant, refusal, startLedger } from '../../test/ledger.ts';
import { newId } from '../platform/ids.ts';

type Command = MessageInitShape<typeof CommandSchema>;

let ledger: Awaited<ReturnType<typeof startLedger>>;

beforeAll(async () => {
  ledger = await startLedger();
});

afterAll(() => ledger.end());

const tables = ['heads', 'log', 'transactions', 'entries', 'balances', 'accounts', 'relay_marks', 'parts'];

/** All rows of a tenant, but for how long its events are relayed at once. */
async function rowsOf(tenant: string): Promise<string> {
  return withClient(ledger.database.adminUrl, async (client) => {
    const all = [];
    for (const table of tables) {
      const { rows } = await client.query<{ row: string }>(
        `select (to_jsonb(t) - 'open_until')::text as row from ${table} t where tenant_id = $1 order by 1`,
        [tenant],
      );
      all.push([table, rows.map(({ row }) => row)]);
    }
    return JSON.stringify(all);
  });
}

async function tenantWith(...codes: string[]) {
  const { tenantId, tenant } = newTenant();
  for (const accountCode of codes) {
    const allowNegative = !accountCode.startsWith('purse');
    await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset', allowNegative });
  }
  return { tenantId, tenant };
}

const move = (from: string, to: string, amount: string, more: MessageInitShape<typeof PostingSchema> = {}): Command => ({
  command: { case: 'posting', value: { entries: entries(`${to} debit ${amount} NGN`, `${from} credit ${amount} NGN`), ...more } },
});
const reverse = (transactionId: string, more: object = {}): Command => ({
  command: { case: 'reversal', value: { transactionId, ...more } },
});

const reasonsOf = (results: CommandResult[]) =>
  results.map(({ transaction, refusal: refused, replayed }) => {
    if (refused) return [refused.reason, refused.field].filter((each) => each !== '').join(' ');
    return transaction ? (replayed ? 'replayed' : 'posted') : 'nothing';
  });

const submit = async (tenantId: string, commands: Command[], more: object = {}) =>
  (await ledger.client.submit({ tenantId, commands, actor: 'k', ...more })).results;
const atomic = (tenantId: string, commands: Command[], more: object = {}) => submit(tenantId, commands, { atomic: true, ...more });

describe('independent commands', () => {
  test('are done or refused one by one, in their order', async () => {
    const { tenantId } = await tenantWith('a', 'purse');
    const results = await submit(tenantId, [
      move('a', 'purse', '5.00'),
      move('purse', 'a', '9.00'),
      move('a', 'purse', '1.234'),
      move('purse', 'a', '5.00', { tenantId: newId('tenant') }),
      {},
      move('purse', 'a', '5.00', { dryRun: true }),
      reverse(newId('txn')),
      move('purse', 'a', '5.00'),
    ]);
    expect(reasonsOf(results)).toEqual([
      'posted',
      'insufficient_funds entries[1].account_code',
      'validation_failed entries[0].amount',
      'validation_failed tenant_id',
      'validation_failed command',
      'validation_failed dry_run',
      'transaction_not_found',
      'posted',
    ]);
  });

  test('may reverse what one before them has posted, but no reversal', async () => {
    const { tenantId } = await tenantWith('a', 'b');
    const [transactionId, reversalId] = [newId('txn'), newId('txn')];
    const commands = [
      move('a', 'b', '5.00', { transactionId }),
      reverse(transactionId, { amount: '2.00', reversalId }),
      reverse(reversalId),
    ];
    expect(reasonsOf(await submit(tenantId, commands))).toEqual(['posted', 'posted', 'already_reversed']);
    const other = await tenantWith('a', 'b');
    expect(reasonsOf(await submit(other.tenantId, [reverse(transactionId)]))).toEqual(['transaction_not_found']);
  });

  test('have what the call has, and what they have themselves', async () => {
    const { tenantId } = await tenantWith('a', 'b');
    const own = { actor: 'own', requestId: 'own request' };
    await submit(tenantId, [move('a', 'b', '5.00'), move('a', 'b', '5.00', own)], { requestId: 'shared' });
    const { events } = await ledger.client.listEvents({ tenantId });
    expect(events.slice(2).map(({ actor, requestId }) => [actor, requestId])).toEqual([
      ['k', 'shared'],
      ['own', 'own request'],
    ]);
  });

  test.each<[string, Command[], object]>([
    ['no commands', [], { tag: 'required', value: '' }],
    ['too many commands', Array(1_001).fill(move('a', 'b', '1.00')), { tag: 'max', value: '1001' }],
    [
      'too many entries',
      Array(11).fill({ command: { case: 'posting', value: { entries: Array(200).fill(entries('a debit 1.00 NGN')[0]) } } }),
      { tag: 'max', value: '2200' },
    ],
  ])('of a call with %s are all refused', async (_, commands, blame) => {
    const { tenantId } = newTenant();
    expect(await refusal(submit(tenantId, commands))).toMatchObject({ reason: 'validation_failed', field: 'commands', ...blame });
  });

  test('whose results do not fit into the answer are done, and answered when they are sent again', async () => {
    const small = await startLedger({ maxMessageBytes: 1 << 18 });
    try {
      const { tenantId } = newTenant();
      const [one, other] = ['a'.repeat(64), 'b'.repeat(64)];
      for (const accountCode of [one, other]) await small.client.createAccount({ tenantId, accountCode, name: 'n', type: 'asset' });
      const lines = Array.from({ length: 200 }, (_, place) => `${place % 2 === 0 ? `${one} debit` : `${other} credit`} 1.00 NGN`);
      const ids = Array.from({ length: 10 }, () => newId('txn'));
      for (const transactionId of ids)
        await small.client.postTransaction({ posting: { tenantId, transactionId, entries: entries(...lines) } });
      const commands = ids.map((id) => reverse(id, { idempotencyKey: `reverse ${id}` }));
      const seen = reasonsOf((await small.client.submit({ tenantId, commands })).results);
      const posted = seen.filter((each) => each === 'posted').length;
      expect(posted).toBeGreaterThan(0);
      expect(seen).toEqual([...Array(posted).fill('posted'), ...Array(10 - posted).fill('unavailable')]);
      const large = {
        command: { case: 'posting', value: { entries: entries(...lines.slice(0, 2)), metadata: `{"x":"${'x'.repeat(16_000)}"}` } },
      } as Command;
      const tooLarge = small.client.submit({ tenantId, commands: Array<Command>(16).fill(large) });
      expect(await refusal(tooLarge)).toMatchObject({ reason: 'validation_failed', field: 'commands', tag: 'max', value: '16' });
      const rest = (await small.client.submit({ tenantId, commands: commands.slice(posted) })).results;
      expect(reasonsOf(rest).slice(0, posted)).toEqual(Array(Math.min(posted, 10 - posted)).fill('replayed'));
    } finally {
      await small.end();
    }
  });
});

describe('an atomic call', () => {
  test('posts all of its commands, consecutively, each on what those before it have left', async () => {
    const { tenantId } = await tenantWith('a', 'b', 'purse');
    const [first] = await submit(tenantId, [move('a', 'b', '3.00')]);
    const others = Promise.all(Array.from({ length: 20 }, () => submit(tenantId, [move('a', 'b', '1.00')])));
    const results = await atomic(tenantId, [
      move('a', 'purse', '5.00'),
      move('purse', 'b', '5.00'),
      reverse(first!.transaction!.transactionId),
      { command: { case: 'posting', value: { entries: entries('b debit 1.00 NGN') } } },
    ]);
    await others;
    expect(reasonsOf(results)).toEqual(Array(4).fill('posted'));
    const sequences = results.map(({ transaction }) => Number(transaction!.sequence));
    // The suspense account is created before the last.
    expect(sequences.map((each) => each - sequences[0]!)).toEqual([0, 1, 2, 4]);
    expect(results[1]!.transaction!.entries[1]!.balanceAfter).toBe('0.00');
  });

  test.each<[string, (used: string) => Command[], string[]]>([
    [
      'for funds',
      () => [move('purse', 'b', '3.00'), move('purse', 'b', '3.00')],
      ['nothing', 'insufficient_funds entries[1].account_code'],
    ],
    ['for a malformed command', () => [move('a', 'b', '1.00'), move('a', 'b', '0.00')], ['nothing', 'validation_failed entries[0].amount']],
    [
      'for a used key',
      () => [move('a', 'b', '1.00'), move('a', 'b', '2.00', { idempotencyKey: 'used' }), move('a', 'b', '3.00')],
      ['nothing', 'idempotency_key_reused idempotency_key', 'nothing'],
    ],
    [
      'for a transaction id that was posted under another key',
      (used) => [move('a', 'b', '1.00'), move('a', 'b', '2.00', { transactionId: used })],
      ['nothing', 'idempotency_key_reused transaction_id'],
    ],
    [
      'for a transaction id that it has twice',
      () => [move('a', 'b', '1.00', twice('x')), move('a', 'b', '1.00', twice('y')), move('a', 'b', '2.00')],
      ['nothing', 'idempotency_key_reused transaction_id', 'nothing'],
    ],
    [
      'after it has created an account',
      () => [
        { command: { case: 'posting', value: { entries: entries('b debit 1.00 USD') } } },
        move('a', 'b', '1.00', { require: [{ accountCode: 'a', currency: 'NGN', version: 99n }] }),
      ],
      ['nothing', 'condition_failed require[0].version'],
    ],
    ['for a repeated reversal', (used) => [reverse(used), reverse(used)], ['nothing', 'already_reversed']],
    [
      'for an account that does not exist',
      () => [move('a', 'b', '1.00'), move('a', 'c', '1.00')],
      ['nothing', 'account_not_found entries[0].account_code'],
    ],
    ['for its time', () => [move('a', 'b', '1.00'), move('a', 'b', '1.00', { validUntilMs: 1n })], ['nothing', 'too_late valid_until']],
  ])('that is refused %s changes nothing', async (_, commands, reasons) => {
    const { tenantId, tenant } = await tenantWith('a', 'b', 'purse');
    const [first] = await submit(tenantId, [move('a', 'purse', '5.00', { idempotencyKey: 'used' })]);
    const all = commands(first!.transaction!.transactionId);
    const keyed = all.map((command, index) => withKey(command, `key ${index}`));
    const before = await rowsOf(tenant);
    expect(reasonsOf(await atomic(tenantId, keyed))).toEqual(reasons);
    expect(await rowsOf(tenant)).toBe(before);
    // No key is used.
    expect(reasonsOf(await submit(tenantId, [move('a', 'b', '7.00', { idempotencyKey: 'key 0' })]))).toEqual(['posted']);
  });

  test('is answered again when it is repeated, and posts what was not posted before', async () => {
    const { tenantId } = await tenantWith('a', 'b', 'purse');
    const commands = ['x', 'y', 'z'].map((idempotencyKey) => move('a', 'b', '1.00', { idempotencyKey }));
    const first = await atomic(tenantId, commands);
    expect(reasonsOf(first)).toEqual(Array(3).fill('posted'));
    const again = await atomic(tenantId, [...commands, move('a', 'purse', '1.00', { idempotencyKey: 'w' }), commands[0]!]);
    expect(reasonsOf(again)).toEqual(['replayed', 'replayed', 'replayed', 'posted', 'replayed']);
    expect(again.slice(0, 3).map(({ transaction }) => transaction)).toEqual(first.map(({ transaction }) => transaction));
    // A replay judges nothing again: the purse is full already.
    const spend = move('purse', 'b', '1.00', { idempotencyKey: 'spend' });
    expect(reasonsOf(await atomic(tenantId, [spend, commands[1]!]))).toEqual(['posted', 'replayed']);
    expect(reasonsOf(await atomic(tenantId, [commands[1]!, spend]))).toEqual(['replayed', 'replayed']);
    expect((await ledger.client.listTransactions({ tenantId })).transactions).toHaveLength(5);
  });

  test('many at once over the same accounts post all or none each', async () => {
    const { tenantId } = await tenantWith('a', 'b', 'purse');
    await submit(tenantId, [move('a', 'purse', '10.00')]);
    const calls = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        atomic(tenantId, [
          move('purse', 'b', '1.00', { reference: `${index}` }),
          move('purse', 'b', '1.00', { reference: `${index}` }),
          move('a', 'b', '1.00', { reference: `${index}` }),
        ]),
      ),
    );
    const done = calls.filter((results) => reasonsOf(results).every((each) => each === 'posted'));
    expect(done).toHaveLength(5);
    const { balance } = await ledger.client.getBalance({ tenantId, accountCode: 'purse', currency: 'NGN' });
    expect([balance!.balance, balance!.version]).toEqual(['0.00', 11n]);
    for (const index of calls.keys()) {
      const { transactions } = await ledger.client.listTransactions({ tenantId, reference: `${index}` });
      expect([0, 3]).toContain(transactions.length);
    }
  });

  test('of whole reversals has no more entries than are allowed', async () => {
    const { tenantId } = await tenantWith('a', 'b');
    const lines = Array.from({ length: 200 }, (_, place) => `${place % 2 === 0 ? 'a debit' : 'b credit'} 1.00 NGN`);
    const posted = await submit(tenantId, Array(10).fill({ command: { case: 'posting', value: { entries: entries(...lines) } } }));
    const [more] = await submit(tenantId, [move('a', 'b', '1.00')]);
    const reversals = [...posted, more!].map(({ transaction }) => reverse(transaction!.transactionId));
    const refused = await atomic(tenantId, reversals);
    expect(reasonsOf(refused)).toEqual([...Array(10).fill('nothing'), 'validation_failed entries']);
    expect(reasonsOf(await atomic(tenantId, reversals.slice(0, 10)))).toEqual(Array(10).fill('posted'));
  });
});

describe('a dry run', () => {
  test('answers as the call would be answered, and changes nothing', async () => {
    const { tenantId, tenant } = await tenantWith('a', 'b', 'purse');
    const [first] = await submit(tenantId, [move('a', 'b', '3.00', { idempotencyKey: 'used' })]);
    const commands = [
      move('a', 'purse', '5.00', { idempotencyKey: 'x', reference: 'r' }),
      move('purse', 'b', '5.00'),
      move('a', 'b', '3.00', { idempotencyKey: 'used' }),
      reverse(first!.transaction!.transactionId, { idempotencyKey: 'y' }),
      { command: { case: 'posting', value: { entries: entries('b debit 1.00 EUR') } } } as Command,
    ];
    const before = await rowsOf(tenant);
    const tried = await atomic(tenantId, commands, { dryRun: true });
    expect(await rowsOf(tenant)).toBe(before);
    const done = await atomic(tenantId, commands);
    expect(reasonsOf(done)).toEqual(['posted', 'posted', 'replayed', 'posted', 'posted']);
    expect(reasonsOf(tried)).toEqual(reasonsOf(done));
    expect(tried[2]).toEqual(done[2]);
    for (const index of [0, 1, 3, 4]) {
      const real = done[index]!.transaction!;
      const { idempotencyKey, transactionId } = real;
      const key = idempotencyKey === transactionId ? '' : idempotencyKey;
      const { accountId, ...rest } = real.entries[1]!;
      const expected = { ...real, transactionId: '', sequence: 0n, idempotencyKey: key, createdMs: 0n };
      const shown = { ...tried[index]!.transaction!, createdMs: 0n };
      // The suspense account of the last is another each time.
      if (index === 4) for (const each of [expected, shown]) each.entries = [each.entries[0]!, { ...rest, accountId: '' }];
      expect(toJson(TransactionSchema, shown)).toEqual(toJson(TransactionSchema, expected));
      expect(accountId).not.toBe('');
    }
  });

  test('is refused as the call would be', async () => {
    const { tenantId, tenant } = await tenantWith('a', 'purse');
    const commands = [move('a', 'purse', '5.00'), move('purse', 'a', '9.00')];
    const before = await rowsOf(tenant);
    expect(reasonsOf(await atomic(tenantId, commands, { dryRun: true }))).toEqual([
      'nothing',
      'insufficient_funds entries[1].account_code',
    ]);
    // Each is tried alone: the second finds an empty purse, not what the first would have left.
    const alone = await submit(tenantId, [move('a', 'purse', '9.00'), move('purse', 'a', '9.00')], { dryRun: true });
    expect(reasonsOf(alone)).toEqual(['posted', 'insufficient_funds entries[1].account_code']);
    // Nor is the head moved past an earlier attempt, which would have posted nothing.
    expect(reasonsOf(await submit(tenantId, [move('purse', 'a', '9.00')], { dryRun: true, retry: true }))).toHaveLength(1);
    expect(await rowsOf(tenant)).toBe(before);
  });

  test('among postings does not change what they answer', async () => {
    const { tenantId } = await tenantWith('a', 'b');
    const calls = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        submit(tenantId, [move('a', 'b', '1.00')], { dryRun: index % 3 === 0, atomic: index % 2 === 0 }),
      ),
    );
    const sequences = calls.flatMap(([result]) => (result!.transaction!.sequence > 0n ? [Number(result!.transaction!.sequence)] : []));
    expect(sequences.sort((one, other) => one - other)).toEqual(Array.from({ length: 40 }, (_, index) => index + 3));
    const { balance } = await ledger.client.getBalance({ tenantId, accountCode: 'b', currency: 'NGN' });
    expect([balance!.balance, balance!.version]).toEqual(['40.00', 40n]);
  });
});

const sharedId = newId('txn');
function twice(idempotencyKey: string) {
  return { transactionId: sharedId, idempotencyKey };
}

function withKey({ command }: Command, idempotencyKey: string): Command {
  const value = command?.value as { idempotencyKey?: string };
  return { command: { ...command, value: { idempotencyKey, ...value } } } as Command;
}
