// Calls of many postings that take long to be read: what everybody else waits for meanwhile.
import { entries, newTenant, startLedger } from '../../test/ledger.ts';

test('while many postings with many names in their metadata are read others are answered', async () => {
  const ledger = await startLedger();
  try {
    const { tenantId } = newTenant();
    const metadata = `{${Array.from({ length: 1_400 }, (_, place) => `"${place.toString(36)}":1`).join(',')}}`;
    const postings = Array.from({ length: 400 }, () => ({ tenantId, entries: entries('a debit 1.00 NGN'), metadata }));
    const large = { isAnswered: false, sent: performance.now(), took: 0 };
    const answer = ledger.client.postTransactions({ postings }).finally(() => {
      large.isAnswered = true;
      large.took = performance.now() - large.sent;
    });
    // Another one, who asks again as soon as he is answered.
    const other = newTenant();
    let longest = 0;
    while (!large.isAnswered) {
      const asked = performance.now();
      await ledger.client.listTransactions(other);
      longest = Math.max(longest, performance.now() - asked);
    }
    const { results } = await answer;
    expect(results.every(({ outcome }) => outcome.case === 'refusal' && outcome.value.reason === 'account_not_found')).toBe(true);
    // Without turns for others he waits for nearly all of it.
    expect(longest).toBeLessThan(large.took / 2);
  } finally {
    await ledger.end();
  }
});
