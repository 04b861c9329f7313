// Holds through REST: reserved, captured in parts, released, and never more than there is.
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { id, line, time, type Customer } from '../test/customer.ts';
import { lines, newHolder, newKey, out, refusal, type Fields, type Holder } from '../test/holder.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: CheckedCluster;
let customer: Customer;
let newPayer: Holder['newPayer'];
let hold: Holder['hold'];
let held: Holder['held'];
let capture: Holder['capture'];
let release: Holder['release'];
let read: Holder['read'];
let balance: Holder['balance'];
let sums: Holder['sums'];

beforeAll(async () => {
  cluster = await startCheckedCluster();
  ({ customer, newPayer, hold, held, capture, release, read, balance, sums } = await newHolder(cluster));
});

describe('a hold', () => {
  test('answers every field, and lowers what is available, not the balance', async () => {
    const payer = await newPayer();
    const version = Number((await balance(payer))['version']);
    const sent = {
      idempotency_key: newKey(),
      description: 'Card',
      reference: 'R-1',
      metadata: { order: 42 },
      expires_at: '2099-01-01T00:00:00Z',
    };
    const made = await held(payer, '60', sent);
    const entry = { account_id: id('acc'), captured: '0.00', remaining: '60.00' };
    expect(made).toEqual({
      ...sent,
      hold_id: id('hold'),
      status: 'pending',
      currency: 'USD',
      amount: '60.00',
      entries: out(payer, '60.00').map((each) => ({ ...each, ...entry })),
      expires_at: '2099-01-01T00:00:00.000Z',
      captures: 0,
      created_at: time,
      ended_at: null,
      sequence: expect.any(Number),
      origin: null,
    });
    expect(await read(made)).toEqual(made);
    expect(await balance(payer)).toMatchObject({
      balance: '100.00',
      available: '40.00',
      pending_debits: '60.00',
      debits: '0.00',
      version: version + 1,
    });
    expect(await balance('SETTLEMENT-USD')).toMatchObject({ pending_debits: '0.00' });
    expect((await customer.get(`transactions?account_code=${payer}`)).transactions).toHaveLength(1);
  });

  test('of two for one balance one is refused, and a posting cannot spend what is held', async () => {
    const payer = await newPayer();
    const answers = await Promise.all([hold(payer, '60.00'), hold(payer, '60.00')]);
    const poor = [422, 'insufficient_funds', { field: 'entries[0].account_code', tag: 'insufficient_funds', value: payer }];
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 422]);
    expect(refusal(answers.find(({ status }) => status === 422)!)).toEqual(poor);
    expect(refusal(await customer.post('transactions/double-entry', { entries: out(payer, '40.01') }))).toEqual(poor);
    expect((await customer.post('transactions/double-entry', { entries: out(payer, '40.00') })).status).toBe(201);
    expect(await sums(payer)).toEqual(['60.00', '0.00', '60.00']);
  });

  test('what comes in is not available before it is captured', async () => {
    const payer = await newPayer('0.00');
    const entries = [line('SETTLEMENT-USD', 'debit', '10.00'), line(payer, 'credit', '10.00')];
    const made = (await customer.post('holds', { entries })).body.data.hold;
    expect(await balance(payer)).toMatchObject({ available: '0.00', pending_credits: '10.00' });
    expect((await capture(made)).status).toBe(201);
    expect(await balance(payer)).toMatchObject({ available: '10.00', pending_credits: '0.00' });
  });

  test('the same request with the same key is answered with the hold as it is; keys of transactions are others', async () => {
    const payer = await newPayer();
    const key = newKey();
    const made = await held(payer, '60.00', { idempotency_key: key, expires_in: 3600 });
    const moved = await capture(made, { idempotency_key: key, amount: '20.00', final: false });
    expect([moved.status, moved.body.data.transaction.idempotency_key]).toEqual([201, key]);
    const again = await hold(payer, '60', { idempotency_key: key, expires_in: 3600 });
    expect([again.status, again.headers.get('idempotent-replayed'), again.body.data.hold.captures]).toEqual([200, 'true', 1]);
    const header = await customer.post('holds', { entries: out(payer, '60'), expires_in: 3600 }, { 'idempotency-key': key });
    expect([header.status, header.body.data.hold.hold_id]).toEqual([200, made.hold_id]);
    const reused = await hold(payer, '61.00', { idempotency_key: key, expires_in: 3600 });
    expect([reused.status, reused.body.code, reused.body.details.field]).toEqual([422, 'idempotency_key_reused', 'idempotency_key']);
    expect(reused.body.details).toMatchObject({ hold_id: made.hold_id, fields: ['entries[0].amount', 'entries[1].amount'] });
    expect((await hold(payer, '60.00', { idempotency_key: key })).body.code).toBe('idempotency_key_reused');
  });

  test('a dry run of it and of its capture and void predicts and changes nothing', async () => {
    const payer = await newPayer();
    const before = await balance(payer);
    const tried = await hold(payer, '60.00', { expires_in: 60 }, '?dry_run=true');
    expect([tried.status, tried.body.dry_run, tried.body.data.hold]).toMatchObject([
      200,
      true,
      { hold_id: null, sequence: null, status: 'pending', amount: '60.00' },
    ]);
    expect((await hold(payer, '100.01', {}, '?dry_run=true')).body.code).toBe('insufficient_funds');
    expect(await balance(payer)).toEqual(before);
    const made = await held(payer, '60.00');
    const captured = await capture(made, { amount: '50.00' }, '?dry_run=true');
    expect([captured.status, captured.body.dry_run, captured.body.data.transaction.transaction_id]).toEqual([200, true, null]);
    expect(lines(captured.body.data.hold)).toEqual([
      ['60.00', '50.00', '0.00'],
      ['60.00', '50.00', '0.00'],
    ]);
    const over = await capture(made, { amount: '60.01' }, '?dry_run=true');
    expect(refusal(over)).toEqual([422, 'hold_exceeded', { field: 'amount', tag: 'hold_exceeded', value: '60.01' }]);
    const voided = await release(made, {}, '?dry_run=true');
    expect([voided.status, voided.body.dry_run, voided.body.data.hold.status]).toEqual([200, true, 'voided']);
    expect(await read(made)).toEqual(made);
  });

  test('conditions and the end of validity are judged for it', async () => {
    const payer = await newPayer();
    const gte = { available: { gte: '50.00' } };
    const entries = [{ ...line(payer, 'debit', '60.00'), require: gte }, line('SETTLEMENT-USD', 'credit', '60.00')];
    expect(refusal(await customer.post('holds', { entries }))).toEqual([
      422,
      'condition_failed',
      { field: 'entries[0].require.available.gte', tag: 'condition_failed', value: '50.00' },
    ]);
    const late = await hold(payer, '1.00', { valid_until: '2020-01-01T00:00:00Z' });
    expect(refusal(late)).toEqual([422, 'too_late', { field: 'valid_until', tag: 'too_late', value: '2020-01-01T00:00:00Z' }]);
    const required = { account_code: payer, currency: 'USD', balance: { eq: '100' } };
    const made = await held(payer, '60.00', { require: [required] });
    expect((await capture(made, { require: [{ ...required, balance: { eq: '100' } }] })).body.code).toBe('condition_failed');
    expect((await capture(made, { require: [{ ...required, balance: { eq: '40' } }] })).status).toBe(201);
  });
});

describe('a capture', () => {
  test('two of parts and then the rest add up exactly', async () => {
    const payer = await newPayer();
    const made = await held(payer, '60.00');
    for (const [part, available] of [
      ['33.33', '40.00'],
      ['16.67', '40.00'],
    ]) {
      const { status, body } = await capture(made, { amount: part, final: false });
      expect([status, body.data.transaction.kind, body.data.transaction.amount, body.data.hold.status]).toEqual([
        201,
        'capture',
        part,
        'pending',
      ]);
      expect((await balance(payer))['available']).toBe(available);
    }
    expect(lines(await read(made))).toEqual([
      ['60.00', '50.00', '10.00'],
      ['60.00', '50.00', '10.00'],
    ]);
    const { body } = await capture(made);
    expect(body.data.transaction).toMatchObject({ amount: '10.00', origin: { hold_id: made.hold_id, exchange: null, override: null } });
    expect(body.data.hold).toMatchObject({ status: 'captured', captures: 3, ended_at: time });
    expect(lines(body.data.hold)).toEqual([
      ['60.00', '60.00', '0.00'],
      ['60.00', '60.00', '0.00'],
    ]);
    expect(await sums(payer)).toEqual(['40.00', '40.00', '0.00']);
    const { transactions } = await customer.get(`transactions?hold_id=${made.hold_id}`);
    expect(transactions.map((each: Fields) => each['amount'])).toEqual(['10.00', '16.67', '33.33']);
    expect(await customer.get(`transactions?hold_id=${made.hold_id}&kind=capture`)).toMatchObject({ transactions });
    expect((await customer.get(`transactions?hold_id=${made.hold_id}&kind=double`)).transactions).toEqual([]);
  });

  test('releases the rest unless it is told not to', async () => {
    const payer = await newPayer();
    const made = await held(payer, '60.00');
    const { body } = await capture(made, { amount: '25' });
    expect([body.data.hold.status, lines(body.data.hold)[0]]).toEqual(['captured', ['60.00', '25.00', '0.00']]);
    expect(await sums(payer)).toEqual(['75.00', '75.00', '0.00']);
    const ended = [409, 'hold_ended', { field: 'hold_id', tag: 'hold_ended', value: 'captured' }];
    expect(refusal(await capture(made, { amount: '1.00' }))).toEqual(ended);
    expect(refusal(await release(made))).toEqual(ended);
  });

  test('of more than remains is refused, and changes nothing', async () => {
    const payer = await newPayer();
    const made = await held(payer, '60.00');
    await capture(made, { amount: '50.00', final: false });
    const before = [await read(made), await balance(payer)];
    const tag = 'hold_exceeded';
    expect(refusal(await capture(made, { amount: '10.01' }))).toEqual([422, tag, { field: 'amount', tag, value: '10.01' }]);
    expect(refusal(await capture(made, { entries: out(payer, '11') }))).toEqual([
      422,
      tag,
      { field: 'entries[0].amount', tag, value: '11' },
    ]);
    expect([await read(made), await balance(payer)]).toEqual(before);
  });

  test('takes entries of the hold by account, side and currency', async () => {
    const [payer, second] = [await newPayer(), await newPayer()];
    const entries = [line(payer, 'debit', '30.00'), line(second, 'debit', '20.00'), line('SETTLEMENT-USD', 'credit', '50.00')];
    const made = (await customer.post('holds', { entries })).body.data.hold;
    const tag = 'entries_mismatch';
    expect(refusal(await capture(made, { amount: '10.00' }))).toEqual([422, tag, { field: 'amount', tag, value: '10.00' }]);
    const wrong = [line(payer, 'debit', '5.00'), line('MARKETING', 'credit', '5.00')];
    expect(refusal(await capture(made, { entries: wrong }))).toEqual([
      422,
      tag,
      { field: 'entries[1].account_code', tag, value: 'MARKETING' },
    ]);
    const odd = [line(payer, 'debit', '5.00'), line('SETTLEMENT-USD', 'credit', '4.00')];
    expect((await capture(made, { entries: odd })).body.code).toBe('unbalanced');
    const part = [line(second, 'debit', '7.50'), line('SETTLEMENT-USD', 'credit', '7.50')];
    const { body } = await capture(made, { entries: part, final: false });
    expect(lines(body.data.hold)).toEqual([
      ['30.00', '0.00', '30.00'],
      ['20.00', '7.50', '12.50'],
      ['50.00', '7.50', '42.50'],
    ]);
  });

  test('is refused by blocks, and not by floors, which the hold has passed', async () => {
    const payer = await newPayer();
    const made = await held(payer, '100.00');
    const change = (body: Fields) => cluster.rest('PATCH', customer.at(`accounts/code/${payer}`), { key: customer.key, body });
    await change({ blocked: ['debit'], limits: [{ currency: 'USD', min_available: '50.00' }] });
    expect((await capture(made, { amount: '10.00', final: false })).body.code).toBe('account_blocked');
    const key = await cluster.apiKey(customer.tenant, ['transactions:write']);
    const options = { key, body: { override_reason: 'Court order' } };
    expect((await cluster.rest('POST', customer.at(`holds/${made.hold_id}/capture`), options)).status).toBe(403);
    const overridden = await capture(made, { amount: '10.00', final: false, override_reason: 'Court order' });
    expect(overridden.body.data.transaction.origin.override).toEqual({ reason: 'Court order', broken: ['account_blocked'] });
    expect((await release(made)).status).toBe(200);
    await change({ blocked: [] });
    expect(await sums(payer)).toEqual(['90.00', '90.00', '0.00']);
  });

  test('with its key again is answered with what it did; the same key for another hold is refused', async () => {
    const payer = await newPayer();
    const [first, second] = [await held(payer, '10.00'), await held(payer, '10.00')];
    const key = newKey();
    const moved = await capture(first, { idempotency_key: key, amount: '4.00', final: false });
    const again = await capture(first, { idempotency_key: key, amount: '4.0', final: false });
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    expect(again.body.data.transaction).toEqual(moved.body.data.transaction);
    expect((await read(first))['captures']).toBe(1);
    expect((await capture(second, { idempotency_key: key, amount: '4.00', final: false })).body.code).toBe('idempotency_key_reused');
    expect((await capture(first, { idempotency_key: key, amount: '4.00' })).body.code).toBe('idempotency_key_reused');
  });

  test('is reversed and refunded like any transaction, which revives no hold', async () => {
    const payer = await newPayer();
    const made = await held(payer, '60.00');
    const { transaction } = (await capture(made)).body.data;
    const after = await read(made);
    const refund = await customer.post(`transactions/${transaction.transaction_id}/reverse`, { amount: '20.00' });
    expect([refund.status, refund.body.data.transaction.kind]).toEqual([201, 'reversal']);
    expect(await sums(payer)).toEqual(['60.00', '60.00', '0.00']);
    expect(await read(made)).toEqual(after);
    expect((await customer.post(`transactions/${transaction.transaction_id}/reverse`, {})).status).toBe(201);
    expect(await sums(payer)).toEqual(['100.00', '100.00', '0.00']);
    expect(await read(made)).toEqual(after);
  });
});

describe('a void', () => {
  test('releases what remains; a second one is answered 200, and is no event', async () => {
    const payer = await newPayer();
    const made = await held(payer, '60.00');
    await capture(made, { amount: '10.00', final: false });
    const { status, headers, body } = await release(made, { description: 'Cancelled' });
    expect([status, headers.get('idempotent-replayed'), body.data.hold.status]).toEqual([200, null, 'voided']);
    expect(lines(body.data.hold)[0]).toEqual(['60.00', '10.00', '0.00']);
    expect(await sums(payer)).toEqual(['90.00', '90.00', '0.00']);
    const again = await release(made, { description: 'Again' });
    expect([again.status, again.headers.get('idempotent-replayed'), again.body.data.hold]).toEqual([200, 'true', body.data.hold]);
    const { events } = await customer.get(`events?after_sequence=${made.sequence - 1}&limit=100`);
    const own = events
      .filter(({ data }: Fields) => data.hold_id === made.hold_id)
      .map(({ type, data }: Fields) => [type, data.void_description]);
    expect(own).toEqual([
      ['hold.created', undefined],
      ['hold.voided', 'Cancelled'],
    ]);
    const ended = { field: 'hold_id', tag: 'hold_ended', value: 'voided' };
    expect(refusal(await capture(made))).toEqual([409, 'hold_ended', ended]);
  });

  test('an account with something pending cannot be closed', async () => {
    const payer = await newPayer('0.00');
    const entries = [line('SETTLEMENT-USD', 'debit', '10.00'), line(payer, 'credit', '10.00')];
    const made = (await customer.post('holds', { entries })).body.data.hold;
    const close = () => cluster.rest('PATCH', customer.at(`accounts/code/${payer}`), { key: customer.key, body: { status: 'closed' } });
    const refused = await close();
    expect([refused.status, refused.body.code]).toEqual([409, 'account_not_empty']);
    await release(made);
    expect((await close()).status).toBe(200);
  });
});

test('200 captures and voids of 50 holds at once: each hold ends once, and nothing stays pending', async () => {
  const payer = await newPayer('500.00');
  const holds = await Promise.all(Array.from({ length: 50 }, () => held(payer, '10.00')));
  expect(await sums(payer)).toEqual(['500.00', '0.00', '500.00']);
  const answers = await Promise.all(
    holds.flatMap((each) => [
      capture(each, { amount: '4.00', final: false }),
      capture(each, { amount: '7.00' }),
      release(each),
      capture(each),
    ]),
  );
  expect(answers.filter(({ status }) => ![200, 201, 409, 422].includes(status))).toEqual([]);
  const ended = await Promise.all(holds.map(read));
  expect(
    ended.filter(
      ({ status, entries }) => !['captured', 'voided'].includes(status) || entries.some((each: Fields) => each['remaining'] !== '0.00'),
    ),
  ).toEqual([]);
  const captured = ended.reduce((sum, { entries }) => sum + Number(entries[0].captured), 0);
  const rest = (500 - captured).toFixed(2);
  expect(await sums(payer)).toEqual([rest, rest, '0.00']);
  const moved = answers
    .filter(({ body }) => body.data?.transaction)
    .reduce((sum, { body }) => sum + Number(body.data.transaction.amount), 0);
  expect(moved).toBe(captured);
});
