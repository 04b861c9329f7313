// Ten thousand random commands of every kind, many at once: afterwards verify and rebuild find nothing, and a change by hand is found.
import { openAudit, type Audit } from '../../../test/audit.ts';
import { holdCalls, type Command } from '../../../test/hold-commands.ts';
import { entries, newTenant } from '../../../test/ledger.ts';
import { seededRandom, type SeededRandom } from '../../../test/proof/seeded-random.ts';
import { newId } from '../../platform/ids.ts';

const steps = 10_000;
const callers = 6;
const codes = ['purse-1', 'purse-2', 'purse-3', 'shop', 'bank', 'capped'];

let audit: Audit;
const { tenantId, tenant } = newTenant();
/** Ids of what was made, which others then change. */
const holds: string[] = [];
const transactions: string[] = [];
/** How often there was each outcome. */
const outcomes = new Map<string, number>();
const count = (outcome: string) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);

beforeAll(async () => {
  audit = await openAudit();
  const { client } = audit.ledger;
  await client.createAccount({ tenantId, accountCode: 'purses', name: 'Purses', type: 'liability', isGroup: true });
  for (const accountCode of codes) {
    const isPurse = accountCode.startsWith('purse');
    await client.createAccount({
      ...{ tenantId, accountCode, name: accountCode, type: accountCode === 'bank' ? 'asset' : 'liability', allowNegative: !isPurse },
      ...(isPurse && { parentCode: 'purses' }),
      ...(accountCode === 'capped' && { limits: [{ currency: 'NGN', minAvailable: '-50.00', maxBalance: '90.00' }] }),
    });
  }
  const limits = [
    { account_code: 'purses', applies: 'each', max_amount: '3000', window: { rolling_seconds: 60 } },
    { account_code: 'purses', applies: 'sum', max_count: 4_000, window: { calendar: 'day', time_zone: 'Africa/Lagos' } },
    { account_code: 'purse-1', max_amount: '500', window: { calendar: 'month', time_zone: 'America/New_York' } },
  ];
  for (const limit of limits) {
    await client.putDefinition({ tenantId, kind: 'limit', record: JSON.stringify({ currency: 'NGN', side: 'debit', ...limit }) });
  }
});

afterAll(() => audit.end());

function linesOf(random: SeededRandom): string[] {
  const amount = `${random.whole(1, 40)}.${random.pick(['00', '01', '50'])}`;
  const [from, to] = random.shuffled(codes) as [string, string];
  const lines = [`${from} debit ${amount} NGN`, `${to} credit ${amount} NGN`];
  return random.happens(0.2) ? [...lines, ...lines] : lines;
}

const dayMs = 86_400_000;

/** Mostly none; else a time of the last year, or of the next one. */
function timeOf(random: SeededRandom): { effectiveMs?: bigint } {
  if (random.happens(0.6)) return {};
  const days = random.pick([random.whole(-400, 0), random.whole(-400, 0), random.whole(1, 300)]);
  return { effectiveMs: BigInt(Date.now() + days * dayMs) };
}

/** A command: mostly a sensible one, sometimes on what has ended or is spent. */
function commandOf(random: SeededRandom): Command {
  const lines = entries(...linesOf(random));
  const time = timeOf(random);
  const reason = random.happens(0.05) ? { overrideReason: 'told so' } : {};
  const part = random.pick([{}, {}, { amount: '0.50' }, { amount: '7.00' }]);
  const recent = (ids: string[]) => random.pick(ids.slice(-30));
  const kind = random.pick(['posting', 'posting', 'hold', 'hold', 'capture', 'capture', 'void', 'reversal', 'single']);
  if (kind === 'hold') {
    return { command: { case: 'hold', value: { entries: lines, ...reason, ...(random.happens(0.2) && { expiresIn: 34_560_000n }) } } };
  }
  if (kind === 'capture' && holds.length > 0) {
    return { command: { case: 'capture', value: { holdId: recent(holds), ...part, ...reason, ...time, final: random.happens(0.4) } } };
  }
  if (kind === 'void' && holds.length > 0) return { command: { case: 'void', value: { holdId: recent(holds) } } };
  if (kind === 'reversal' && transactions.length > 0) {
    const when = random.happens(0.3) ? { effectiveAsOriginal: true } : time;
    return { command: { case: 'reversal', value: { transactionId: recent(transactions), ...part, ...reason, ...when } } };
  }
  if (kind === 'single') return { command: { case: 'posting', value: { entries: lines.slice(0, 1), ...reason, ...time } } };
  return { command: { case: 'posting', value: { entries: lines, ...reason, ...time, idempotencyKey: newId('txn') } } };
}

async function work(random: SeededRandom): Promise<void> {
  const { submit } = holdCalls(() => audit.ledger.client);
  for (let done = 0; done < steps / callers;) {
    const commands = Array.from({ length: random.pick([1, 1, 5, 25]) }, () => commandOf(random));
    const [atomic, dryRun] = [random.happens(0.2), random.happens(0.1)];
    const results = await submit(tenantId, commands, { atomic, dryRun });
    for (const { refusal, hold, transaction } of results) {
      count(refusal?.reason ?? (transaction ? transaction.kind : hold ? `hold ${hold.status}` : 'undone'));
      if (refusal || dryRun) continue;
      if (transaction && transaction.kind !== 'reversal') transactions.push(transaction.transactionId);
      else if (hold?.status === 'pending' && !transaction) holds.push(hold.holdId);
    }
    done += commands.length;
  }
}

test('verify and rebuild --check find nothing after ten thousand mixed steps', async () => {
  await Promise.all(Array.from({ length: callers }, (_, caller) => work(seededRandom(7, caller))));
  const reached = ['double', 'single', 'capture', 'reversal', 'hold pending', 'hold voided', 'insufficient_funds', 'limit_exceeded'];
  expect([...outcomes.keys()]).toEqual(
    expect.arrayContaining([
      ...reached,
      'hold_ended',
      'hold_exceeded',
      'reversal_exceeded',
      'undone',
      'future_dated',
      'effective_before_original',
    ]),
  );
  expect([...outcomes.keys()]).not.toEqual(expect.arrayContaining(['internal']));
  expect(await audit.verified()).toEqual([]);
  expect(await audit.checked()).toEqual([]);
}, 300_000);

test('what remains of a hold can’t be changed by hand unnoticed, and rebuild restores it', async () => {
  await audit.change(
    tenant,
    `update hold_entries set remaining = remaining - 1 where (hold_sequence, position) = (
      select hold_sequence, position from hold_entries where tenant_id = $1 and remaining > 0 order by 1, 2 limit 1) and tenant_id = $1`,
  );
  const wrong = expect.stringMatching(
    /^tenant_\w+: hold_entries \(hold_sequence [0-9]+, position 0\): remaining is "[0-9.]+", by the log "[0-9.]+"$/,
  );
  const sums = expect.stringMatching(/^tenant_\w+: the entries of [a-z0-9-]+ in NGN do not add up to its balance$/);
  expect(await audit.verified()).toEqual([wrong, sums]);
  expect(await audit.checked()).toEqual([wrong]);
  expect(await audit.rebuilt()).toEqual([expect.stringContaining('repaired: hold_entries')]);
  expect(await audit.verified()).toEqual([]);
});
