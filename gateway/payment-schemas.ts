// Schemas of payments in answers, for the OpenAPI document: holds, dry runs, and what transactions came from.
import { currencies } from '../services/platform/money.ts';
import { holdStatuses, sides } from './fields.ts';
import { roundings } from './payment-fields.ts';
import {
  id,
  integer,
  list,
  long,
  maybe,
  maybeWord,
  metadata,
  money,
  record,
  ref,
  string,
  time,
  transaction,
  word,
  type Schema,
} from './records.ts';

const hold = {
  hold_id: id('hold'),
  status: { ...word(holdStatuses), description: 'How it ended; `pending` until then.' },
  idempotency_key: string,
  description: string,
  reference: maybe(string),
  currency: { ...maybeWord(currencies), description: 'null: several currencies.' },
  amount: { ...maybe(money), description: 'Sum of the debits; null if there are several currencies.' },
  entries: list(ref('HoldEntry')),
  metadata,
  expires_at: { ...maybe(time), description: 'null: never.' },
  captures: { ...integer, description: 'How often it was captured.' },
  created_at: time,
  ended_at: maybe(time),
  sequence: { ...long, description: 'Position of its event in the tenant’s log.' },
  origin: { anyOf: [ref('Origin'), { type: 'null' }], description: 'What it came from besides its entries; null: nothing.' },
};

/** The schemas by name. */
export const paymentSchemas: Record<string, Schema> = {
  Hold: record(hold),
  HoldEntry: record({
    account_id: id('acc'),
    account_code: string,
    side: word(sides),
    currency: word(currencies),
    amount: money,
    captured: money,
    remaining: { ...money, description: 'Still held. What was released is `amount` − `captured` − `remaining`.' },
  }),
  TriedHold: {
    ...record({ ...hold, hold_id: maybe(id('hold')), idempotency_key: maybe(string), sequence: maybe(long) }),
    description: 'What a dry run would have held; it has no `hold_id` and no `sequence`.',
  },
  TriedTransaction: {
    ...record({ ...transaction, transaction_id: maybe(id('txn')), idempotency_key: maybe(string), sequence: maybe(long) }),
    description: 'What a dry run would have posted; it has no `transaction_id` and no `sequence`.',
  },
  Origin: record({
    hold_id: { ...maybe(id('hold')), description: 'The hold that a capture took from.' },
    template: { ...maybe(string), description: 'Always null in this version.' },
    schedule_id: { ...maybe(id('sched')), description: 'Always null in this version.' },
    occurrence: { ...maybe(time), description: 'Always null in this version.' },
    exchange: { anyOf: [ref('ExchangeOrigin'), { type: 'null' }] },
    override: {
      ...maybe(record({ reason: string, broken: { ...list(string), description: 'Error codes that would have refused the posting.' } })),
      description: 'Blocks and limits were overridden.',
    },
  }),
  ExchangeOrigin: record({
    rate: record({ base: word(currencies), quote: word(currencies), value: { ...string, description: '1 base = value quote.' } }),
    reference_rate: maybe(string),
    rounding: word(roundings),
    converted_debit: { ...money, description: 'What was converted, without fees, in the debit currency.' },
    converted_credit: { ...money, description: 'The same in the credit currency.' },
    spread: { ...money, description: 'Earned beyond the reference rate, in the credit currency; negative for a loss.' },
    residue: { ...string, description: 'What rounding dropped of the computed amount, with 12 fraction digits.' },
  }),
};
