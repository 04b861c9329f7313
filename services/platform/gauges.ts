// Figures that are measured when they are asked for: of what this process knows, or of what costs a question to the database.
import { Gauge, type Registry } from 'prom-client';
import { cached, withTimeout } from './health.ts';

/** Makes a gauge of what this process knows at any time. */
export function openGauge(metrics: Registry, name: string, help: string, value: () => number): void {
  const gauge: Gauge = new Gauge({ name, help, registers: [metrics], collect: () => gauge.set(value()) });
}

/**
 * Makes gauges of what is measured together, at most once a second. They are NaN where it can't be measured, or not soon: what is not known
 * now is not what it was, and Prometheus, which waits ten seconds for all figures of a process, is to have the others.
 */
export function openGauges<Measured>(
  metrics: Registry,
  measure: () => Promise<Measured>,
): (name: string, help: string, value: (measured: Measured) => number) => void {
  const measured = cached(measure);
  return (name, help, value) => {
    const collect = async () => gauge.set(await withTimeout(measured()).then(value, () => NaN));
    const gauge: Gauge = new Gauge({ name, help, registers: [metrics], collect });
  };
}
