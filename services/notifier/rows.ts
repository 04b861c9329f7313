// Deliveries as they are read, and how a tenant’s next work is noted.

import { epochMs } from '../platform/postgres.ts';

/** Of an insert into `due`: who has work already sooner than that, keeps it so. */
export const keepEarlierDueTime =
  'on conflict (tenant_id) do update set next_at = excluded.next_at where due.next_at is null or due.next_at > excluded.next_at';

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

/** Whether a delivery of a table named `d` waits for an attempt that was promised and is not counted yet. */
export const isRetryScheduled = '(d.next_retry_at is not null and not d.by_hand)';

const claimed = 'exists (select from claims c where c.tenant_id = d.tenant_id and c.delivery_id = d.id)';

/** The columns of {@link DeliveryRow}, of a table named `d`. An attempt that is under way is counted, and promised no more. */
export const deliveryColumns = `d.id, d.event_id, d.event_type, d.status, d.status_code, d.error_class,
  d.attempts + case when ${isRetryScheduled} and ${claimed} then 1 else 0 end as attempts,
  case when d.next_retry_at is not null and not ${claimed} then ${epochMs('d.next_retry_at')} end as next_retry_ms,
  ${epochMs('d.delivered_at')} as delivered_ms, ${epochMs('d.failed_at')} as failed_ms, ${epochMs('d.created_at')} as created_ms`;
