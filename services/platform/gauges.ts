// Gauges that are measured when Prometheus reads them: from memory, or from the database at most once a second.
import { Gauge, type Registry } from 'prom-client';
import { cached, withTimeout } from './health.ts';

/** Adds a gauge of a value in memory. */
export function openGauge(metrics: Registry, name: string, help: string, value: () => number): void {
  const gauge: Gauge = new Gauge({ name, help, registers: [metrics], collect: () => gauge.set(value()) });
}

/** Adds gauges of values that are measured together, at most once a second. They are NaN where the measurement fails or takes more than 2 s. */
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
