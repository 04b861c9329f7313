// All kinds of jobs by their names.
import type { JobKinds } from './job-kinds.ts';

/** What may be started as a job. */
export const jobKinds: JobKinds = {};
