// How PostgreSQL plans what the ledger asks.
import { pinnedPlans } from '../platform/plans.ts';

/** Settings of every connection. */
export const ledgerPlans = {
  ...pinnedPlans,
  // Two indexes over the same few pages are told apart by the rows they touch.
  random_page_cost: '0',
  seq_page_cost: '0',
};
