// Rows that a replay derives from a correct log.
import { plainAsset } from '../../../test/default-account.ts';
import { newId, toUuid } from '../../platform/ids.ts';
import { account, accounts, a, b, by, byCode, replayed, event, first, posting, tenant } from '../../../test/replay.ts';
import { updatedEvent } from '../chart.ts';
import { Replay } from './replay.ts';

describe('rows of a correct log', () => {
  const nowText = '2023-11-14T22:13:20.000Z';
  const uuidOf = (id: string) => toUuid('acc', id);
  const reversed = newId('txn');
  const message = posting(
    ['b debit 2.00 NGN 3.00', 'a credit 1.50 NGN 3.50', 'a credit 0.50 NGN 3.00'],
    ['b NGN 5.00 3.00 2.00 5.00 2', 'a NGN 5.00 3.00 5.00 2.00 2'],
    { kind: 'reversal', reference: 'r', reverses: reversed, fingerprint: new Uint8Array([1, 0xab]) },
  );
  const more = { name: 'Renamed', description: 'd', status: 'closed', version: 2n, metadata: '{"m":1}' };
  const {
    rows,
    findings: found,
    replay,
    added,
  } = replayed(
    [
      event(first()),
      event(message),
      updatedEvent(account('closed', { id: accounts[2]!.id, ...more }), ['name', 'description', 'metadata'], by),
    ],
    undefined,
    'wallet',
  );

  test('are a head at the last event, with the chart', () => {
    expect(found).toEqual([]);
    const { sequence, hash } = rows.at(-1)!;
    expect(replay.latest()['heads']).toEqual([
      { tenant_id: tenant, sequence: String(sequence), hash: `\\x${hash.toString('hex')}`, last_at: nowText, chart: 'wallet' },
    ]);
    expect(new Replay(tenant, () => undefined).latest()['heads']).toEqual([]);
  });

  test('are each account after its last event', () => {
    const usual = {
      tenant_id: tenant,
      ...plainAsset,
      ...{ limits: null, blocked: null },
      metadata: '{}',
      version: '1',
      created_at: nowText,
      updated_at: nowText,
    };
    const row = (code: string, own: object = {}) => ({ ...usual, id: uuidOf(byCode.get(code)!.id), code, name: code, ...own });
    expect(replay.latest()['accounts']).toEqual([
      row('a'),
      row('b', { type: 'liability', normal_balance: 'credit', allow_negative: false }),
      row('closed', { name: 'Renamed', description: 'd', status: 'closed', version: '2', metadata: '{"m":1}' }),
      row('group', { is_group: true }),
      row('pounds', { currency: 'GBP' }),
    ]);
  });

  test('are each balance as the sum of its entries', () => {
    const usual = { tenant_id: tenant, currency: 'NGN', version: '2', updated_at: nowText };
    expect(replay.latest()['balances']).toEqual([
      { ...usual, account_id: uuidOf(a.id), debits: '500', credits: '200', pending_debits: '0', pending_credits: '0' },
      { ...usual, account_id: uuidOf(b.id), debits: '200', credits: '500', pending_debits: '0', pending_credits: '0' },
    ]);
  });

  test('are a transaction and its entries for each posting, and none for other events', () => {
    expect(
      added.map(({ rows: { transactions, entries }, posted }) => [transactions.length, entries.length, posted?.idempotencyKey]),
    ).toEqual([
      ...accounts.map(() => [0, 0, undefined]),
      [1, 2, expect.stringMatching(/^txn_/)],
      [1, 3, message.idempotencyKey],
      [0, 0, undefined],
    ]);
    const [earlier, { transactions, entries }] = [added[5]!.rows, added[6]!.rows];
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
