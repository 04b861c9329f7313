// How PostgreSQL plans what the ledger asks.
import { queryPlanSettings } from '../platform/query-plans.ts';

/** Settings of every connection. */
export const ledgerPlans = {
  ...queryPlanSettings,
  // Two indexes over the same few pages are told apart by the rows they touch.
  random_page_cost: '0',
  seq_page_cost: '0',
};
