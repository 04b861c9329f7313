// Deliveries as they are read.

/** Milliseconds since the Unix epoch of a column of times. */
export const ms = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::float8`;

/** A delivery without its texts. */
export interface DeliveryRow {
  /** UUIDs. */
  id: string;
  event_id: string;
  event_type: string;
  status: string;
  status_code: number | null;
  attempts: number;
  error_class: string | null;
  /** Milliseconds since the Unix epoch. */
  next_retry_ms: number | null;
  delivered_ms: number | null;
  failed_ms: number | null;
  created_ms: number;
}

/** The columns of {@link DeliveryRow}, of a table named `d`. */
export const deliveryColumns = `d.id, d.event_id, d.event_type, d.status, d.status_code, d.attempts, d.error_class,
  ${ms('d.next_retry_at')} as next_retry_ms, ${ms('d.delivered_at')} as delivered_ms, ${ms('d.failed_at')} as failed_ms,
  ${ms('d.created_at')} as created_ms`;
