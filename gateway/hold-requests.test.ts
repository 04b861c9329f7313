// Requests about holds: in batches, in lists, of other tenants, and those that are refused.
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { line, newWallet, type Customer } from '../test/customer.ts';
import { newHolder, newKey, out, refusal, type Fields, type Holder } from '../test/holder.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: CheckedCluster;
let customer: Customer;
let other: Customer;
let newPayer: Holder['newPayer'];
let held: Holder['held'];
let release: Holder['release'];
let read: Holder['read'];
let sums: Holder['sums'];

beforeAll(async () => {
  cluster = await startCheckedCluster();
  ({ customer, newPayer, held, release, read, sums } = await newHolder(cluster));
  other = await newWallet(cluster);
});

describe('holds in a batch', () => {
  test('an atomic batch replaces a hold by a larger one, or captures beyond it', async () => {
    const payer = await newPayer();
    const made = await held(payer, '60.00');
    const larger = { op: 'hold', idempotency_key: newKey(), entries: out(payer, '100.00') };
    const swap = (items: Fields[]) => customer.post('transactions/batch', { atomic: true, items });
    expect(refusal(await swap([larger]))).toMatchObject([422, 'insufficient_funds', { field: 'items[0].entries[0].account_code' }]);
    const { status, body } = await swap([{ op: 'void', hold_id: made.hold_id, description: 'Larger' }, larger]);
    expect([status, body.data.results.map((each: Fields) => [each['status'], each['data'].hold.status])]).toEqual([
      201,
      [
        [200, 'voided'],
        [201, 'pending'],
      ],
    ]);
    const { hold_id } = body.data.results[1].data.hold;
    const beyond = [
      { op: 'capture', hold_id, idempotency_key: newKey(), amount: '90.00' },
      { op: 'double', idempotency_key: newKey(), entries: out(payer, '10.01') },
    ];
    expect(refusal(await swap(beyond))).toMatchObject([422, 'insufficient_funds', { field: 'items[1].entries[0].account_code' }]);
    beyond[1]!['entries' as never] = out(payer, '10.00') as never;
    expect((await swap(beyond)).status).toBe(201);
    expect(await sums(payer)).toEqual(['0.00', '0.00', '0.00']);
    expect(refusal(await swap([{ op: 'capture', hold_id, idempotency_key: newKey() }]))).toEqual([
      409,
      'hold_ended',
      { field: 'items[0].hold_id', tag: 'hold_ended', value: 'captured' },
    ]);
  });

  test('independent results are those of the routes', async () => {
    const payer = await newPayer();
    const made = await held(payer, '60.00');
    const nobody = 'hold_01jd1zq5v806n9w2k4m7p3r5t8';
    const { body } = await customer.post('transactions/batch', {
      items: [
        { op: 'capture', hold_id: made.hold_id, idempotency_key: newKey(), amount: '70.00' },
        { op: 'capture', hold_id: made.hold_id, idempotency_key: newKey(), amount: '50.00' },
        { op: 'void', hold_id: made.hold_id },
        { op: 'void', hold_id: nobody },
        { op: 'capture', hold_id: 'hold_1', idempotency_key: newKey() },
        { op: 'void', hold_id: made.hold_id, idempotency_key: newKey() },
        { op: 'hold', idempotency_key: newKey(), entries: out(payer, '50.00'), expires_in: 60 },
      ],
    });
    const named = body.data.results.map((each: Fields) => [each['status'], each['code'], each['details']?.field]);
    expect(named).toEqual([
      [422, 'hold_exceeded', 'amount'],
      [201, undefined, undefined],
      [409, 'hold_ended', 'hold_id'],
      [404, 'hold_not_found', undefined],
      [400, 'validation_failed', 'hold_id'],
      [400, 'validation_failed', 'idempotency_key'],
      [201, undefined, undefined],
    ]);
    expect(body.data).toMatchObject({ posted: 2, replayed: 0, failed: 5 });
  });
});

describe('the list', () => {
  test('is filtered by status, account, currency, reference, key, day and expiry, newest first', async () => {
    const payer = await newPayer();
    const [first, second, third] = [
      await held(payer, '10.00', { reference: `list-${payer}`, expires_at: '2098-01-01T00:00:00Z' }),
      await held(payer, '10.00', { idempotency_key: payer }),
      await held(payer, '10.00', { expires_in: 34_560_000 }),
    ];
    await release(second);
    const ids = async (query: string) =>
      (await customer.get(`holds?account_code=${payer}&${query}`)).holds.map((each: Fields) => each['hold_id']);
    const [one, two, three] = [first.hold_id, second.hold_id, third.hold_id];
    expect(await ids('')).toEqual([three, two, one]);
    expect(await ids('status=pending')).toEqual([three, one]);
    expect(await ids('status=voided')).toEqual([two]);
    expect(await ids('currency=USD')).toEqual([three, two, one]);
    expect(await ids('currency=EUR')).toEqual([]);
    expect(await ids(`reference=list-${payer}`)).toEqual([one]);
    expect(await ids('reference=')).toEqual([]);
    expect(await ids(`idempotency_key=${payer}`)).toEqual([two]);
    expect(await ids('expires_before=2098-01-01T00:00:00Z')).toEqual([three]);
    expect(await ids('expires_before=2098-01-01T00:00:00.001Z')).toEqual([three, one]);
    expect(await ids('start_date=2020-01-01&end_date=2099-01-01')).toEqual([three, two, one]);
    expect(await ids('end_date=2020-01-01')).toEqual([]);
    const page = await customer.get(`holds?account_code=${payer}&limit=2`);
    expect(page.pagination).toMatchObject({ limit: 2, has_more: true });
    expect(await ids(`limit=2&cursor=${page.pagination.next_cursor}`)).toEqual([one]);
  });

  test.each([
    ['status=open', 'status', 'oneof'],
    ['expires_before=2098-01-01', 'expires_before', 'datetime'],
    ['currency=XXX', 'currency', 'oneof'],
  ])('%s is refused', async (query, field, tag) => {
    const { status, body } = await cluster.rest('GET', customer.at(`holds?${query}`), { key: customer.key });
    expect([status, body.details.field, body.details.tag]).toEqual([400, field, tag]);
  });

  test.each([
    ['kind=refund', 'kind', 'oneof'],
    ['hold_id=hold_1', 'hold_id', 'id'],
    ['reverses=hold_01jd1zq5v806n9w2k4m7p3r5t8', 'reverses', 'id'],
  ])('of transactions with %s is refused', async (query, field, tag) => {
    const { status, body } = await cluster.rest('GET', customer.at(`transactions?${query}`), { key: customer.key });
    expect([status, body.details.field, body.details.tag]).toEqual([400, field, tag]);
  });
});

test('the hold of another tenant is an unknown one', async () => {
  const made = await held(await newPayer(), '10.00');
  const unknown = { hold_id: 'hold_01jd1zq5v806n9w2k4m7p3r5t8' };
  for (const { hold_id } of [made, unknown]) {
    const at = (path: string) => other.at(`holds/${hold_id}${path}`);
    const answers = [
      await cluster.rest('GET', at(''), { key: other.key }),
      await cluster.rest('POST', at('/capture'), { key: other.key, body: {} }),
      await cluster.rest('POST', at('/void'), { key: other.key }),
    ];
    expect(answers.map(refusal)).toEqual(answers.map(() => [404, 'hold_not_found', undefined]));
    expect((await other.get(`transactions?hold_id=${hold_id}`)).transactions).toEqual([]);
  }
  expect((await other.get('holds')).holds).toEqual([]);
  expect(await read(made)).toEqual(made);
});

describe('a request is refused', () => {
  const entries = [line('CUSTOMER-WALLETS-USD', 'debit'), line('SETTLEMENT-USD', 'credit')];
  test.each<[string, Fields, number, string, string, string]>([
    ['holds', { entries, expires_at: '2020-01-01T00:00:00Z' }, 400, 'validation_failed', 'expires_at', 'gt'],
    ['holds', { entries, expires_at: '2099-01-01T00:00:00Z', expires_in: 5 }, 400, 'validation_failed', 'expires_in', 'same'],
    ['holds', { entries, expires_at: 'tomorrow' }, 400, 'validation_failed', 'expires_at', 'datetime'],
    ['holds', { entries, expires_in: 0 }, 400, 'validation_failed', 'expires_in', 'min'],
    ['holds', { entries, expires_in: 34_560_001 }, 400, 'validation_failed', 'expires_in', 'max'],
    ['holds', { entries, expires_in: 1.5 }, 400, 'validation_failed', 'expires_in', 'type'],
    ['holds', { entries: entries.slice(1) }, 400, 'validation_failed', 'entries', 'min'],
    ['holds', {}, 400, 'validation_failed', 'entries', 'required'],
    ['holds', { entries, template: 'payout' }, 400, 'validation_failed', 'template', 'unknown'],
    [
      'holds',
      { entries: [line('NOPE', 'debit'), line('SETTLEMENT-USD', 'credit')] },
      422,
      'account_not_found',
      'entries[0].account_code',
      'account_not_found',
    ],
    [
      'holds',
      { entries: [line('ASSETS', 'debit'), line('SETTLEMENT-USD', 'credit')] },
      422,
      'account_is_group',
      'entries[0].account_code',
      'account_is_group',
    ],
    [
      'holds',
      { entries: [line('MARKETING', 'debit', '2'), line('SETTLEMENT-USD', 'credit', '1')] },
      422,
      'unbalanced',
      'entries',
      'unbalanced',
    ],
    ['capture', { amount: '1.00', entries }, 400, 'validation_failed', 'amount', 'same'],
    ['capture', { amount: '0' }, 400, 'validation_failed', 'amount', 'gt'],
    ['capture', { amount: 1 }, 400, 'validation_failed', 'amount', 'type'],
    ['capture', { final: 'no' }, 400, 'validation_failed', 'final', 'type'],
    ['capture', { entries: entries.slice(1) }, 400, 'validation_failed', 'entries', 'min'],
    ['void', { reason: 'x' }, 400, 'validation_failed', 'reason', 'unknown'],
    ['void', { description: 'x'.repeat(1001) }, 400, 'validation_failed', 'description', 'max'],
  ])('%s with %j', async (route, sent, status, code, field, tag) => {
    const made = route === 'holds' ? {} : await held(await newPayer(), '10.00');
    const answer = route === 'holds' ? await customer.post('holds', sent) : await customer.post(`holds/${made['hold_id']}/${route}`, sent);
    expect([answer.status, answer.body.code, answer.body.details.field, answer.body.details.tag]).toEqual([status, code, field, tag]);
  });
});
