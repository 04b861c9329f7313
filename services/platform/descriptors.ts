// How many files and connections the machine lets a process have open.
import { closeSync, openSync } from 'node:fs';

interface Report {
  userLimits?: { open_files?: { soft: number | 'unlimited' } };
}

/** Descriptors that this process may have open at once; `Infinity` where there is no limit. */
export function mostDescriptors(): number {
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean } = process.report;
  // Names of addresses would be looked up.
  report.excludeNetwork = true;
  const { userLimits } = report.getReport() as Report;
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Infinity;
}

/** Whether one more can be opened now. */
export function areDescriptorsLeft(): boolean {
  try {
    closeSync(openSync('/dev/null', 'r'));
    return true;
  } catch (error) {
    return !/^E[MN]FILE$/.test(String((error as NodeJS.ErrnoException).code));
  }
}
