// Logs and metrics: one JSON line per unit of work on standard output, one Prometheus registry per process.
import { pino, type Logger } from 'pino';
import { Counter, Registry, collectDefaultMetrics } from 'prom-client';
import { Lines } from './lines.ts';

export type { Logger } from 'pino';

let output: Lines | undefined;

/** The process's logger, on standard output. Lines are buffered, so that a line is not a system call of its own. */
export function openLog(name: string, level: string): Logger {
  output ??= new Lines(1);
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
    output,
  );
}

// PostgreSQL tells the whole row that a constraint refuses: hashes of passwords, addresses, whatever a column holds. It stands in the
// detail of the error, and in message and stack of whoever passes the detail on. Here it is sought in the line, where nothing is nested.
const row = /Failing row contains \((?:[^"\\]|\\.)*?\)\.(?="|\\n {4}at )/g;

function withoutRow(line: string): string {
  return line.includes('Failing row contains') ? line.replace(row, 'Failing row contains (…).') : line;
}

/** A registry with the process's own figures (memory, CPU, event loop, lines that its log has lost). */
export function openMetrics(name: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ process: name });
  collectDefaultMetrics({ register: registry });
  const lost: Counter = new Counter({
    name: 'log_lines_lost_total',
    help: 'Lines of the log that were lost, as nothing could be written for long',
    registers: [registry],
    collect: () => {
      lost.reset();
      lost.inc(output?.lost ?? 0);
    },
  });
  return registry;
}
