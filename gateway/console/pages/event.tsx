// One event of the log, with its hashes.
import type { ReactElement } from 'react';
import { Link, useParams } from 'wouter';
import type { Event } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Code } from '../parts/copy.tsx';
import { Facts, Page, Section } from '../parts/page.tsx';
import { Loaded } from '../parts/problem.tsx';
import { Time } from '../parts/time.tsx';
import { useRead } from '../tenant.tsx';
import { NotFoundPage } from './not-found.tsx';
import { ProofSection } from './proof.tsx';

const words = texts.events;

/** The page. */
export function EventPage(): ReactElement {
  const sequence = Number(useParams()['sequence']);
  const isNumber = Number.isSafeInteger(sequence) && sequence > 0;
  const query = useRead(
    ['events', sequence],
    (ledger, options) => ledger.events.list({ after_sequence: sequence - 1, limit: 1, ...options }),
    {
      isEnabled: isNumber,
    },
  );
  if (!isNumber) return <NotFoundPage />;
  return (
    <Loaded query={query} lines={8}>
      {({ events: [event] }) => (event?.sequence === sequence ? <EventView event={event} /> : <NotFoundPage />)}
    </Loaded>
  );
}

function EventView({ event }: { event: Event }): ReactElement {
  const { transaction_id: transactionId } = event.data as { transaction_id?: string | null };
  const { sequence } = event;
  return (
    <Page title={`${event.type} ${sequence}`} parent={{ href: '/events', label: words.title }} lead={<Code text={event.id} />}>
      <Facts
        facts={[
          [words.at, <Time time={new Date(event.created * 1000).toISOString()} />],
          [words.actor, <code>{event.actor}</code>],
          [texts.transaction.request, event.request_id !== null && <code>{event.request_id}</code>],
          [
            texts.delivery.transaction,
            transactionId != null && (
              <Link href={`/transactions/${transactionId}`}>
                <code>{transactionId}</code>
              </Link>
            ),
          ],
          [words.hash, <Code text={event.hash} />],
          [texts.transaction.previousHash, <Code text={event.previous_hash} />],
        ]}
      />
      <Section title={texts.delivery.payload}>
        <pre className="text" role="region" aria-label={texts.delivery.payload} tabIndex={0}>
          {JSON.stringify(event.data, undefined, 2)}
        </pre>
      </Section>
      <ProofSection name={`event-${sequence}`} read={(ledger, options) => ledger.proofs.event(String(sequence), options)} />
    </Page>
  );
}
