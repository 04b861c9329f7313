// Many clients at once against two ledgers, and whether the check of what they were told would notice a fault.
import { faultsOf, type History } from './history.ts';
import { startCrowd } from './histories.ts';

let crowd: Awaited<ReturnType<typeof startCrowd>>;
let history: History;

beforeAll(async () => {
  crowd = await startCrowd();
});

afterAll(() => crowd.close());

test('what sixteen clients are told at once is what one ledger could have told them', async () => {
  const { faults, histories, events, replays, refusals } = await crowd.run({ seed: 7, clients: 16, seconds: 5 });
  expect(faults).toEqual([]);
  // That something happened, on however busy a machine.
  expect(events).toBeGreaterThan(20);
  expect(replays).toBeGreaterThan(0);
  expect(refusals.size).toBeGreaterThan(0);
  [history] = histories as [History];
}, 120_000);

const posted = ({ log }: History) => log.filter(({ type, data }) => type === 'transaction.posted' && data.lines.length === 2);
const reads = ({ ops }: History) => ops.filter(({ kind, end, data }) => kind === 'balance' && end !== null && data.version > 2);
const lowering = (h: History) =>
  posted(h).find(
    ({ data }) =>
      data.lines.some((line: any) => line.account_code !== 'BANK' && line.side === 'debit') &&
      data.lines[0].account_code !== data.lines[1].account_code,
  )!;
/** Without its last event, which nothing stands on. */
const withoutEnd = ({ log }: History) => log.pop();

const faults: [what: string, made: (history: History) => unknown, told: RegExp][] = [
  ['an answered posting that is not in the log', withoutEnd, /ends (at|otherwise)|is not in the log/],
  ['a posting that stands in the log twice', (h) => h.log.push({ ...posted(h)[0]!, sequence: h.log.length + 1 }), /was posted twice/],
  ['a posting that nobody asked for', (h) => (posted(h)[0]!.data.description = 'nobody'), /nobody asked for/],
  ['a gap', (h) => h.log.splice(20, 1), /the log has 22 in the place of 21/],
  ['a broken chain', (h) => (h.log[20]!.previous_hash = h.log[0]!.hash), /the chain breaks at 21/],
  ['a posting that does not balance', (h) => (posted(h)[3]!.data.lines[0].amount = '9999.99'), /does not balance/],
  ['a balance below zero', (h) => lowering(h).data.lines.forEach((line: any) => (line.amount = '9999999.99')), /is below zero/],
  ['a balance that never was', (h) => (reads(h)[0]!.data.debits = '0.07'), /a balance that never was/],
  [
    'a read of an older balance than had been answered',
    (h) => Object.assign(reads(h)[0]!, { start: 1e12, end: 1e12 }),
    /when \d+ had been answered|goes back/,
  ],
  ['a balance that ends otherwise', (h) => (h.balances.get('BANK NGN')!.debits = '0.01'), /ends otherwise/],
  ['a replay that is told as new', (h) => (h.ops.find(({ replayed }) => replayed)!.replayed = false), /answered as new twice/],
  [
    'an answer that is another than before',
    (h) => (h.ops.find(({ replayed }) => replayed)!.data.transaction_id = 'txn_1'),
    /another effect/,
  ],
  ['a refusal of what was posted', (h) => refuse(h), /was refused and posted/],
  ['a refusal after it was posted', (h) => refuseLater(h), /refused after it had been posted/],
  ['another amount than was sent', (h) => (firstAnswered(h).sent![0]!.amount = '0.01'), /with other entries/],
  ['an entry more than was sent', (h) => more(h), /with other entries/],
  ['a reversal that is no mirror', (h) => turn(h), /with other entries/],
  ['another amount than is in the log', (h) => (firstAnswered(h).data.entries[0].amount = '0.01'), /told other entries/],
  ['another balance than is in the log', (h) => (firstAnswered(h).data.entries[0].balance_after = '0.01'), /told other entries/],
  ['a balance that the log’s entries do not add up to', (h) => (posted(h)[3]!.data.lines[0].balance_after = '0.01'), /leaves .* at 0.01/],
  ['another key than was sent', (h) => (h.ops.find(({ replayed }) => replayed)!.key = 'other'), /under another key/],
  ['funds refused that were there', (h) => plenty(h), /funds that were there/],
  ['an order that is not that of the clock', (h) => Object.assign(firstAnswered(h), { start: 1e12, end: 1e12 }), /after one behind it/],
];

function firstAnswered({ ops }: History) {
  return ops.find(
    ({ name, sent, data, code }) => sent && code === undefined && data && ops.filter((other) => other.name === name).length === 1,
  )!;
}

function refuseLater({ ops }: History) {
  const replay = ops.find(({ replayed }) => replayed)!;
  ops.push({ ...replay, start: 1e12, end: 1e12, code: 'insufficient_funds', data: {} });
}

function more({ log }: History) {
  const { lines } = log.find(({ data }) => data.lines?.length === 2 && !data.lines.some(({ counter }: any) => counter))!.data;
  const line = { ...lines[0], amount: '0.01' };
  lines.push({ ...line, side: 'debit' }, { ...line, side: 'credit' });
}

function turn({ log }: History) {
  const { lines } = log.find(({ data }) => data.reverses !== null && data.reverses !== undefined)!.data;
  for (const line of lines) line.side = line.side === 'debit' ? 'credit' : 'debit';
}

function refuse(h: History) {
  Object.assign(firstAnswered(h), { code: 'insufficient_funds', data: {} });
}

function plenty({ ops }: History) {
  ops.find(({ code }) => code === 'insufficient_funds')!.data.lowered.amount = '0.00';
}

test.each(faults)('%s is found', (_, made, told) => {
  const altered = structuredClone(history);
  made(altered);
  expect(faultsOf(altered)).toContainEqual(expect.stringMatching(told));
});
