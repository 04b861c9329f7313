// One hold: what is reserved, what was captured, and how to capture or release it.
import { useState, type ReactElement } from 'react';
import { Link, useParams } from 'wouter';
import type { Hold, HoldEntry, Transaction } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Amount } from '../parts/amount.tsx';
import { Button } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Checkbox, Form, TextField } from '../parts/form.tsx';
import { formatAmount } from '../parts/money.ts';
import { Facts, Page, RecordPage, Section } from '../parts/page.tsx';
import { Loaded } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { toast } from '../parts/toast.tsx';
import { useRead, useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';
import { HoldState } from './holds.tsx';
import { MetadataView } from './transaction.tsx';
import { Total } from './transactions.tsx';

const words = texts.holds;
const { common } = texts;

/** The page. */
export function HoldPage(): ReactElement {
  const { id = '' } = useParams();
  const query = useRead(['holds', id], (ledger, options) => ledger.holds.get(id, options));
  return (
    <RecordPage query={query} title={words.title} parent={{ href: '/holds', label: words.title }}>
      {({ hold }) => <HoldView hold={hold} />}
    </RecordPage>
  );
}

function HoldView({ hold }: { hold: Hold }): ReactElement {
  const [asked, setAsked] = useState<'capture' | 'void'>();
  const close = (): void => setAsked(undefined);
  return (
    <Page
      title={hold.description === '' ? words.title : hold.description}
      parent={{ href: '/holds', label: words.title }}
      lead={
        <span className="lead-line">
          <Code text={hold.hold_id} />
          <HoldState {...hold} />
        </span>
      }
      actions={
        hold.status === 'pending' && (
          <>
            <Button onPress={() => setAsked('void')} needs="transactions:write">
              {words.void}
            </Button>
            <Button kind="primary" onPress={() => setAsked('capture')} needs="transactions:write">
              {words.capture}
            </Button>
          </>
        )
      }
    >
      <Facts
        facts={[
          [common.amount, <Total transaction={hold} />],
          [common.created, <Time time={hold.created_at} />],
          [words.expires, hold.expires_at === null ? common.never : <Time time={hold.expires_at} />],
          [words.ended, hold.ended_at !== null && <Time time={hold.ended_at} />],
          [common.reference, hold.reference],
          [common.key, <code>{hold.idempotency_key}</code>],
        ]}
      />
      <Section title={texts.transaction.entries}>
        <Sheet
          label={texts.transaction.entries}
          columns={columns}
          items={hold.entries}
          idOf={({ account_id: id, side }) => `${id} ${side}`}
        />
      </Section>
      <Captures hold={hold} />
      <Section title={common.metadata}>
        <MetadataView metadata={hold.metadata} />
      </Section>
      <CaptureDialog hold={hold} isOpen={asked === 'capture'} onClose={close} />
      <VoidDialog hold={hold} isOpen={asked === 'void'} onClose={close} />
    </Page>
  );
}

const columns: ColumnOf<HoldEntry>[] = [
  {
    id: 'account',
    label: common.account,
    cell: ({ account_code: code }) => (
      <Link href={`/accounts/${encodeURIComponent(code)}`}>
        <code>{code}</code>
      </Link>
    ),
  },
  { id: 'side', label: common.type, cell: ({ side }) => texts.transaction[side] },
  { id: 'held', label: words.held, isNumber: true, cell: (each) => <Amount amount={each.amount} currency={each.currency} /> },
  { id: 'captured', label: words.captured, isNumber: true, cell: (each) => <Amount amount={each.captured} /> },
  { id: 'remaining', label: words.remaining, isNumber: true, cell: (each) => <Amount amount={each.remaining} /> },
];

const captureColumns: ColumnOf<Transaction>[] = [
  {
    id: 'description',
    label: common.description,
    cell: ({ transaction_id: id, description }) => <Link href={`/transactions/${id}`}>{description || common.noDescription}</Link>,
  },
  { id: 'at', label: common.created, cell: ({ created_at: at }) => <Time time={at} /> },
  { id: 'amount', label: common.amount, isNumber: true, cell: (each) => <Total transaction={each} /> },
];

function Captures({ hold: { hold_id: id } }: { hold: Hold }): ReactElement {
  const query = useRead(['transactions', { hold: id }], (ledger, options) => ledger.transactions.list({ hold_id: id, ...options }));
  return (
    <Section title={words.captures}>
      <Loaded query={query} lines={2}>
        {({ transactions }) =>
          transactions.length === 0 ? (
            <p className="hint">{words.noCaptures}</p>
          ) : (
            <Sheet label={words.captures} columns={captureColumns} items={transactions} idOf={(each) => each.transaction_id} />
          )
        }
      </Loaded>
    </Section>
  );
}

interface DialogProps {
  hold: Hold;
  isOpen: boolean;
  onClose: () => void;
}

function CaptureDialog({ hold, isOpen, onClose }: DialogProps): ReactElement {
  const [amount, setAmount] = useState('');
  const [isPart, setPart] = useState(false);
  const capture = useWrite(
    (ledger, _: undefined, options) =>
      ledger.holds.capture(hold.hold_id, { ...(amount !== '' && { amount }), ...(isPart && { final: false }) }, options),
    () => {
      toast(words.captureDone);
      onClose();
    },
  );
  const [first] = hold.entries;
  const hasOneAmount = hold.amount !== null && hold.entries.length === 2;
  return (
    <Dialog title={words.captureTitle} isOpen={isOpen} onClose={onClose}>
      <p className="dialog-text">{words.captureText}</p>
      <Form
        onSubmit={() => capture.mutate(undefined)}
        error={capture.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="primary" type="submit" isPending={capture.isPending}>
              {words.captureTitle}
            </Button>
          </>
        }
      >
        {hasOneAmount && (
          <TextField
            label={common.amount}
            name="amount"
            value={amount}
            onChange={setAmount}
            inputMode="decimal"
            isMono
            autoFocus
            hint={words.captureHint(`${hold.currency ?? ''} ${formatAmount(first?.remaining ?? '0')}`)}
          />
        )}
        {amount !== '' && <Checkbox label={words.keepOpen} isSelected={isPart} onChange={setPart} />}
      </Form>
    </Dialog>
  );
}

function VoidDialog({ hold, isOpen, onClose }: DialogProps): ReactElement {
  const end = useWrite(
    (ledger) => ledger.holds.void(hold.hold_id, {}),
    () => {
      toast(words.voidDone);
      onClose();
    },
  );
  return (
    <Confirm
      title={words.voidTitle}
      isOpen={isOpen}
      onClose={onClose}
      action={words.voidTitle}
      onConfirm={() => end.mutate(undefined)}
      isPending={end.isPending}
      error={end.error}
    >
      <p>{words.voidText}</p>
    </Confirm>
  );
}
