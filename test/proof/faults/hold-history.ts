// Checks what clients have seen of holds against the log: each is there once, ends at most once and as was answered, with exact sums.
import type { Event, HoldRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toMinor } from '../../../services/platform/money.ts';
import type { TriedHold } from './hold-clients.ts';

/** What is wrong, in words. */
export function holdFaults(events: Event[], holds: readonly TriedHold[]): string[] {
  const findings: string[] = [];
  const made = new Map<string, HoldRecord>();
  const after = new Map<string, HoldRecord>();
  const captured = new Map<string, bigint>();
  for (const { data, sequence } of events) {
    const record =
      data.case === 'holdCreated' || data.case === 'holdEnded' || data.case === 'transactionPosted' ? data.value.hold : undefined;
    if (!record) continue;
    const before = after.get(record.holdId);
    if (data.case === 'holdCreated') {
      if (made.has(record.idempotencyKey)) findings.push(`hold ${record.idempotencyKey} is in the log more than once`);
      made.set(record.idempotencyKey, record);
    } else if (before?.status !== 'pending') {
      findings.push(`event ${sequence} changes ${record.holdId}, which is ${before?.status ?? 'not there'}`);
    }
    if (data.case === 'transactionPosted') {
      captured.set(record.holdId, (captured.get(record.holdId) ?? 0n) + (toMinor(data.value.entries[0]?.amount ?? '') ?? 0n));
    }
    after.set(record.holdId, record);
  }
  const tried = new Map(holds.map((hold) => [hold.key, hold]));
  for (const [key, { holdId }] of made) {
    if (tried.get(key)?.holdId !== holdId) findings.push(`hold ${key} is in the log as ${holdId}, and was never answered so`);
  }
  for (const hold of holds) {
    if (hold.holdId !== undefined) findings.push(...differences(hold, after.get(hold.holdId), captured.get(hold.holdId) ?? 0n));
  }
  return findings;
}

/** How a hold's last event differs from what its client was answered. */
function differences({ key, amount, isVoided, ends }: TriedHold, record: HoldRecord | undefined, captured: bigint): string[] {
  if (!record) return [`hold ${key} was answered and is not in the log`];
  const said = [...ends, ...(isVoided ? ['voided'] : [])].filter((end) => end !== record.status);
  const wrong = record.entries.filter((line) => {
    const [whole, taken, left] = [line.amount, line.captured, line.remaining].map((text) => toMinor(text) ?? -1n);
    return whole !== amount || taken !== captured || left !== 0n;
  });
  return [
    ...said.map((end) => `hold ${key} is ${record.status}, and was answered as ${end}`),
    ...(record.status === 'pending' ? [`hold ${key} has not ended`] : []),
    ...wrong.map((line) => `hold ${key} of ${amount} has captured ${captured}, and its line is ${JSON.stringify(line)}`),
  ];
}
