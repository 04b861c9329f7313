// Dashboard: the writer, the relay, proofs, verification and jobs.
import { chart, dashboard, quantile, rate } from '../panels.ts';

export const ledger = dashboard({
  uid: 'ledger-ledger',
  title: 'Ledger: postings, events, proofs',
  description: 'The writer and the relay of the ledger, and what the auditor does: indexes, proofs, verification, jobs.',
  rows: {
    Writer: [
      chart(
        'Postings by outcome',
        'posted, found, replayed, or the reason of the rejection.',
        'ops',
        [[rate('ledger_postings_total', 'outcome'), '{{outcome}}']],
        {
          stacked: true,
        },
      ),
      chart('Postings that wait', 'Each ledger, and WRITER_QUEUE. Beyond it postings answer 503.', 'short', [
        ['sum by (instance) (ledger_postings_waiting)', '{{instance}}'],
        ['max(ledger_postings_waiting_max)', 'WRITER_QUEUE'],
      ]),
      chart('Time to commit, 50 % and 99 %', 'Optimistic batches from sending, locking ones from asking for their locks.', 's', [
        [quantile(0.5, 'ledger_commit_seconds', 'path'), '{{path}} 50 %'],
        [quantile(0.99, 'ledger_commit_seconds', 'path'), '{{path}} 99 %'],
      ]),
      chart('Batches', 'Commits by path. Many on the locking path: several ledgers write to one tenant.', 'ops', [
        [rate('ledger_commit_seconds_count', 'path'), '{{path}}'],
      ]),
      chart('Postings per batch', 'Mean. It grows with the load.', 'short', [
        [`${rate('ledger_batch_items_sum')} / ${rate('ledger_batch_items_count')}`, 'mean'],
      ]),
      chart('Batches that fail', 'By SQLSTATE.', 'ops', [[rate('ledger_batch_failures_total', 'sqlstate'), '{{sqlstate}}']]),
      chart('Holds that end', 'By outcome.', 'ops', [[rate('ledger_due_holds_total', 'outcome'), '{{outcome}}']]),
      chart('Holds that should have ended', 'How long the oldest due hold waits.', 's', [['max(ledger_holds_overdue_seconds)', 'oldest']]),
    ],
    Relay: [
      chart('Events', 'Published, and skipped because the tenant has no webhook.', 'ops', [
        [rate('ledger_relay_published_total'), 'published'],
        [rate('ledger_relay_skipped_total'), 'skipped'],
      ]),
      chart('Unpublished events', 'Of all tenants.', 'short', [['max(ledger_relay_lag_events)', 'events']]),
      chart('Age of the oldest unpublished event', 'Grows while Kafka or the notifier is away.', 's', [
        ['max(ledger_relay_lag_seconds)', 'oldest'],
      ]),
      chart('Failures', 'Batches that are repeated, and events that became dead letters.', 'ops', [
        [rate('ledger_relay_failures_total'), 'repeated'],
        [rate('ledger_relay_rejected_total'), 'rejected'],
      ]),
      chart('Dead letters', 'Events that wait for an operator.', 'short', [['max(ledger_relay_dead_letters)', 'dead letters']]),
    ],
    Proofs: [
      chart('Events that indexes lack', 'The indexes of words and volumes, and the Merkle trees.', 'short', [
        ['max(ledger_index_lag_events)', 'words and volumes'],
        ['max(ledger_tree_lag_events)', 'trees'],
      ]),
      chart('Checkpoints', 'Signed, or why not.', 'ops', [[rate('ledger_checkpoints_total', 'outcome'), '{{outcome}}']]),
      chart('Witnesses', 'Checkpoints sent to witnesses.', 'ops', [
        [rate('ledger_cosignatures_total', 'witness', 'outcome'), '{{witness}} {{outcome}}'],
      ]),
      chart('Logs without a quorum', 'Their newest checkpoint has fewer cosignatures than WITNESS_QUORUM.', 'short', [
        ['max(ledger_checkpoints_uncosigned)', 'logs'],
      ]),
    ],
    Verification: [
      chart('Age of the last walk', 'Of the tenant that was not walked for longest.', 's', [
        ['max(ledger_verification_age_seconds)', 'oldest'],
      ]),
      chart('Findings', 'Differences of the last walks, and tenants that are frozen because of one.', 'short', [
        ['max(ledger_verification_differences)', 'differences'],
        ['max(ledger_frozen_tenants)', 'frozen tenants'],
      ]),
      chart('Verified events', 'Events that walks have compared.', 'ops', [[rate('ledger_verified_events_total'), 'events']]),
      chart('Work of the walks', 'Of one core. They rest nine times as long as they work.', 'percentunit', [
        [rate('ledger_verification_seconds_total', 'instance'), '{{instance}}'],
      ]),
    ],
    Jobs: [
      chart('Jobs', 'That wait and that run.', 'short', [
        ['max(auditor_jobs_waiting)', 'waiting'],
        ['max(auditor_jobs_running)', 'running'],
      ]),
      chart('Runs by outcome', 'By kind of job.', 'ops', [[rate('auditor_jobs_total', 'kind', 'outcome'), '{{kind}} {{outcome}}']]),
      chart('Duration of runs, 95 %', 'By kind of job.', 's', [[quantile(0.95, 'auditor_job_seconds', 'kind'), '{{kind}}']]),
      chart('Oldest waiting job', 'How long it has waited.', 's', [['max(auditor_job_oldest_seconds)', 'oldest']]),
    ],
  },
});
