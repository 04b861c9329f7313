// How much memory the machine lets a process have.
import { totalmem } from 'node:os';

/** Bytes that this process may take: its container's, where that has a limit, else the machine's. */
export function memoryOfAll(): number {
  // 0 where nobody knows; without a limit more than there is.
  return Math.min(process.constrainedMemory() || Infinity, totalmem());
}
