// Schemas of balances in answers, for the OpenAPI document.
import { currencies } from '../services/platform/money.ts';
import { sides } from './fields.ts';
import { id, long, maybe, money, record, string, time, word, type Schema } from './records.ts';

const held = {
  pending_debits: { ...money, description: 'What open holds reserve.' },
  pending_credits: { ...money, description: 'What open holds reserve.' },
  available: { ...money, description: 'The balance without what is pending on its way out.' },
};

/** A balance as it is now. */
export const balance = {
  account_id: id('acc'),
  account_code: string,
  currency: word(currencies),
  balance: { ...money, description: 'Signed, in the account’s normal direction.' },
  debits: money,
  credits: money,
  ...held,
  version: { ...long, description: 'Number of events that changed this balance: transactions, holds, releases.' },
};

const orNullOfPast = (schema: Schema): Schema => ({
  ...maybe(schema),
  description: `${String(schema['description'])} Null with a bound: of the past, holds are not known.`,
});

/** The schemas by name. */
export const balanceSchemas: Record<string, Schema> = {
  BalanceTotal: record({
    currency: word(currencies),
    debits: money,
    credits: money,
    balance: { ...money, description: 'Signed, in the node’s normal direction.' },
  }),
  Balance: record({
    ...balance,
    ...Object.fromEntries(Object.entries(held).map(([name, schema]) => [name, orNullOfPast(schema)])),
    version: {
      ...long,
      description: `${balance.version.description} With a bound, that of the newest transaction that counts.`,
    },
    updated_at: maybe(time),
    as_of: { ...maybe(time), description: '`as_of` of the request as an instant; null: whenever it counts.' },
    known_sequence: {
      ...maybe(long),
      description: 'Up to where the log was read, with a bound: ask with it again, and the answer is the same. Null without a bound.',
    },
  }),
  DailyBalance: record({
    date: { type: 'string', format: 'date' },
    opening: { ...money, description: 'Signed, in the account’s normal direction.' },
    debits: { ...money, description: 'What counts on this day.' },
    credits: money,
    closing: money,
  }),
  BalanceChange: record({
    transaction_id: id('txn'),
    sequence: long,
    side: word(sides),
    amount: money,
    balance_after: money,
    created_at: time,
  }),
};
