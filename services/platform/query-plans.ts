// Planner settings for the services' hot paths.

/** Settings of a connection that uses indexes only: a cached plan that was made while a table was small would scan it for ever. */
export const queryPlanSettings = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
};
