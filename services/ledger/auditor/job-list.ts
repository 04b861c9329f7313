// All kinds of jobs by their names.
import type { JobKinds } from './job-kinds.ts';
import { importJob } from './import-job.ts';
import { reportJobs } from './report-jobs.ts';

/** What may be started as a job. */
export const jobKinds: JobKinds = { ...reportJobs, import: importJob };
