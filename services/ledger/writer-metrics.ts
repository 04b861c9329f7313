// Metrics of the writer.
import { Counter, Histogram, type Registry } from 'prom-client';
import { openGauge } from '../platform/gauges.ts';
import type { ItemOutcome, Outcome } from './queue.ts';

export interface WriterMetrics {
  batchItems: Histogram;
  commitSeconds: Histogram<'path'>;
  /** Counts how an item's commands ended. */
  count: (outcome: ItemOutcome) => void;
  failures: Counter;
}

/** Registers the metrics; `waiting` counts the postings in the queues, which take `max`. */
export function openWriterMetrics(registry: Registry, waiting: () => number, max: number): WriterMetrics {
  const registers = [registry];
  openGauge(registry, 'ledger_postings_waiting', 'Postings that wait for a batch', waiting);
  openGauge(registry, 'ledger_postings_waiting_max', 'Postings that may wait: WRITER_QUEUE', () => max);
  const outcomes = new Counter({
    name: 'ledger_postings_total',
    help: 'Answers to postings: posted; found, where an earlier call had posted it; replayed; lock_conflict, where it was returned and comes again; or the reason of the refusal',
    labelNames: ['outcome'],
    registers,
  });
  // An alert compares it with 0, also where nothing was posted yet.
  outcomes.inc({ outcome: 'posted' }, 0);
  return {
    count: (outcome) => {
      if (!Array.isArray(outcome)) outcomes.inc({ outcome: labelOf(outcome) });
      else for (const each of outcome) outcomes.inc({ outcome: labelOf(each) });
    },
    batchItems: new Histogram({
      name: 'ledger_batch_items',
      help: 'Postings in a batch',
      buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500],
      registers,
    }),
    commitSeconds: new Histogram({
      name: 'ledger_commit_seconds',
      help: 'Time to the durable commit of a batch: from sending it (optimistic), or from asking for its locks (locking)',
      labelNames: ['path'],
      buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 10],
      registers,
    }),
    failures: new Counter({
      name: 'ledger_batch_failures_total',
      help: 'Batches that failed, by SQLSTATE; one that is rejected for its data is bisected until the bad item is alone',
      labelNames: ['sqlstate'],
      registers,
    }),
  };
}

function labelOf(outcome: Outcome): string {
  if ('refusal' in outcome) return outcome.refusal.reason;
  if ('lockConflict' in outcome) return 'lock_conflict';
  if (outcome.found === true) return 'found';
  return outcome.result.replayed ? 'replayed' : 'posted';
}
