// The statement of an account: opening balance, each entry with the balance after it, closing balance; also as a file.
import { useState, type ReactElement } from 'react';
import { Link } from 'wouter';
import type { Account, Currency, ReportFormat, StatementLine } from '../../clients/typescript/ledger.ts';
import { Amount } from '../parts/amount.tsx';
import { Button, MenuButton } from '../parts/button.tsx';
import { save } from '../parts/files.ts';
import { TextField } from '../parts/form.tsx';
import { useIsNarrow } from '../parts/media.ts';
import { formatCount } from '../parts/money.ts';
import { Section } from '../parts/page.tsx';
import { Loaded, ProblemView } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { EffectiveTime, formatDay } from '../parts/time.tsx';
import { useBooksZone, usePages, useTenant } from '../tenant.tsx';
import { words } from '../words.ts';

const text = words.account;
const formats = ['csv', 'xlsx', 'pdf'] as const satisfies ReportFormat[];

interface StatementProps {
  account: Account;
  currency: Currency;
  range: { from: string; to: string };
  onRange: (changed: { from?: string; to?: string }) => void;
}

/** A line of the page: an entry, or a balance before or after all of them. */
interface Line {
  id: string;
  entry?: StatementLine;
  label?: string;
  balance: string;
}

const nameOf = ({ entry, label }: Line): ReactElement =>
  entry ? (
    <Link href={`/transactions/${entry.transaction_id}`}>{entry.description || entry.transaction_id}</Link>
  ) : (
    <strong>{label}</strong>
  );
const balance: ColumnOf<Line> = { id: 'balance', label: text.balance, isNumber: true, cell: (line) => <Amount amount={line.balance} /> };

const columns: ColumnOf<Line>[] = [
  { id: 'date', label: text.date, cell: ({ entry }) => entry && <EffectiveTime time={entry.effective_at} /> },
  { id: 'description', label: text.description, isRowHeader: true, cell: nameOf },
  { id: 'reference', label: text.reference, cell: ({ entry }) => entry?.reference },
  {
    id: 'debit',
    label: words.sides.debit,
    isNumber: true,
    cell: ({ entry }) => entry?.side === 'debit' && <Amount amount={entry.amount} />,
  },
  {
    id: 'credit',
    label: words.sides.credit,
    isNumber: true,
    cell: ({ entry }) => entry?.side === 'credit' && <Amount amount={entry.amount} />,
  },
  balance,
];

/** On a telephone the date stands below the description, and the side next to the amount. */
const narrowColumns: ColumnOf<Line>[] = [
  {
    id: 'description',
    label: text.description,
    cell: (line) => (
      <>
        {nameOf(line)}
        <br />
        <small>{line.entry && <EffectiveTime time={line.entry.effective_at} />}</small>
      </>
    ),
  },
  {
    id: 'amount',
    label: text.amount,
    isNumber: true,
    cell: ({ entry }) =>
      entry && (
        <>
          <Amount amount={entry.amount} />
          <br />
          <small>{words.sides[entry.side].toLowerCase()}</small>
        </>
      ),
  },
  balance,
];

/** Entries of an account between two days, page by page. */
export function Statement({ account: { account_code: code }, currency, range, onRange }: StatementProps): ReactElement {
  const { ledger } = useTenant();
  const zone = useBooksZone();
  const [problem, setProblem] = useState<unknown>();
  const query = { account_code: code, currency, ...range };
  const {
    query: read,
    items,
    more,
    isLoadingMore,
  } = usePages(
    ['statement', query],
    (api, options) => api.reports.accountStatement({ ...query, ...options }),
    ({ report }) => [report],
  );
  const isNarrow = useIsNarrow();
  const lines = items.flatMap((page) => page.lines);
  const [first] = items;
  const download = async (format: (typeof formats)[number]): Promise<void> => {
    setProblem(undefined);
    await ledger.reports
      .accountStatement({ ...query, format })
      .then((response) => save(response, `${code}-${currency}-${range.from}.${format}`))
      .catch(setProblem);
  };
  const actions = (
    <>
      <TextField label={text.from} name="from" type="date" value={range.from} max={range.to} onChange={(from) => onRange({ from })} />
      <TextField label={text.to} name="to" type="date" value={range.to} min={range.from} onChange={(to) => onRange({ to })} />
      <MenuButton items={formats.map((format) => ({ label: format.toUpperCase(), onAction: () => void download(format) }))}>
        {text.download}
      </MenuButton>
      <Button onPress={() => print()}>{text.print}</Button>
    </>
  );
  return (
    <Section title={text.statement} actions={<div className="filters inline">{actions}</div>}>
      {problem !== undefined && <ProblemView error={problem} />}
      <Loaded query={read}>
        {() =>
          first && (
            <>
              <Sheet
                label={text.statement}
                columns={isNarrow ? narrowColumns : columns}
                idOf={({ id }) => id}
                items={[
                  { id: 'opening', label: text.opening(formatDay(range.from)), balance: first.opening_balance },
                  ...lines.map((entry) => ({
                    id: `${entry.transaction_id} ${entry.sequence} ${entry.side}`,
                    entry,
                    balance: entry.running_balance ?? entry.balance_after ?? '',
                  })),
                ]}
                total={{
                  description: text.closingLine(formatDay(range.to)),
                  debit: <Amount amount={first.debits} />,
                  credit: <Amount amount={first.credits} />,
                  balance: <Amount amount={first.closing_balance} />,
                }}
              />
              <p className="more-line">
                <span className="hint">{text.lines(formatCount(lines.length), more !== undefined || isLoadingMore, zone ?? '…')}</span>
                {(more ?? isLoadingMore) && (
                  <Button onPress={more} isPending={isLoadingMore}>
                    {text.more}
                  </Button>
                )}
              </p>
            </>
          )
        }
      </Loaded>
    </Section>
  );
}
