// The pace of rounds of work that cost much by themselves and little for what they carry.

/**
 * Milliseconds from the beginning of a round to that of the next one, by how many things it carried: what comes one by one in quick succession
 * then travels together, and what comes to an idle house waits for nobody. At 500 postings/s, each with a webhook, a fixed 25 spared the
 * notifier four tenths of its CPU a posting and PostgreSQL three; up to 50, the whole house used 2,544 µs instead of 3,068 (a slow machine). A
 * fixed 50 made a posting every 50 ms wait for the round before it.
 */
export function gatherMs(carried: number): number {
  return Math.min(50, 25 + 2 * carried);
}
