// Periods as REST, webhooks and the audit trail show them.
import type { PeriodChanged } from '../../proto/gen/ledger/v1/events_pb.js';

/** What a closing or reopening says, with the names of REST. */
export function changedPeriod(period: Pick<PeriodChanged, PeriodField | 'through'>): Record<string, unknown> {
  const { id, through = null, final, yearEnd, closingTransactions, reason } = period;
  return { id, through, final, year_end: yearEnd, closing_transactions: closingTransactions, reason };
}

type PeriodField = 'id' | 'final' | 'yearEnd' | 'closingTransactions' | 'reason';
