// A collector of traces for tests: takes OTLP over HTTP, decodes the protobuf, and keeps the spans.
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { loadSync } from '@grpc/proto-loader';
import { root } from '../deploy/local/plan.ts';
import { until } from './notifier.ts';

/** A span as it was exported; ids in hexadecimal, times in nanoseconds. */
export interface ExportedSpan {
  /** Attributes of the process. */
  resource: Record<string, unknown>;
  trace: string;
  id: string;
  /** Empty for the root of a trace. */
  parent: string;
  name: string;
  kind: string;
  start: bigint;
  end: bigint;
  attributes: Record<string, unknown>;
  links: { trace: string; id: string }[];
  failed: boolean;
}

/** A running collector. */
export interface Collector {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  url: string;
  spans: ExportedSpan[];
  /** The headers of each export. */
  requests: IncomingHttpHeaders[];
  /** What it answers; 0: nothing at all. */
  status: number;
  /** The spans of a trace, once these names are among them; twice where two spans have it. */
  trace(trace: string, ...names: string[]): Promise<ExportedSpan[]>;
  close(): Promise<void>;
}

/** Starts a collector; `port` 0 is any. */
export async function startCollector(port = 0): Promise<Collector> {
  const { Export } = loadSync(join(root, 'test/otlp.proto'), { longs: String, enums: String, arrays: true })['otlp.TraceService'] as any;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      collector.requests.push(request.headers);
      if (request.url !== '/v1/traces' || collector.status === 0) return;
      const body = Buffer.concat(chunks);
      const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
      if (collector.status === 200) collector.spans.push(...spansOf(Export.requestDeserialize(plain)));
      response.writeHead(collector.status, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done));
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: [],
    requests: [],
    status: 200,
    trace: (trace, ...names) =>
      until(() => {
        const found = collector.spans.filter((span) => span.trace === trace);
        const count = (all: string[], name: string) => all.filter((each) => each === name).length;
        const own = found.map(({ name }) => name);
        return Promise.resolve(names.every((name) => count(own, name) >= count(names, name)) ? found : null);
      }),
    close: () => {
      server.closeAllConnections();
      return new Promise((done) => server.close(() => done()));
    },
  };
  return collector;
}

/**
 * The spans below a parent as lines, indented by depth: service, kind and name. Siblings in the order of their names, as processes and events
 * overlap.
 */
export function treeOf(spans: ExportedSpan[], parent: string, depth = 0): string[] {
  return spans
    .filter((span) => span.parent === parent)
    .map((span) => [
      `${'  '.repeat(depth)}${String(span.resource['service.name'])} ${span.kind} ${span.name}`,
      ...treeOf(spans, span.id, depth + 1),
    ])
    .sort()
    .flat();
}

function spansOf({ resourceSpans }: any): ExportedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }: any) =>
    scopeSpans.flatMap(({ spans }: any) =>
      spans.map((span: any): ExportedSpan => ({
        resource: valuesOf(resource.attributes),
        trace: hex(span.traceId),
        id: hex(span.spanId),
        parent: hex(span.parentSpanId),
        name: span.name,
        kind: span.kind,
        start: BigInt(span.startTimeUnixNano),
        end: BigInt(span.endTimeUnixNano),
        attributes: valuesOf(span.attributes),
        links: span.links.map((link: any) => ({ trace: hex(link.traceId), id: hex(link.spanId) })),
        failed: span.status?.code === 2,
      })),
    ),
  );
}

const hex = (bytes: Buffer | undefined): string => bytes?.toString('hex') ?? '';

const valuesOf = (attributes: any[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
