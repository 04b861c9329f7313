// Schemas of payments in answers, for the OpenAPI document: holds, dry runs, limits, and what transactions came from.
import { currencies } from '../services/platform/money.ts';
import { calendars, holdStatuses, limitStatuses, limitSubjects, sides } from './fields.ts';
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
  origin,
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
  status: { ...word(holdStatuses), description: '`pending`, or how it ended.' },
  idempotency_key: string,
  description: string,
  reference: maybe(string),
  currency: { ...maybeWord(currencies), description: 'null: several currencies.' },
  amount: { ...maybe(money), description: 'Sum of the debits; null if there are several currencies.' },
  entries: list(ref('HoldEntry')),
  metadata,
  expires_at: { ...maybe(time), description: 'From then on it can’t be captured; null: never.' },
  captures: { ...integer, description: 'How often it was captured.' },
  created_at: time,
  ended_at: maybe(time),
  sequence: { ...long, description: 'Position of its `hold.created` in the tenant’s log.' },
  origin,
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
    remaining: { ...money, description: 'Still reserved; `0.00` once the hold has ended.' },
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
      ...maybe(
        record({
          reason: string,
          broken: { ...list(string), description: 'Error codes, or ids of velocity limits, that would have refused it.' },
        }),
      ),
      description: 'Blocks and limits were overridden.',
    },
  }),
  ExchangeRate: record({ base: word(currencies), quote: word(currencies), value: { ...string, description: '1 base = value quote.' } }),
  ExchangeOrigin: record({
    rate: ref('ExchangeRate'),
    reference_rate: maybe(string),
    rounding: word(roundings),
    converted_debit: { ...money, description: 'What was converted, without fees, in the debit currency.' },
    converted_credit: { ...money, description: 'The same in the credit currency.' },
    spread: { ...money, description: 'Earned beyond the reference rate, in the credit currency; negative for a loss.' },
    residue: { ...string, description: 'What rounding dropped of the computed amount, with 12 fraction digits.' },
  }),
  LimitWindow: {
    type: 'object',
    description: 'Either `rolling_seconds`, or `calendar` and `time_zone`.',
    properties: { rolling_seconds: integer, calendar: word(calendars), time_zone: string },
  },
  VelocityLimit: record({
    limit_id: id('limit'),
    account_code: string,
    applies: { ...word(limitSubjects), description: 'Of a group: `each` account below it by itself, or the `sum` of all together.' },
    currency: word(currencies),
    side: word(sides),
    max_amount: { ...maybe(money), description: 'Inclusive; null: none.' },
    max_count: { ...maybe(integer), description: 'Inclusive; null: none.' },
    window: ref('LimitWindow'),
    name: maybe(string),
    status: { ...word(limitStatuses), description: 'A paused limit goes on counting, but refuses nothing.' },
    version: long,
    created_at: time,
    updated_at: time,
  }),
  LimitUsage: record({
    limit_id: id('limit'),
    account_code: { ...string, description: 'Whose use it is: an account or a group.' },
    amount: { ...money, description: 'What the window has used.' },
    count: integer,
    remaining_amount: { ...maybe(money), description: 'Never below zero; null: the limit has no `max_amount`.' },
    remaining_count: { ...maybe(integer), description: 'Never below zero; null: the limit has no `max_count`.' },
    window_start: { ...time, description: 'Of a rolling window: of its oldest step, which counts whole.' },
    window_end: { ...time, description: 'Exclusive. Of a rolling window: of the present step.' },
  }),
};
