// Dashboard: whether the ledger works, on one screen.
import { chart, dashboard, quantile, quantiles, rate, stat } from '../panels.ts';

// A stream lasts for minutes.
const answered = 'http_request_duration_seconds{route!~".*/stream"}';

export const overview = dashboard({
  uid: 'ledger-overview',
  title: 'Ledger: overview',
  description: 'Whether clients get answers, postings commit, and events and webhooks arrive.',
  rows: {
    Now: [
      stat(
        'Requests without a fault',
        'Share of requests that were answered with less than 500. Below 99.9 %, look at the gateway.',
        'percentunit',
        `1 - (${rate('http_requests_total{status=~"5.."}')} or vector(0)) / ${rate('http_requests_total')}`,
        { redBelow: 0.999 },
      ),
      stat('Slowest hundredth of requests', 'Answers of the gateway but event streams, 99th percentile.', 's', quantile(0.99, answered), {
        redFrom: 1,
      }),
      stat('Postings', 'Transactions that were committed.', 'ops', rate('ledger_postings_total{outcome="posted"}')),
      stat('Alerts', 'Alerts that fire.', 'none', 'count(ALERTS{alertstate="firing", severity=~"page|ticket"}) or vector(0)', {
        redFrom: 1,
      }),
      stat('Unpublished for', 'Age of the oldest event that is not published.', 's', 'max(ledger_relay_lag_seconds)', { redFrom: 60 }),
      stat('Deliveries late by', 'How long the oldest due delivery has waited.', 's', 'max(notifier_due_seconds)', { redFrom: 60 }),
      stat('Frozen tenants', 'Tenants in which verification has found a difference.', 'none', 'max(ledger_frozen_tenants)', { redFrom: 1 }),
      stat(
        'Dead letters',
        'Events and messages that wait for an operator.',
        'none',
        'max(ledger_relay_dead_letters) + max(notifier_dead_letters)',
        { redFrom: 1 },
      ),
    ],
    'Requests and postings': [
      chart('Requests by status', 'Answers of all gateways.', 'reqps', [[rate('http_requests_total', 'status'), '{{status}}']], {
        stacked: true,
      }),
      chart('Duration of requests', 'Quantiles over all routes but event streams.', 's', quantiles(answered)),
      chart('Rejected requests by code', 'The `code` of error answers.', 'reqps', [[rate('http_errors_total', 'code'), '{{code}}']]),
      chart(
        'Postings by outcome',
        'posted, found, replayed, or the reason of the rejection.',
        'ops',
        [[rate('ledger_postings_total', 'outcome'), '{{outcome}}']],
        { stacked: true },
      ),
      chart('Time to commit', 'From sending a batch to PostgreSQL to its durable commit.', 's', quantiles('ledger_commit_seconds')),
      chart('Postings that wait', 'In the queues of each ledger, and the most that may wait.', 'short', [
        ['sum by (instance) (ledger_postings_waiting)', '{{instance}}'],
        ['max(ledger_postings_waiting_max)', 'WRITER_QUEUE'],
      ]),
    ],
    'Events and webhooks': [
      chart('Events', 'Published by the relay, and consumed by the notifier.', 'ops', [
        [rate('ledger_relay_published_total'), 'published'],
        [rate('notifier_events_total{result="consumed"}'), 'consumed'],
      ]),
      chart('Delays', 'Age of the oldest unpublished event, and of the oldest due delivery.', 's', [
        ['max(ledger_relay_lag_seconds)', 'publication'],
        ['max(notifier_due_seconds)', 'delivery'],
      ]),
      chart('Delivery attempts by status', 'The status of the delivery after the attempt.', 'ops', [
        [rate('notifier_attempts_total', 'status'), '{{status}}'],
      ]),
    ],
    Processes: [
      chart('Running', 'Processes that Prometheus can scrape.', 'short', [
        ['count by (process) (process_start_time_seconds{process!=""})', '{{process}}'],
      ]),
      chart('Dependencies away', 'How many replicas lack what they depend on, as `/readyz` says.', 'short', [
        ['sum by (process, dependency) (1 - dependency_up)', '{{process}}: {{dependency}}'],
      ]),
      chart(
        'Event loop',
        'Share of time in which the event loop is busy: at 100 % a process can do no more.',
        'percentunit',
        [['max by (process) (rate(nodejs_eventloop_active_seconds_total[$__rate_interval]))', '{{process}}']],
        { max: 1 },
      ),
      chart('Calls that wait for PostgreSQL', 'For a connection, by pool.', 'short', [
        ['sum by (pool) (postgres_pool_waiting)', '{{pool}}'],
      ]),
    ],
  },
});
