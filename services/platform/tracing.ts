// OpenTelemetry traces by OTLP: one tracer per process. A request is recorded or not where it enters; all other spans follow their parent.
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { createContextKey, type HandlerContext } from '@connectrpc/connect';
import {
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes,
  type Span,
  type SpanKind,
  type SpanOptions,
  type Tracer,
} from '@opentelemetry/api';
import { Counter, type Registry } from 'prom-client';
import type { Lifetime } from './lifetime.ts';
import type { TracingSettings } from './settings.ts';
import type { Logger } from './telemetry.ts';
import { isRecorded, traceparentOf } from './trace.ts';

export { SpanKind, SpanStatusCode, type Attributes, type Span } from '@opentelemetry/api';

let tracer: Tracer | undefined;
let sampling: Pick<TracingSettings, 'ratio' | 'followsCaller'> = { ratio: 0, followsCaller: true };

/** Spans that wait for the collector. What comes when so many wait is dropped. */
const maxWaiting = 4096;
const [exportMs, flushMs] = [2_000, 3_000];

/** Starts tracing where there is a collector. What the collector does not take is counted and forgotten: nothing ever waits for it. */
export async function openTracing(
  name: string,
  settings: TracingSettings | undefined,
  { lifetime, logger, metrics }: { lifetime: Lifetime; logger: Logger; metrics: Registry },
): Promise<void> {
  const help = 'Spans of traces: exported; queue_full, dropped because too many waited; or failed, not taken by the collector';
  const spans = new Counter({ name: 'tracing_spans_total', help, labelNames: ['result'], registers: [metrics] });
  for (const result of ['exported', 'queue_full', 'failed']) spans.inc({ result }, 0);
  if (!settings) return;
  const { AlwaysOnSampler, BatchSpanProcessor, TracerProvider } = await import('@opentelemetry/sdk-trace');
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-proto');
  const { detectResources, envDetector, resourceFromAttributes } = await import('@opentelemetry/resources');
  const { url, headers } = settings;
  const exporter = new OTLPTraceExporter({ url, headers });
  let waiting = 0;
  let isFailing = false;
  const processor = new BatchSpanProcessor({
    maxQueueSize: maxWaiting,
    scheduledDelayMillis: exportMs,
    exporter: {
      shutdown: () => exporter.shutdown(),
      export: (some, done) =>
        exporter.export(some, (result) => {
          waiting -= some.length;
          spans.inc({ result: result.error ? 'failed' : 'exported' }, some.length);
          if (result.error && !isFailing) logger.warn({ reason: result.error.message }, 'traces are not exported');
          if (!result.error && isFailing) logger.info('traces are exported again');
          isFailing = result.error !== undefined;
          done(result);
        }),
    },
  });
  const own = { 'service.name': name, 'service.namespace': 'ledger', 'service.instance.id': `${hostname()}:${process.pid}` };
  const provider = new TracerProvider({
    resource: resourceFromAttributes(own).merge(detectResources({ detectors: [envDetector] })),
    sampler: new AlwaysOnSampler(),
    spanProcessors: [
      {
        onStart: () => undefined,
        // Counted here, as the processor drops in silence.
        onEnd: (span) => {
          if (waiting >= maxWaiting) return spans.inc({ result: 'queue_full' });
          waiting++;
          processor.onEnd(span);
        },
        forceFlush: () => processor.forceFlush(),
        shutdown: () => processor.shutdown(),
      },
    ],
  });
  sampling = settings;
  tracer = provider.getTracer('ledger');
  lifetime.add('tracing', async () => {
    tracer = undefined;
    await Promise.race([provider.shutdown().catch(() => undefined), pause(flushMs, undefined, { ref: false })]);
  });
}

/** Whether spans are made at all: what only they need can be left out. */
export const isTracing = (): boolean => tracer !== undefined;

/** The span of a request that enters here; undefined where it is not recorded. `traceparent`: what its caller says. */
export function startRequest(name: string, traceparent: string | string[] | undefined, options: SpanOptions): Span | undefined {
  if (!tracer) return undefined;
  const parent = traceparentOf(traceparent);
  const isWanted = parent !== null && sampling.followsCaller ? isRecorded(parent) : Math.random() < sampling.ratio;
  return isWanted ? tracer.startSpan(name, options, contextOf(parent)) : undefined;
}

/** The trace of a request that is not recorded: where callers don't decide, no service is to take their word for it. */
export function unrecorded(traceparent: string): string {
  return tracer && !sampling.followsCaller && traceparent !== '' ? `${traceparent.slice(0, 53)}00` : traceparent;
}

/** A span below a parent that is recorded, else undefined. */
export function startSpan(name: string, parent: string | null | undefined, options: SpanOptions): Span | undefined {
  return tracer && parent && isRecorded(parent) ? tracer.startSpan(name, options, contextOf(parent)) : undefined;
}

/** A span of a trace of its own, for work that many traces share: it links to theirs. */
export function startShared(name: string, traces: Iterable<string>, options: SpanOptions): Span | undefined {
  return tracer?.startSpan(name, { ...options, links: Array.from(traces, (each) => ({ context: spanContextOf(each) })) }, ROOT_CONTEXT);
}

/** Ends a span with what has become known; `error`: the kind of failure, if it failed. */
export function endSpan(span: Span | undefined, attributes: Attributes = {}, error?: string): void {
  if (!span) return;
  span.setAttributes(attributes);
  if (error !== undefined) span.setAttribute('error.type', error).setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

/** The span of a gRPC call whose trace is recorded. */
export const callSpan = createContextKey<Span | undefined>(undefined, { description: 'span of the call' });

/** The trace context of a call's message: its own, but the call's where it has none, or the call's span where both are of one trace. */
export function traceOfCall(own: string, { requestHeader, values }: Pick<HandlerContext, 'requestHeader' | 'values'>): string {
  const span = tracer && values.get(callSpan);
  if (span && (own === '' || own.slice(3, 35) === span.spanContext().traceId)) return traceparentFrom(span);
  return own === '' ? (requestHeader.get('traceparent') ?? '') : own;
}

/** How a span of a gRPC call starts. `method`: `package.Service/Method`. */
export const rpcSpan = (method: string, kind: SpanKind): SpanOptions => ({
  kind,
  attributes: { 'rpc.system.name': 'grpc', 'rpc.method': method },
});

// Of the other codes the caller is the reason.
const faults = new Set(['unknown', 'deadlineexceeded', 'unimplemented', 'internal', 'unavailable', 'dataloss']);

/** What a span of a gRPC call ends with. `code`: as in metrics. */
export function rpcResult(code: string): [Attributes, string | undefined] {
  return [{ 'rpc.response.status_code': code }, faults.has(code) ? code : undefined];
}

/**
 * Starts a span for the items of each trace that is recorded, and puts it in the place of their parent. The answer ends the spans and gives the
 * items their parents back.
 */
export function startSpans(
  items: readonly { traceparent: string | null }[],
  name: string,
  options: SpanOptions,
): (attributes?: Attributes, error?: string) => void {
  if (!tracer) return () => undefined;
  const spans = new Map<string, Span>();
  const before: { item: { traceparent: string | null }; parent: string }[] = [];
  for (const item of items) {
    const parent = item.traceparent;
    if (!parent || !isRecorded(parent)) continue;
    const span = spans.get(parent) ?? tracer.startSpan(name, options, contextOf(parent));
    spans.set(parent, span);
    before.push({ item, parent });
    item.traceparent = traceparentFrom(span);
  }
  return (attributes, error) => {
    for (const { item, parent } of before) item.traceparent = parent;
    for (const span of spans.values()) endSpan(span, attributes, error);
  };
}

/** Does work in the spans that {@link startSpans} starts. */
export async function inSpans<Result>(
  items: Parameters<typeof startSpans>[0],
  name: string,
  options: SpanOptions,
  work: () => Promise<Result>,
): Promise<Result> {
  const end = startSpans(items, name, options);
  try {
    const result = await work();
    end();
    return result;
  } catch (error) {
    end({}, (error as Error).constructor.name);
    throw error;
  }
}

/** What a span's children name as their parent. */
export function traceparentFrom(span: Span): string {
  const { traceId, spanId } = span.spanContext();
  return `00-${traceId}-${spanId}-01`;
}

/** The trace in a log line, where it is recorded. */
export function traceField(traceparent: string | null): { trace_id?: string } {
  return tracer && traceparent && isRecorded(traceparent) ? { trace_id: traceparent.slice(3, 35) } : {};
}

function contextOf(parent: string | null) {
  return parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, spanContextOf(parent));
}

function spanContextOf(traceparent: string) {
  const [, traceId = '', spanId = ''] = traceparent.split('-');
  return { traceId, spanId, traceFlags: 1, isRemote: true };
}
