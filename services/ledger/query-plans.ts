// PostgreSQL planner settings of the ledger's connections.
import { queryPlanSettings } from '../platform/query-plans.ts';

/** Settings of every connection. */
export const ledgerPlans = {
  ...queryPlanSettings,
  // Without page costs, indexes over the same few pages are compared by the rows they touch.
  random_page_cost: '0',
  seq_page_cost: '0',
};
