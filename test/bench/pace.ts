// Work that begins at a steady rate, whatever becomes of what has begun: what is slow is not asked less often.
import { setTimeout as pause } from 'node:timers/promises';

/**
 * Begins `work` `perSecond` times a second for so many seconds and resolves when all of it has ended. It is told its number, from 0, and when
 * it was to begin (`performance.now()`), which is earlier than it did where this thread was busy. Throws what any of it throws, and begins no more.
 */
export async function atRate(perSecond: number, seconds: number, work: (number: number, planned: number) => Promise<void>): Promise<void> {
  // Not a list: in hours there are millions.
  const open = new Set<Promise<void>>();
  const failures: unknown[] = [];
  const [started, count] = [performance.now(), Math.floor(perSecond * seconds)];
  for (let begun = 0; begun < count && failures.length === 0;) {
    const planned = started + (begun * 1000) / perSecond;
    if (planned > performance.now()) {
      await pause(1);
      continue;
    }
    const one = work(begun++, planned)
      .catch((error: unknown) => failures.push(error))
      .then(() => void open.delete(one));
    open.add(one);
  }
  await Promise.all(open);
  if (failures.length > 0) throw failures[0];
}
