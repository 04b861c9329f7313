// Dashboard: events that arrive at the notifier, and the deliveries of webhooks.
import { chart, dashboard, quantiles, rate } from '../panels.ts';

export const notifier = dashboard({
  uid: 'ledger-notifier',
  title: 'Ledger: webhooks',
  description: 'Events that the notifier consumes, and the deliveries that it makes of them.',
  rows: {
    Events: [
      chart('Events', 'Consumed, and duplicates of earlier ones.', 'ops', [[rate('notifier_events_total', 'result'), '{{result}}']]),
      chart('Messages that are not consumed', 'With Kafka, by replica.', 'short', [
        ['sum by (instance) (notifier_consumer_lag)', '{{instance}}'],
      ]),
      chart('Kafka consumer', 'Built anew, by reason; rewound after a restore.', 'cps', [
        [rate('notifier_consumer_rebuilds_total', 'reason'), 'rebuilt: {{reason}}'],
        [rate('notifier_consumer_rewinds_total'), 'rewound'],
      ]),
      chart('Lost events', 'In the chosen time: gaps in logs, messages that Kafka removed, sequences that came twice.', 'short', [
        ['sum(increase(notifier_inbox_gaps_total[$__range]))', 'gaps'],
        ['sum(increase(notifier_consumer_lost_total[$__range]))', 'removed by Kafka'],
        ['sum(increase(notifier_events_reissued_total[$__range]))', 'reissued'],
      ]),
      chart('Dead letters', 'Messages that wait for an operator, and new ones.', 'short', [
        ['max(notifier_dead_letters)', 'waiting'],
        [rate('notifier_dead_letters_total'), 'new per second'],
      ]),
    ],
    Deliveries: [
      chart(
        'Attempts by status',
        'The status of the delivery after the attempt.',
        'ops',
        [[rate('notifier_attempts_total', 'status'), '{{status}}']],
        {
          stacked: true,
        },
      ),
      chart('Attempts by error class', 'What receivers answered; `ok` is not shown.', 'ops', [
        [rate('notifier_attempt_duration_seconds_count{result!="ok"}', 'result'), '{{result}}'],
      ]),
      chart(
        'Duration of attempts',
        'From the look-up of the name to the end of the answer.',
        's',
        quantiles('notifier_attempt_duration_seconds'),
      ),
      chart('Delay', 'From when a delivery was due to when a worker took it.', 's', quantiles('notifier_delivery_delay_seconds')),
      chart('Late deliveries', 'How long the oldest due delivery has waited.', 's', [['max(notifier_due_seconds)', 'oldest']]),
      chart('Tenants with due deliveries', 'Tenants with an attempt that is due.', 'short', [['max(notifier_due_tenants)', 'tenants']]),
      chart('Deliveries in flight', 'Each notifier, and WEBHOOK_CONCURRENCY.', 'short', [
        ['sum by (instance) (notifier_in_flight)', '{{instance}}'],
        ['max(notifier_in_flight_max)', 'WEBHOOK_CONCURRENCY'],
      ]),
      chart('Not sent', 'Without a webhook, with an unreadable secret, or with rows that PostgreSQL cannot read.', 'ops', [
        [rate('notifier_unsent_total'), 'no webhook'],
        [rate('notifier_secret_errors_total'), 'secret'],
        [rate('notifier_lease_errors_total'), 'rows'],
      ]),
    ],
  },
});
