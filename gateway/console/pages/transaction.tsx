// One transaction: its accounts, entries, metadata, event, deliveries and proof.
import { useState, type ReactElement, type ReactNode } from 'react';
import { Link, useParams } from 'wouter';
import type { Entry, Metadata, Transaction } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Amount } from '../parts/amount.tsx';
import { Button } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { sum, toMinor } from '../parts/money.ts';
import { Badge, Facts, Page, RecordPage, Section } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { TAccounts } from '../parts/t-accounts.tsx';
import { EffectiveTime, Time } from '../parts/time.tsx';
import { useRead, useTenant } from '../tenant.tsx';
import { DeliveryTable } from './delivery-table.tsx';
import { PersonalSection } from './personal.tsx';
import { ProofSection } from './proof.tsx';
import { RedactDialog, textsOf } from './redact.tsx';
import { ReverseDialog } from './reverse.tsx';

const words = texts.transaction;
const { common } = texts;

/** The page. */
export function TransactionPage(): ReactElement {
  const { id = '' } = useParams();
  const query = useRead(['transactions', id], (ledger, options) => ledger.transactions.get(id, options));
  return (
    <RecordPage query={query} title={words.title} parent={{ href: '/transactions', label: words.parent }}>
      {({ transaction }) => <TransactionView transaction={transaction} />}
    </RecordPage>
  );
}

/** Whether something is left to reverse. */
const isReversible = ({ kind, reversed_by: by }: Transaction): boolean => by === null && kind !== 'reversal';

function TransactionView({ transaction }: { transaction: Transaction }): ReactElement {
  const [isReversing, setReversing] = useState(false);
  const [isRedacting, setRedacting] = useState(false);
  const { tenant } = useTenant();
  const { description, entries } = transaction;
  const currencies = [...new Set(entries.map(({ currency }) => currency))];
  return (
    <Page
      title={description === '' ? words.title : description}
      parent={{ href: '/transactions', label: words.parent }}
      lead={
        <span className="lead-line">
          <span className="print-only">{tenant.name}</span>
          <Code text={transaction.transaction_id} />
          {transaction.reversed_by !== null && <Badge tone="warn">{words.reversed}</Badge>}
          {transaction.unreversed !== null && <Badge tone="warn">{words.partlyReversed}</Badge>}
          {currencies.map((currency) => (
            <Balanced key={currency} entries={entries.filter((entry) => entry.currency === currency)} />
          ))}
        </span>
      }
      actions={
        <>
          {textsOf(transaction).length > 0 && (
            <Button onPress={() => setRedacting(true)} needs="personal:manage">
              {words.redact}
            </Button>
          )}
          {isReversible(transaction) && (
            <Button onPress={() => setReversing(true)} needs="transactions:write">
              {words.reverse}
            </Button>
          )}
        </>
      }
    >
      <div className="split">
        <TAccounts entries={entries} />
        <TransactionFacts transaction={transaction} />
      </div>
      <Section title={words.entries}>
        <Sheet label={words.entries} columns={entryColumns} items={entries.map((entry, index) => ({ ...entry, index }))} idOf={idOf} />
      </Section>
      <Section title={common.metadata}>
        <MetadataView metadata={transaction.metadata} />
      </Section>
      <PersonalSection transaction={transaction} />
      <EventSection transaction={transaction} />
      <ProofSection
        name={transaction.transaction_id}
        read={(ledger, options) => ledger.proofs.transaction(transaction.transaction_id, options)}
        transaction={transaction}
      />
      <DeliverySection transactionId={transaction.transaction_id} />
      <RedactDialog transaction={transaction} isOpen={isRedacting} onClose={() => setRedacting(false)} />
      <ReverseDialog transaction={transaction} isOpen={isReversing} onClose={() => setReversing(false)} />
    </Page>
  );
}

function Balanced({ entries }: { entries: Entry[] }): ReactElement {
  const of = (side: string) => toMinor(sum(entries.filter((entry) => entry.side === side).map(({ amount }) => amount)));
  const [currency = ''] = entries.map((entry) => entry.currency);
  return of('debit') === of('credit') ? <Badge tone="good">{words.balanced(currency)}</Badge> : <Badge tone="bad">{currency} ≠</Badge>;
}

function TransactionFacts({ transaction }: { transaction: Transaction }): ReactElement {
  const { origin, reverses, reversed_by: reversedBy, requested_effective_at: requested } = transaction;
  const exchange = origin?.exchange;
  const override = origin?.override;
  const link = (id: string | null | undefined, folder = 'transactions'): ReactNode =>
    id != null && (
      <Link href={`/${folder}/${id}`}>
        <code>{id}</code>
      </Link>
    );
  return (
    <Facts
      facts={[
        [words.counts, <EffectiveTime time={transaction.effective_at} />],
        [words.recorded, <Time time={transaction.created_at} />],
        [words.moved, requested !== null && <EffectiveTime time={requested} />],
        [common.reference, transaction.reference],
        [common.key, <code>{transaction.idempotency_key}</code>],
        [words.redacted, transaction.redacted.length > 0 && transaction.redacted.join(', ')],
        [words.kind, texts.transactions.kinds[transaction.kind]],
        [words.reverses, link(reverses)],
        [words.reversedBy, link(reversedBy)],
        [words.hold, link(origin?.hold_id, 'holds')],
        [words.rate, exchange && `1 ${exchange.rate.base} = ${exchange.rate.value} ${exchange.rate.quote}`],
        [words.override, override?.reason],
      ]}
    />
  );
}

type Indexed = Entry & { index: number };

const idOf = ({ index }: Indexed): string => String(index);

const entryColumns: ColumnOf<Indexed>[] = [
  {
    id: 'account',
    label: common.account,
    cell: ({ account_code: code }) => (
      <Link href={`/accounts/${encodeURIComponent(code)}`}>
        <code>{code}</code>
      </Link>
    ),
  },
  { id: 'debit', label: words.debit, isNumber: true, cell: (each) => each.side === 'debit' && <Amount {...each} /> },
  { id: 'credit', label: words.credit, isNumber: true, cell: (each) => each.side === 'credit' && <Amount {...each} /> },
  {
    id: 'after',
    label: words.balanceAfter,
    isNumber: true,
    cell: (each) => <Amount amount={each.balance_after} currency={each.currency} />,
  },
];

/** Metadata as it was sent. */
export function MetadataView({ metadata }: { metadata: Metadata }): ReactElement {
  const fields = Object.entries(metadata);
  if (fields.length === 0) return <p className="hint">{common.noMetadata}</p>;
  const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  return <Facts facts={fields.map(([name, value]) => [name, <code>{text(value)}</code>])} />;
}

function EventSection({ transaction: { sequence } }: { transaction: Transaction }): ReactElement {
  const query = useRead(['events', sequence], (ledger, options) =>
    ledger.events.list({ after_sequence: sequence - 1, limit: 1, ...options }),
  );
  return (
    <Section title={words.event}>
      <p className="hint">{words.proofText}</p>
      <Loaded query={query} lines={3}>
        {({ events: [event] }) =>
          event === undefined ? (
            <Empty title={words.noEvent} />
          ) : (
            <Facts
              facts={[
                [common.sequence, String(event.sequence)],
                ['Id', <Code text={event.id} />],
                [words.by, <code>{event.actor}</code>],
                [words.request, event.request_id !== null && <code>{event.request_id}</code>],
                [words.hash, <Code text={event.hash} />],
                [words.previousHash, <Code text={event.previous_hash} />],
              ]}
            />
          )
        }
      </Loaded>
    </Section>
  );
}

function DeliverySection({ transactionId }: { transactionId: string }): ReactElement | null {
  const { scopes } = useTenant();
  const isAllowed = scopes.has('webhooks:manage');
  const query = useRead(
    ['deliveries', { transactionId }],
    (ledger, options) => ledger.deliveries.list({ transaction_id: transactionId, ...options }),
    { isEnabled: isAllowed },
  );
  if (!isAllowed) return null;
  return (
    <Section title={words.deliveries}>
      <Loaded query={query} lines={2}>
        {({ deliveries }) =>
          deliveries.length === 0 ? <p className="hint">{words.noDeliveries}</p> : <DeliveryTable deliveries={deliveries} />
        }
      </Loaded>
    </Section>
  );
}
