// The overview: what the business owns and owes, whether the books balance, how much moves, and what needs attention.
import type { ReactElement } from 'react';
import { Link } from 'wouter';
import type { AccountNode, AccountType, Currency, Transaction } from '../../clients/typescript/ledger.ts';
import { LinkButton } from '../parts/button.tsx';
import { Amount } from '../parts/amount.tsx';
import { SelectField } from '../parts/form.tsx';
import { Icon } from '../parts/icons.tsx';
import { useFilters } from '../parts/links.ts';
import { useIsNarrow } from '../parts/media.ts';
import { currencies, formatAmount, formatCount, sum, toDecimal, toMinor, toPlot } from '../parts/money.ts';
import { Page, Section } from '../parts/page.tsx';
import { NoChart } from '../parts/no-chart.tsx';
import { Plot } from '../parts/plot.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { daysAgo, Time } from '../parts/time.tsx';
import { useBooksZone, useMissing, useRead } from '../tenant.tsx';
import { words } from '../words.ts';

const text = words.overview;
const freshMs = 15_000;

/** `/console/t/<slug>`. */
export function OverviewPage(): ReactElement {
  const tree = useRead(['hierarchy', 'top'], (ledger, options) => ledger.accounts.tree({ include: 'balances', depth: 1, ...options }), {
    everyMs: freshMs,
  });
  return (
    <Page title={words.nav.overview}>
      <Loaded query={tree}>
        {({ accounts }) =>
          accounts.length === 0 ? (
            <NoChart />
          ) : (
            <>
              <Attention />
              <Position accounts={accounts} />
              <div className="overview">
                <Volume />
                <Recent />
              </div>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

const types: AccountType[] = ['asset', 'liability', 'equity', 'revenue', 'expense'];
// What a business owns and spends, less what it owes, its owners' share and its income, is zero.
const signs: Record<AccountType, bigint> = { asset: 1n, expense: 1n, liability: -1n, equity: -1n, revenue: -1n };

interface Line {
  currency: Currency;
  totals: Record<AccountType, string>;
  /** What is missing to balance; zero in books that are in order. */
  difference: bigint;
}

/** The totals of each type of account, by currency. */
function linesOf(accounts: readonly AccountNode[]): Line[] {
  return currencies.flatMap((currency) => {
    const of = (type: AccountType): string[] =>
      accounts
        .filter((account) => account.type === type)
        .flatMap(({ balances = [] }) => balances.filter((each) => each.currency === currency).map(({ balance }) => balance));
    if (types.every((type) => of(type).every((balance) => toMinor(balance) === 0n))) return [];
    const totals = Object.fromEntries(types.map((type) => [type, sum(of(type))])) as Record<AccountType, string>;
    const difference = types.reduce((total, type) => total + signs[type] * (toMinor(totals[type]) ?? 0n), 0n);
    return [{ currency, totals, difference }];
  });
}

function Position({ accounts }: { accounts: AccountNode[] }): ReactElement {
  const lines = linesOf(accounts);
  const isNarrow = useIsNarrow();
  const columns: ColumnOf<Line>[] = [
    {
      id: 'currency',
      label: text.currency,
      cell: ({ currency, difference }) => (
        <>
          <strong>{currency}</strong>
          {isNarrow && (
            <small className="under">
              <Check difference={difference} />
            </small>
          )}
        </>
      ),
    },
    ...types.map((type): ColumnOf<Line> => ({
      id: type,
      label: text.types[type],
      isNumber: true,
      isOptional: type !== 'asset' && type !== 'liability',
      cell: ({ totals }) => <Amount amount={totals[type]} />,
    })),
    { id: 'balance', label: text.check, isNumber: true, isOptional: true, cell: ({ difference }) => <Check difference={difference} /> },
  ];
  return (
    <Section
      title={text.position}
      actions={
        <LinkButton kind="quiet" href="/accounts">
          {text.allAccounts}
        </LinkButton>
      }
    >
      {lines.length === 0 ? (
        <Empty
          title={text.nothing}
          action={
            <LinkButton kind="primary" icon="add" href="/post" needs="transactions:write">
              {words.nav.post}
            </LinkButton>
          }
        >
          {text.nothingHint}
        </Empty>
      ) : (
        <Sheet label={text.position} columns={columns} items={lines} idOf={({ currency }) => currency} />
      )}
    </Section>
  );
}

function Check({ difference }: { difference: bigint }): ReactElement {
  return difference === 0n ? (
    <span className="in-balance">
      <Icon name="check" /> {text.inBalance}
    </span>
  ) : (
    <span className="out-of-balance">
      <Icon name="warning" /> {text.outBy} <Amount amount={toDecimal(difference)} />
    </span>
  );
}

/** What needs a person: parts of the service that are away, and deliveries that failed. */
function Attention(): ReactElement | null {
  const mayRead = useMissing('webhooks:manage') === undefined;
  const readiness = useRead(['readiness'], (ledger, options) => ledger.service.readiness(options), { everyMs: freshMs });
  const failed = useRead(
    ['deliveries', 'failed', 'count'],
    (ledger, options) => ledger.deliveries.list({ status: 'failed', limit: 1, ...options }).page(),
    {
      isEnabled: mayRead,
      everyMs: freshMs,
    },
  );
  const away = Object.entries(readiness.data?.dependencies ?? {}).filter(([, state]) => state !== 'ok');
  const count = failed.data?.pagination.total ?? 0;
  if (away.length === 0 && count === 0) return null;
  return (
    <ul className="attention">
      {away.map(([name, state]) => (
        <li key={name}>
          <Icon name="warning" /> {text.away(name, state)}
        </li>
      ))}
      {count > 0 && (
        <li>
          <Icon name="webhooks" /> <span>{text.failed(formatCount(count), count)}</span>{' '}
          <Link href="/webhooks?status=failed">{text.open}</Link>
        </li>
      )}
    </ul>
  );
}

const ranges = { '30': 'day', '90': 'day', '365': 'week' } as const;

function Volume(): ReactElement {
  const [filters, setFilters] = useFilters(['currency', 'days']);
  const currency = (filters.currency ?? currencies[0]) as Currency;
  const days = filters.days !== undefined && filters.days in ranges ? (filters.days as keyof typeof ranges) : '90';
  const zone = useBooksZone();
  const query = { currency, interval: ranges[days], from: daysAgo(Number(days) - 1, zone), to: daysAgo(0, zone) };
  const volume = useRead(['volume', query], (ledger, options) => ledger.reports.volume({ ...query, ...options }), { everyMs: freshMs });
  const choices = (
    <>
      <SelectField
        isCompact
        label={text.currency}
        name="currency"
        value={currency}
        onChange={(chosen) => setFilters({ currency: chosen })}
        options={currencies.map((id) => ({ id, label: id }))}
      />
      <SelectField
        isCompact
        label={text.range}
        name="days"
        value={days}
        onChange={(chosen) => setFilters({ days: chosen })}
        options={Object.keys(ranges).map((id) => ({ id, label: text.ranges[id as keyof typeof ranges] }))}
      />
    </>
  );
  return (
    <Section title={text.volume} actions={choices}>
      <Loaded query={volume}>
        {({ points }) => {
          const total = `${currency} ${formatAmount(sum(points.map(({ debits }) => debits)))}`;
          const count = formatCount(points.reduce((all, each) => all + each.count, 0));
          return (
            <Plot
              title={`${text.volume} ${currency}`}
              kind="bars"
              measure={`${text.posted} ${currency}`}
              summary={text.summary(total, count, text.ranges[days])}
              points={points.map(({ date, debits, count: of }) => ({
                date,
                value: toPlot(debits),
                text: `${currency} ${formatAmount(debits)}`,
                detail: text.transactions(formatCount(of)),
              }))}
            />
          );
        }}
      </Loaded>
    </Section>
  );
}

function Recent(): ReactElement {
  const recent = useRead(['transactions', 'recent'], (ledger, options) => ledger.transactions.list({ limit: 6, ...options }).page(), {
    everyMs: 5_000,
  });
  return (
    <Section
      title={text.recent}
      actions={
        <LinkButton kind="quiet" href="/transactions">
          {text.allTransactions}
        </LinkButton>
      }
    >
      <Loaded query={recent}>
        {({ transactions }) =>
          transactions.length === 0 ? (
            <Empty title={text.noTransactions} />
          ) : (
            <ol className="recent">
              {transactions.map((transaction) => (
                <RecentLine key={transaction.transaction_id} transaction={transaction} />
              ))}
            </ol>
          )
        }
      </Loaded>
    </Section>
  );
}

function RecentLine({ transaction }: { transaction: Transaction }): ReactElement {
  const { transaction_id: id, description, created_at: time, amount, currency, kind } = transaction;
  return (
    <li>
      <Link href={`/transactions/${id}`} className="recent-line">
        <span className="recent-text">{description === '' ? words.kinds[kind] : description}</span>
        {amount !== null && currency !== null && <Amount amount={amount} currency={currency} />}
        <small>
          <Time time={time} />
        </small>
      </Link>
    </li>
  );
}
