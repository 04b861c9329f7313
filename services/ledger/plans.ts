// How PostgreSQL plans what the ledger asks.

/**
 * Settings of every connection. A plan made while tables are small or not analysed scans, and gets slower with every posting; every
 * statement of the ledger goes by index.
 */
export const pinnedPlans = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
  // Two indexes over the same few pages are told apart by the rows they touch.
  random_page_cost: '0',
  seq_page_cost: '0',
};
