// Logs and metrics: one JSON line per unit of work on standard output, one Prometheus registry per process.
import { pino, destination, type Logger } from 'pino';
import { Registry, collectDefaultMetrics } from 'prom-client';

export type { Logger } from 'pino';

/**
 * The process's logger. Lines are buffered, so that a line is not a system call of its own, and
 * written at 4 KiB, every second and at exit.
 */
export function openLog(name: string, level: string): Logger {
  const stream = destination({ fd: 1, sync: false, minLength: 4096, periodicFlush: 1000 });
  return pino(
    {
      name,
      level,
      base: { name, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: { streamWrite: withoutRow },
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
    stream,
  );
}

// PostgreSQL tells the whole row that a constraint refuses: hashes of passwords, addresses, whatever a column holds. It stands in the
// detail of the error, and in message and stack of whoever passes the detail on. Here it is sought in the line, where nothing is nested.
const row = /Failing row contains \((?:[^"\\]|\\.)*?\)\.(?="|\\n {4}at )/g;

function withoutRow(line: string): string {
  return line.includes('Failing row contains') ? line.replace(row, 'Failing row contains (…).') : line;
}

/** A registry with the process's own figures (memory, CPU, event loop). */
export function openMetrics(name: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ process: name });
  collectDefaultMetrics({ register: registry });
  return registry;
}
