// Metrics of requests by method, route and status, of errors by code, and of connections.
import type { Server } from 'node:http';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ErrorCode } from './errors.ts';

const labelNames = ['method', 'route', 'status'] as const;
// Anybody may send any of 30 more to any path.
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Counts answered requests and measures their duration. */
export class RequestMetrics {
  private readonly total: Counter<(typeof labelNames)[number]>;
  private readonly duration: Histogram<(typeof labelNames)[number]>;
  private readonly errors: Counter<'code'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const help = 'Answers by method, route and status; status 0: the client left before the answer';
    this.total = new Counter({ name: 'http_requests_total', help, labelNames, registers });
    const durationHelp = 'Duration of requests by method, route and class of status: 2xx, 4xx, 5xx; 0 as above';
    this.duration = new Histogram({ name: 'http_request_duration_seconds', help: durationHelp, labelNames, buckets, registers });
    this.errors = new Counter({ name: 'http_errors_total', help: 'Error answers by code', labelNames: ['code'], registers });
  }

  /** Counts one answer. `route`: the pattern of its path, so that the label has few values. */
  count(sent: string, route: string, status: number, seconds: number): void {
    const method = knownMethods.has(sent) ? sent : '*';
    this.total.inc({ method, route, status });
    this.duration.observe({ method, route, status: status === 0 ? 0 : `${Math.floor(status / 100)}xx` }, seconds);
  }

  /** Counts an error answer. */
  countError(code: ErrorCode): void {
    this.errors.inc({ code });
  }
}

/** Counts a server's open connections and those rejected beyond its `maxConnections`; `onReject` is called for each of these. */
export function countConnections(registry: Registry, server: Server, onReject: () => void): void {
  const registers = [registry];
  const open: Gauge = new Gauge({
    name: 'http_connections',
    help: 'Open connections',
    registers,
    collect: () => new Promise<void>((done) => server.getConnections((_, count) => done(open.set(count)))),
  });
  const rejected = new Counter({ name: 'http_connections_refused_total', help: 'Connections closed beyond MAX_CONNECTIONS', registers });
  server.on('drop', () => {
    rejected.inc();
    onReject();
  });
}
