import { create } from '@bufbuild/protobuf';
import { ChangedBalanceSchema, EventSchema, HoldRecordSchema, type Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { withDerivedEvents } from '../../platform/derived-events.ts';
import { newId } from '../../platform/ids.ts';
import { EventRejected } from './event-sink.ts';
import { publishEvents } from './publication.ts';

const tenantId = newId('tenant');
const balances = ['CASH', 'SALES'].map((accountCode) => create(ChangedBalanceSchema, { accountCode }));
const hold = create(HoldRecordSchema, { holdId: newId('hold') });
const event = (type: string, sequence: bigint, data: Event['data']) =>
  create(EventSchema, { id: newId('evt'), tenantId, type, sequence, ...(data.case && { data }) });

const capture = { $typeName: 'ledger.v1.TransactionPosted', transactionId: newId('txn'), entries: [], balances, hold } as unknown;
const rows = [
  event('hold.created', 1n, {
    case: 'holdCreated',
    value: { $typeName: 'ledger.v1.HoldCreated', hold, fingerprint: new Uint8Array(), balances },
  }),
  event('transaction.posted', 2n, { case: 'transactionPosted', value: capture } as Event['data']),
  event('hold.expired', 3n, { case: 'holdEnded', value: { $typeName: 'ledger.v1.HoldEnded', hold, balances, description: '' } }),
];

/** Publishes rows to a sink that rejects some events; answers what it took and what was rejected, as `type part`. */
async function published(events: Event[], derivesEvents: boolean, isRejected: (event: Event) => boolean) {
  const taken: Event[] = [];
  const publish = async (some: Event[]) => {
    if (some.some(isRejected)) throw new EventRejected('too large');
    taken.push(...(derivesEvents ? some.flatMap(withDerivedEvents) : some));
  };
  const sink = { name: 'kafka' as const, derivesEvents, publish, probe: async () => undefined, close: async () => undefined };
  const { rejected } = await publishEvents(sink, events);
  const nameOf = ({ type, sequence, part }: Event) => `${type} ${sequence}.${part}`;
  return { taken: taken.map(nameOf), rejected: rejected.map((each) => nameOf(each.event)) };
}

const two = (sequence: number) => [1, 2].map((part) => `balance.updated ${sequence}.${part}`);

test('a capture’s derived event that is rejected stays behind alone, under its part', async () => {
  const answer = await published(rows.flatMap(withDerivedEvents), false, ({ type }) => type === 'hold.captured');
  expect(answer).toEqual({
    taken: ['hold.created 1.0', ...two(1), 'transaction.posted 2.0', ...two(2), 'hold.expired 3.0', ...two(3)],
    rejected: ['hold.captured 2.3'],
  });
});

test('of rows that a deriving sink rejects, what follows from them is published', async () => {
  const isRow = ({ type, part }: Event) => part === 0 && type !== 'hold.created';
  expect(await published(rows, true, isRow)).toEqual({
    taken: ['hold.created 1.0', ...two(1), ...two(2), 'hold.captured 2.3', ...two(3)],
    rejected: ['transaction.posted 2.0', 'hold.expired 3.0'],
  });
});
