// Traces of group commit: a batch has a span of its own, linked to those of its postings; each posting has one for its commit, linked to the batch.
import { SpanKind, isTracing, startShared, startSpan } from '../platform/tracing.ts';
import { isRecorded } from '../platform/trace.ts';
import type { Batch } from './batch.ts';

/** Makes the spans of a batch that has been committed, where a posting's trace is recorded. `path`: how it was written. */
export function traceBatch({ items, tenants, settled, startedAt }: Batch, path: 'optimistic' | 'locking'): void {
  if (!isTracing()) return;
  const traces = new Set<string>();
  for (const { item } of settled)
    for (const { traceparent } of item.commands) if (traceparent !== null && isRecorded(traceparent)) traces.add(traceparent);
  if (traces.size === 0) return;
  const commands = items.reduce((sum, item) => sum + item.commands.length, 0);
  const attributes = { 'ledger.batch.commands': commands, 'ledger.batch.tenants': tenants.length, 'ledger.batch.path': path };
  // The clock of the spans can be set, so only the duration is measured with the other.
  const endTime = Date.now();
  const options = { kind: SpanKind.INTERNAL, startTime: endTime - (performance.now() - startedAt), attributes };
  const batch = startShared('commit batch', traces, options);
  if (!batch) return;
  const links = [{ context: batch.spanContext() }];
  for (const trace of traces) startSpan('commit', trace, { ...options, links })?.end(endTime);
  batch.end(endTime);
}
