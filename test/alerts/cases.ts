// For each alert: series that raise it, and series that do not. The notation is promtool's, one value a minute.

/** Series by name and labels. */
type Series = Record<string, string>;

/** What one alert is tested with. */
export interface AlertCase {
  raised: Series;
  quiet: Series;
  /** When to look, 20 minutes after the beginning unless given. */
  at?: string;
  /** Labels of the raised alert but its severity. */
  labels?: Record<string, string>;
}

const requests = (failed: string) => ({ 'http_requests_total{status="200"}': '0+1000x400', 'http_requests_total{status="503"}': failed });
const slow = (fast: string) => ({
  'http_request_duration_seconds_bucket{method="POST",route="/v1/tenants/:slug/transactions",le="0.5"}': fast,
  'http_request_duration_seconds_count{method="POST",route="/v1/tenants/:slug/transactions"}': '0+100x100',
});
const up = (values: string) => ({ 'up{job="ledger",instance="a"}': values });
const processes = (names: string[]) => Object.fromEntries(names.map((name) => [`process_start_time_seconds{process="${name}"}`, '1x30']));
const restarts = (values: string) => ({ 'process_start_time_seconds{job="auditor"}': values });
/** A gauge of two processes. */
const gauge = (name: string, value: number) => ({ [`${name}{instance="a"}`]: `${value}x30`, [`${name}{instance="b"}`]: '0x30' });
/** A counter that goes up after ten minutes. */
const counted = (name: string, by: number) => ({ [name]: `0x10 ${by}x20` });
const share = (name: string, value: number, max: number) => ({ [name]: `${value}x30`, [`${name}_max`]: `${max}x30` });
const raisedBy = (name: string, above: number, notAbove: number): AlertCase => ({
  raised: gauge(name, above),
  quiet: gauge(name, notAbove),
});
const countedBy = (name: string, above: number, notAbove: number): AlertCase => ({
  raised: counted(name, above),
  quiet: counted(name, notAbove),
});
/** A counter of a process that finds something before its first scrape. */
const bornWith = (name: string): AlertCase => ({ raised: { [name]: '_x10 1x20' }, quiet: { [name]: '_x10 0x20' } });

export const cases: Record<string, AlertCase> = {
  // A burst of five minutes raises nothing, an hour does; after it the alert ends.
  RequestsFail: { raised: requests('0+20x400'), quiet: requests('0x60 0+1000x3 3000x300'), at: '70m' },
  ErrorBudgetBurns: { raised: requests('0+8x400'), quiet: requests('0+5x400'), at: '400m' },
  PostingsAreSlow: { raised: slow('0+94x100'), quiet: slow('0+96x100'), at: '70m' },
  GatewayIsFull: { raised: share('http_requests_in_flight', 80, 100), quiet: share('http_requests_in_flight', 70, 100) },
  ConnectionsAreRefused: { ...countedBy('http_connections_refused_total', 3, 0), at: '12m' },
  ProcessIsDown: { raised: up('0x30'), quiet: up('1x30'), labels: { job: 'ledger', instance: 'a' } },
  ProcessIsMissing: {
    raised: processes(['gateway', 'identity', 'ledger', 'notifier']),
    quiet: processes(['gateway', 'identity', 'ledger', 'notifier', 'auditor']),
    labels: { process: 'auditor' },
  },
  ProcessRestarts: { raised: restarts('1 2 3 4 5x30'), quiet: restarts('1 2 3 4x30'), labels: { job: 'auditor' } },
  EventLoopIsBlocked: {
    raised: { 'nodejs_eventloop_lag_p99_seconds{job="ledger"}': '0.6x30' },
    quiet: { 'nodejs_eventloop_lag_p99_seconds{job="ledger"}': '0.6x5 0.1x30', 'nodejs_eventloop_lag_p99_seconds{job="other"}': '9x30' },
    labels: { job: 'ledger' },
  },
  PoolIsExhausted: {
    raised: { 'postgres_pool_waiting{pool="ledger reads"}': '3x30' },
    quiet: { 'postgres_pool_waiting{pool="ledger reads"}': '3 0 5 0 7 0 3 0 5 0 7 0 3 0 5 0 7 0 3 0 5' },
    labels: { pool: 'ledger reads' },
  },
  CertificateExpires: {
    raised: { 'tls_certificate_expiry_seconds{process="ledger"}': '600000x30' },
    quiet: { 'tls_certificate_expiry_seconds{process="ledger"}': '900000x30' },
    labels: { process: 'ledger' },
  },
  NothingIsPosted: {
    // No posting since the ledger's start: the series does not exist.
    raised: { 'http_requests_total{method="POST"}': '0+120x30' },
    quiet: { 'ledger_postings_total{outcome="posted"}': '100x30', 'http_requests_total{method="POST"}': '0+12x30' },
  },
  BatchesFail: {
    raised: { 'ledger_batch_failures_total{sqlstate="53100",instance="a"}': '0+9x30' },
    quiet: { 'ledger_batch_failures_total{sqlstate="40001",instance="a"}': '0+3x30' },
    labels: { sqlstate: '53100' },
  },
  PostingsWait: { raised: share('ledger_postings_waiting', 60, 100), quiet: share('ledger_postings_waiting', 40, 100) },
  HoldsExpireLate: raisedBy('ledger_holds_overdue_seconds', 301, 299),
  EventsAreNotPublished: raisedBy('ledger_relay_lag_seconds', 61, 59),
  RelayHasDeadLetters: raisedBy('ledger_relay_dead_letters', 1, 0),
  NotifierHasDeadLetters: raisedBy('notifier_dead_letters', 1, 0),
  DeliveriesAreLate: raisedBy('notifier_due_seconds', 61, 59),
  DeliveriesFail: {
    raised: {
      'notifier_attempt_duration_seconds_count{result="ok"}': '0+4x60',
      'notifier_attempt_duration_seconds_count{result="dns"}': '0+6x60',
    },
    quiet: {
      'notifier_attempt_duration_seconds_count{result="ok"}': '0+6x60',
      'notifier_attempt_duration_seconds_count{result="dns"}': '0+4x60',
    },
    at: '40m',
  },
  ConsumerLags: raisedBy('notifier_consumer_lag', 1001, 999),
  MessagesLost: bornWith('notifier_consumer_lost_total'),
  InboxHasGaps: bornWith('notifier_inbox_gaps_total'),
  ConsumerRewound: bornWith('notifier_consumer_rewinds_total'),
  EventsReissued: bornWith('notifier_events_reissued_total'),
  LeasesFail: countedBy('notifier_lease_errors_total', 1, 0),
  SecretsUnreadable: countedBy('notifier_secret_errors_total', 1, 0),
  MailIsNotSent: {
    raised: { identity_mails_waiting: '3x40' },
    quiet: { identity_mails_waiting: '3x40', 'identity_mails_total{result="sent"}': '0+1x40' },
  },
  MailIsRejected: countedBy('identity_mails_total{result="rejected"}', 9, 4),
  DeletionIsStuck: raisedBy('identity_deletions_overdue_seconds', 3601, 3599),
  ErasuresWait: raisedBy('identity_erasures_oldest_seconds', 901, 899),
  PasswordsWait: {
    raised: { 'identity_passwords_waiting{instance="a"}': '21x30' },
    quiet: { 'identity_passwords_waiting{instance="a"}': '21 20 90 0 90 20 21 0 21 20 90 0 90 20 21 0 21 20 90 0 90' },
    labels: { instance: 'a' },
  },
  JobsWait: raisedBy('auditor_job_oldest_seconds', 901, 899),
  JobsDoNotRun: {
    raised: { auditor_jobs_waiting: '2x30', auditor_jobs_running: '0x30' },
    quiet: { auditor_jobs_waiting: '2x30', auditor_jobs_running: '1x30' },
  },
  JobsFail: countedBy('auditor_jobs_total{outcome="failed"}', 9, 4),
  IndexLags: { raised: { ledger_index_lag_events: '10001x30' }, quiet: { ledger_index_lag_events: '10001x9 5 10001x9' } },
  TreesLag: { raised: { ledger_tree_lag_events: '10001x30' }, quiet: { ledger_tree_lag_events: '10001x9 5 10001x9' } },
  BooksAreFrozen: raisedBy('ledger_frozen_tenants', 1, 0),
  LogsAreNotVerified: raisedBy('ledger_verification_age_seconds', 259_201, 259_199),
  CheckpointsAreNotSigned: { ...countedBy('ledger_checkpoints_total{outcome="failed"}', 9, 4), at: '15m' },
  CheckpointsAreNotCosigned: raisedBy('ledger_checkpoints_uncosigned', 1, 0),
};
