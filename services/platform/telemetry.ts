// Logs and metrics: JSON lines on standard output, one Prometheus registry per process.
import { pino, type DestinationStream, type Logger } from 'pino';
import { Counter, Gauge, Registry, collectDefaultMetrics } from 'prom-client';
import { version } from './version.ts';

export type { Logger } from 'pino';

let output: DestinationStream | undefined;

/** The process's logger, on standard output. Lines are written at 4 KiB, once a second and at exit. */
export function openLog(name: string, level: string): Logger {
  output ??= openOutput();
  return pino(
    {
      name,
      level,
      base: { name, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: { streamWrite: redactRow },
      // A second line of defence: nothing logs these on purpose.
      redact: [
        'authorization',
        'password',
        'token',
        'refresh_token',
        'key',
        'secret',
        'headers.authorization',
        'req.headers.authorization',
      ],
    },
    output,
  );
}

function openOutput(): DestinationStream {
  const stream = pino.destination({ dest: 1, sync: true, minLength: 4096, maxLength: 16 << 20, periodicFlush: 1_000 });
  // A full disk must not end the process: lines wait in memory, and beyond 16 MiB they are dropped.
  let isFailing = false;
  stream.on('error', () => (isFailing = true)).on('write', () => (isFailing = false));
  // `flushSync` would repeat a failed write for ever.
  process.once('exit', () => isFailing || stream.flushSync());
  return stream;
}

// PostgreSQL puts the whole row that a constraint rejects into the error's detail: password hashes, addresses, any column.
const row = /Failing row contains \((?:[^"\\]|\\.)*?\)\.(?="|\\n {4}at )/g;

function redactRow(line: string): string {
  return line.includes('Failing row contains') ? line.replace(row, 'Failing row contains (…).') : line;
}

/** A registry with the process's own metrics: memory, CPU, event loop. */
export function openMetrics(name: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ process: name });
  collectDefaultMetrics({ register: registry });
  const labels = { version, node: process.versions.node };
  new Gauge({ name: 'build_info', help: 'Always 1', labelNames: ['version', 'node'], registers: [registry] }).set(labels, 1);
  const busy: Counter = new Counter({
    name: 'nodejs_eventloop_active_seconds_total',
    help: 'Time in which the event loop was not idle: at a rate of 1 the process can do no more',
    registers: [registry],
    collect: () => {
      busy.reset();
      busy.inc(performance.eventLoopUtilization().active / 1000);
    },
  });
  return registry;
}
