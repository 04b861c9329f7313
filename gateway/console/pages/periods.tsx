// Periods of the books: what is closed, closing and reopening.
import { useState, type ReactElement } from 'react';
import { Link } from 'wouter';
import type { Books, Period } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Checkbox, Form, TextField } from '../parts/form.tsx';
import { Badge, Facts, Page, Section } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { formatDay, Time } from '../parts/time.tsx';
import { toast } from '../parts/toast.tsx';
import { usePages, useRead, useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';

const words = texts.periods;

const columns: ColumnOf<Period>[] = [
  {
    id: 'action',
    label: words.action,
    cell: ({ action, year_end: isYearEnd, final: isFinal }) => (
      <>
        {words.actions[action]} {isYearEnd && <Badge>{words.isYearEnd}</Badge>} {isFinal && <Badge tone="warn">{words.isFinal}</Badge>}
      </>
    ),
  },
  { id: 'through', label: words.through, cell: ({ through }) => (through === null ? '–' : <Time time={through} />) },
  { id: 'reason', label: words.reason, cell: ({ reason }) => reason },
  {
    id: 'postings',
    label: texts.transactions.title,
    isOptional: true,
    cell: ({ closing_transactions: ids }) => ids.length > 0 && <Link href="/transactions?kind=closing">{words.postings(ids.length)}</Link>,
  },
  { id: 'at', label: texts.common.created, isOptional: true, cell: ({ created_at: at }) => <Time time={at} /> },
];

/** The page. */
export function PeriodsPage(): ReactElement {
  const [asked, setAsked] = useState<'close' | 'reopen'>();
  const books = useRead(['books'], (ledger, options) => ledger.books.get(options));
  const pages = usePages(
    ['periods'],
    (ledger, options) => ledger.periods.list(options),
    ({ periods }) => periods,
  );
  const close = (): void => setAsked(undefined);
  const closedThrough = books.data?.books.closed_through;
  return (
    <Page
      title={words.title}
      lead={words.lead}
      actions={
        <>
          {closedThrough != null && (
            <Button onPress={() => setAsked('reopen')} needs="periods:reopen">
              {words.reopen}
            </Button>
          )}
          <Button kind="primary" onPress={() => setAsked('close')} needs="periods:close">
            {words.close}
          </Button>
        </>
      }
    >
      <Loaded query={books} lines={2}>
        {({ books: read }) => <Closed books={read} />}
      </Loaded>
      <Section title={words.history}>
        <Loaded query={pages.query} lines={4}>
          {() =>
            pages.items.length === 0 ? (
              <Empty title={words.empty}>{words.emptyText}</Empty>
            ) : (
              <Sheet label={words.history} columns={columns} items={pages.items} idOf={({ id }) => id} />
            )
          }
        </Loaded>
        {pages.more && <Button onPress={pages.more}>{texts.common.loadMore}</Button>}
      </Section>
      {asked === 'close' && <CloseDialog onClose={close} />}
      {asked === 'reopen' && <ReopenDialog onClose={close} />}
    </Page>
  );
}

function Closed({ books }: { books: Books }): ReactElement {
  const { closed_through: closed, final_through: final, late_entries: late } = books;
  return (
    <Facts
      facts={[
        [words.closed, closed === null ? words.nothingClosed : formatDay(closed)],
        [words.final, final !== null && formatDay(final)],
        [texts.settings.late, texts.settings.lates[late]],
      ]}
    />
  );
}

function CloseDialog({ onClose }: { onClose: () => void }): ReactElement {
  const [through, setThrough] = useState('');
  const [reason, setReason] = useState('');
  const [isYearEnd, setYearEnd] = useState(false);
  const [isFinal, setFinal] = useState(false);
  const write = useWrite(
    (ledger) => ledger.periods.close({ through, year_end: isYearEnd, final: isFinal, ...(reason !== '' && { reason }) }),
    () => {
      toast(words.closeDone);
      onClose();
    },
  );
  return (
    <Dialog title={words.closeTitle} isOpen onClose={onClose}>
      <Form
        onSubmit={() => write.mutate(undefined)}
        error={write.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind={isFinal ? 'danger' : 'primary'} type="submit" isPending={write.isPending}>
              {words.closeAction}
            </Button>
          </>
        }
      >
        <TextField
          label={words.through}
          name="through"
          type="date"
          value={through}
          onChange={setThrough}
          hint={words.throughHint}
          isRequired
          autoFocus
        />
        <TextField label={words.reason} name="reason" value={reason} onChange={setReason} maxLength={1000} />
        <Checkbox label={words.yearEnd} isSelected={isYearEnd} onChange={setYearEnd} />
        <Checkbox label={words.finalChoice} isSelected={isFinal} onChange={setFinal} />
      </Form>
    </Dialog>
  );
}

function ReopenDialog({ onClose }: { onClose: () => void }): ReactElement {
  const [through, setThrough] = useState('');
  const [reason, setReason] = useState('');
  const write = useWrite(
    (ledger) => ledger.periods.reopen({ through: through === '' ? null : through, reason }),
    () => {
      toast(words.reopenDone);
      onClose();
    },
  );
  return (
    <Dialog title={words.reopenTitle} isOpen onClose={onClose}>
      <Form
        onSubmit={() => write.mutate(undefined)}
        error={write.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="danger" type="submit" isPending={write.isPending}>
              {words.reopenAction}
            </Button>
          </>
        }
      >
        <TextField
          label={words.reopenThrough}
          name="through"
          type="date"
          value={through}
          onChange={setThrough}
          hint={words.reopenHint}
          autoFocus
        />
        <TextField label={words.reason} name="reason" value={reason} onChange={setReason} maxLength={1000} isRequired />
      </Form>
    </Dialog>
  );
}
