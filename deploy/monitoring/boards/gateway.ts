// Dashboard: REST requests by route, the gateway's calls to the services, and what identity does in the background.
import { chart, dashboard, quantile, rate } from '../panels.ts';

const route = 'http_requests_total{route=~"$route"}';

export const gateway = dashboard({
  uid: 'ledger-gateway',
  title: 'Ledger: gateway',
  description: 'Rate, errors and duration of each route, the limits of the gateway, and its calls to the services.',
  variables: { route: 'http_requests_total' },
  rows: {
    Routes: [
      chart('Requests by route', 'The ten busiest of the chosen routes.', 'reqps', [
        [`topk(10, ${rate(route, 'method', 'route')})`, '{{method}} {{route}}'],
      ]),
      chart('Faults by route', 'Answers of 500 and more.', 'reqps', [
        [rate('http_requests_total{route=~"$route", status=~"5.."}', 'method', 'route', 'status'), '{{method}} {{route}} {{status}}'],
      ]),
      chart('Duration by route, 99 %', 'The ten slowest of the chosen routes; answers of 2xx.', 's', [
        [
          `topk(10, ${quantile(0.99, 'http_request_duration_seconds{route=~"$route", status="2xx"}', 'method', 'route')})`,
          '{{method}} {{route}}',
        ],
      ]),
      chart(
        'Answers by status',
        'Of the chosen routes. Status 0: the client left before its answer.',
        'reqps',
        [[rate(route, 'status'), '{{status}}']],
        {
          stacked: true,
        },
      ),
      chart('Rejected requests by code', 'Of all routes: the `code` of error answers.', 'reqps', [
        [rate('http_errors_total', 'code'), '{{code}}'],
      ]),
      chart('Mean duration', 'Of the chosen routes, by class of status.', 's', [
        [
          `${rate('http_request_duration_seconds_sum{route=~"$route"}', 'status')} / ${rate('http_request_duration_seconds_count{route=~"$route"}', 'status')}`,
          '{{status}}',
        ],
      ]),
    ],
    Limits: [
      chart('Requests in flight', 'Each gateway, and MAX_IN_FLIGHT. Beyond it requests answer 503 `overloaded`.', 'short', [
        ['sum by (instance) (http_requests_in_flight)', '{{instance}}'],
        ['max(http_requests_in_flight_max)', 'MAX_IN_FLIGHT'],
      ]),
      chart('Connections', 'Open ones of each gateway.', 'short', [['sum by (instance) (http_connections)', '{{instance}}']]),
      chart('Closed connections', 'Closed at once, because there were MAX_CONNECTIONS.', 'cps', [
        [rate('http_connections_refused_total'), 'closed'],
      ]),
    ],
    'Calls to the services': [
      chart('Calls', 'Unary calls of the gateways.', 'reqps', [[`topk(10, ${rate('grpc_client_seconds_count', 'method')})`, '{{method}}']]),
      chart('Calls that fail', 'By method and code.', 'reqps', [
        [rate('grpc_client_seconds_count{code!="ok"}', 'method', 'code'), '{{method}} {{code}}'],
      ]),
      chart('Duration of calls, 99 %', 'The ten slowest methods, as the gateway sees them.', 's', [
        [`topk(10, ${quantile(0.99, 'grpc_client_seconds', 'method')})`, '{{method}}'],
      ]),
      chart('Postings in flight', 'Waiting in a gateway, or on their way to the ledger.', 'short', [
        ['sum by (instance) (gateway_postings_in_flight)', '{{instance}}'],
      ]),
      chart('Postings per call', 'Mean of the calls of PostTransactions.', 'short', [
        [`${rate('gateway_call_postings_sum')} / ${rate('gateway_call_postings_count')}`, 'mean'],
      ]),
      chart('Repeated calls', 'Calls of PostTransactions whose outcome was unknown.', 'cps', [
        [rate('gateway_call_retries_total'), 'repeated'],
      ]),
    ],
    Identity: [
      chart('Passwords', 'Computations, and those that wait for their turn.', 'short', [
        [rate('identity_passwords_total', 'operation'), '{{operation}} per second'],
        ['sum(identity_passwords_waiting)', 'waiting'],
      ]),
      chart('Mails', 'Attempts by result, and mails that are not sent.', 'short', [
        [rate('identity_mails_total', 'result'), '{{result}} per second'],
        ['max(identity_mails_waiting)', 'waiting'],
      ]),
      chart('Deletions and erasures', 'How long the oldest closed tenant and the oldest erased subject have waited.', 's', [
        ['max(identity_deletions_overdue_seconds)', 'tenant'],
        ['max(identity_erasures_oldest_seconds)', 'subject'],
      ]),
    ],
  },
});
