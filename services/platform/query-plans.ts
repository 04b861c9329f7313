// How PostgreSQL plans what services ask on their hot paths.

/**
 * Settings of a connection whose statements all go by index: a plan made while tables are small or not analysed scans, and gets slower with
 * every row.
 */
export const queryPlanSettings = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
};
