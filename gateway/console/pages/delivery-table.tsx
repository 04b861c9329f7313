// A short table of deliveries, and how their states look.
import type { ReactElement } from 'react';
import { Link } from 'wouter';
import type { DeliveryStatus, WebhookDelivery } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Badge } from '../parts/page.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';

const words = texts.webhooks;

const tones = { pending: 'warn', delivered: 'good', failed: 'bad' } as const;

/** The state of a delivery. */
export function DeliveryState({ status }: { status: DeliveryStatus }): ReactElement {
  return <Badge tone={tones[status]}>{words.statuses[status]}</Badge>;
}

/** What the receiver answered, or why it did not. */
export function AnswerOf({ status_code: status, error_class: why }: Pick<WebhookDelivery, 'status_code' | 'error_class'>): ReactElement {
  return <code>{status ?? why ?? words.noAnswer}</code>;
}

/** The columns of lists of deliveries. */
export const deliveryColumns: ColumnOf<WebhookDelivery>[] = [
  {
    id: 'event',
    label: words.event,
    width: '2fr',
    isRowHeader: true,
    cell: ({ event_type: type }) => <code>{type}</code>,
  },
  { id: 'status', label: texts.common.status, width: 110, cell: ({ status }) => <DeliveryState status={status} /> },
  { id: 'answer', label: words.answer, width: 110, cell: (each) => <AnswerOf {...each} /> },
  {
    id: 'attempts',
    label: words.attempts,
    width: 90,
    isNumber: true,
    isOptional: true,
    cell: (each) => `${each.attempts}/${each.max_attempts}`,
  },
  { id: 'at', label: texts.common.created, width: 184, isOptional: true, cell: ({ created_at: at }) => <Time time={at} /> },
];

/** Deliveries of one thing. */
export function DeliveryTable({ deliveries }: { deliveries: WebhookDelivery[] }): ReactElement {
  const [first, ...others] = deliveryColumns;
  const linked: ColumnOf<WebhookDelivery> = {
    ...(first as ColumnOf<WebhookDelivery>),
    cell: ({ id, event_type: type }) => (
      <Link href={`/webhooks/${id}`}>
        <code>{type}</code>
      </Link>
    ),
  };
  return <Sheet label={texts.transaction.deliveries} columns={[linked, ...others]} items={deliveries} idOf={({ id }) => id} />;
}
