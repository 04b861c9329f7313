// One delivery: its attempts, its body, and what the receiver answered.
import type { ReactElement } from 'react';
import { Link, useParams } from 'wouter';
import type { DeliveryAttempt, WebhookConfig, WebhookDeliveryDetail } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { formatCount } from '../parts/money.ts';
import { Facts, Page, RecordPage, Section } from '../parts/page.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { toast, toastError } from '../parts/toast.tsx';
import { useRead, useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';
import { AnswerOf, DeliveryState } from './delivery-table.tsx';

const words = texts.delivery;

/** The page. */
export function DeliveryPage(): ReactElement {
  const { id = '' } = useParams();
  const query = useRead(
    ['deliveries', id],
    async (ledger, options) => {
      const [{ delivery }, { webhook_config: config }] = await Promise.all([
        ledger.deliveries.get(id, options),
        ledger.deliveries.list({ limit: 1, ...options }),
      ]);
      return { delivery, config };
    },
    { everyMs: 5_000 },
  );
  return (
    <RecordPage query={query} title={words.title} parent={{ href: '/webhooks', label: words.parent }}>
      {({ delivery, config }) => <DeliveryView delivery={delivery} config={config} />}
    </RecordPage>
  );
}

const columns: ColumnOf<DeliveryAttempt>[] = [
  { id: 'number', label: words.number, cell: ({ number }) => String(number) },
  { id: 'started', label: words.started, cell: ({ started_at: at }) => <Time time={at} /> },
  { id: 'duration', label: words.duration, isNumber: true, cell: ({ duration_ms: ms }) => `${formatCount(ms)} ms` },
  { id: 'answer', label: words.answer, cell: (attempt) => <AnswerOf {...attempt} /> },
];

/** A shell command that sends the same body, unsigned. */
function curlOf(url: string, body: string): string {
  const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  return `curl ${quoted(url)} -H 'Content-Type: application/json' -d ${quoted(body)}`;
}

function DeliveryView({ delivery, config }: { delivery: WebhookDeliveryDetail; config: WebhookConfig | null }): ReactElement {
  const retry = useWrite(
    (ledger) => ledger.deliveries.retry(delivery.id),
    () => toast(texts.webhooks.retried),
  );
  const body = JSON.stringify(delivery.payload);
  const transactionId = (delivery.payload.data as { transaction_id?: string | null } | undefined)?.transaction_id;
  return (
    <Page
      title={delivery.event_type}
      parent={{ href: '/webhooks', label: words.parent }}
      lead={
        <span className="lead-line">
          <Code text={delivery.id} />
          <DeliveryState status={delivery.status} />
        </span>
      }
      actions={
        delivery.status === 'failed' && (
          <Button
            kind="primary"
            onPress={() => retry.mutate(undefined, { onError: toastError })}
            isPending={retry.isPending}
            needs="webhooks:manage"
          >
            {texts.webhooks.retry}
          </Button>
        )
      }
    >
      <Facts
        facts={[
          [texts.webhooks.event, <Code text={delivery.event_id} />],
          [
            words.transaction,
            transactionId != null && (
              <Link href={`/transactions/${transactionId}`}>
                <code>{transactionId}</code>
              </Link>
            ),
          ],
          [texts.common.created, <Time time={delivery.created_at} />],
          [words.delivered, delivery.delivered_at !== undefined && <Time time={delivery.delivered_at} />],
          [words.failed, delivery.failed_at !== undefined && <Time time={delivery.failed_at} />],
          [texts.webhooks.next, delivery.next_retry_at !== null && <Time time={delivery.next_retry_at} />],
        ]}
      />
      <Section title={`${words.attempts} ${delivery.attempts}/${delivery.max_attempts}`}>
        {delivery.attempt_history.length === 0 ? (
          <p className="hint">{words.none}</p>
        ) : (
          <Sheet label={words.attempts} columns={columns} items={delivery.attempt_history} idOf={({ number }) => String(number)} />
        )}
      </Section>
      <Section title={words.payload} actions={config && <CurlButton url={config.url} body={body} />}>
        <Text label={words.payload} text={JSON.stringify(delivery.payload, undefined, 2)} />
      </Section>
      <Section title={words.response}>
        {delivery.response_body === null || delivery.response_body === '' ? (
          <p className="hint">{words.noResponse}</p>
        ) : (
          <Text label={words.response} text={delivery.response_body} />
        )}
      </Section>
    </Page>
  );
}

function CurlButton({ url, body }: { url: string; body: string }): ReactElement {
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(curlOf(url, body));
    toast(shared.copied);
  };
  return (
    <Button icon="copy" onPress={() => void copy()}>
      {words.curl}
    </Button>
  );
}

/** Text as it is, which scrolls by keyboard too. */
function Text({ label, text }: { label: string; text: string }): ReactElement {
  return (
    <pre className="text" role="region" aria-label={label} tabIndex={0}>
      {text}
    </pre>
  );
}
