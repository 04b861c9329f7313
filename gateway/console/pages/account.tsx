// One account: balances, a plot of them, the statement with a running balance, holds, and changes to the account itself.
import { useState, type ReactElement } from 'react';
import { Link, useParams } from 'wouter';
import type { Account, Currency } from '../../clients/typescript/ledger.ts';
import { accountPath } from '../parts/account-tree.ts';
import { Amount } from '../parts/amount.tsx';
import { Button, LinkButton } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { SelectField } from '../parts/form.tsx';
import { useFilters } from '../parts/links.ts';
import { currencies, formatAmount, formatCount, toMinor, toPlot } from '../parts/money.ts';
import { Badge, Facts, Page, Section } from '../parts/page.tsx';
import { Plot } from '../parts/plot.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Sheet, Table } from '../parts/table.tsx';
import { daysAgo, Time } from '../parts/time.tsx';
import { usePages, useRead } from '../tenant.tsx';
import { words } from '../words.ts';
import { EditAccount } from './edit-account.tsx';
import { Statement } from './statement.tsx';

const text = words.account;

/** `/console/t/<slug>/accounts/<code>`. */
export function AccountPage(): ReactElement {
  const code = decodeURIComponent(useParams<{ code: string }>().code);
  const [isEditing, setEditing] = useState(false);
  const account = useRead(['account', code], async (ledger, options) => (await ledger.accounts.get(code, options)).account);
  const actions = (
    <>
      <Button needs="accounts:write" onPress={() => setEditing(true)} isDisabled={!account.data}>
        {text.edit}
      </Button>
      {account.data?.is_group === false && (
        <LinkButton icon="add" href={`/post?account=${encodeURIComponent(code)}`} needs="transactions:write">
          {text.post}
        </LinkButton>
      )}
    </>
  );
  return (
    <Page
      title={code}
      parent={{ href: '/accounts', label: words.nav.accounts }}
      lead={account.data && <Lead account={account.data} />}
      actions={actions}
    >
      <Loaded query={account}>
        {(found) => (
          <>
            {found.is_group ? <Group account={found} /> : <Leaf account={found} />}
            <About account={found} />
            {isEditing && <EditAccount account={found} onClose={() => setEditing(false)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Lead({
  account: { name, type, normal_balance: side, status, is_group: isGroup, system, blocked },
}: {
  account: Account;
}): ReactElement {
  return (
    <>
      <span>{name}</span>
      <Badge>{words.overview.types[type]}</Badge>
      <Badge>{isGroup ? text.group : text.normal(words.sides[side])}</Badge>
      {system && <Badge>{text.system}</Badge>}
      <Badge tone={status === 'active' ? 'good' : 'warn'}>{words.statuses[status]}</Badge>
      {blocked.map((each) => (
        <Badge key={each} tone="warn">
          {text.blocked(words.sides[each])}
        </Badge>
      ))}
    </>
  );
}

function About({ account }: { account: Account }): ReactElement {
  const {
    id,
    description,
    parent_code: parent,
    currency,
    version,
    created_at: created,
    updated_at: updated,
    allow_negative: mayBeNegative,
    limits,
    metadata,
  } = account;
  const limitText = limits.map(({ currency: of, min_available: low, max_balance: high }) =>
    [of, low !== null && text.atLeast(formatAmount(low)), high !== null && text.atMost(formatAmount(high))].filter(Boolean).join(' '),
  );
  return (
    <Section title={text.about}>
      <Facts
        facts={[
          [text.description, description],
          [text.parent, parent === null ? null : <Link href={accountPath(parent)}>{parent}</Link>],
          [text.currency, currency ?? text.allCurrencies],
          [text.negative, mayBeNegative ? text.allowed : text.refused],
          [text.limits, limitText.join('; ')],
          [text.created, <Time time={created} />],
          [text.updated, <Time time={updated} />],
          [text.version, formatCount(version)],
          [text.id, <Code text={id} />],
          [text.metadata, Object.keys(metadata).length === 0 ? null : <code>{JSON.stringify(metadata)}</code>],
        ]}
      />
    </Section>
  );
}

/** The balance of a group is that of all accounts below it, which are listed page by page. */
function Group({ account: { account_code: code } }: { account: Account }): ReactElement {
  const tree = useRead(['hierarchy', 'of', code], (ledger, options) =>
    ledger.accounts.tree({ include: 'balances', root: code, depth: 1, ...options }),
  );
  const children = usePages(
    ['accounts', 'below', code],
    (ledger, options) => ledger.accounts.list({ parent_code: code, ...options }),
    (page) => page.accounts,
  );
  return (
    <>
      <Section title={text.balances}>
        <Loaded query={tree} lines={3}>
          {({ accounts: [node] }) => <Balances lines={node?.balances ?? []} />}
        </Loaded>
      </Section>
      <Section title={text.below}>
        <Loaded query={children.query}>
          {() => (
            <Table
              label={text.below}
              items={children.items}
              idOf={({ account_code: of }) => of}
              hrefOf={({ account_code: of }) => accountPath(of)}
              more={children.more}
              isLoadingMore={children.isLoadingMore}
              empty={<Empty title={text.nothingBelow} />}
              columns={[
                { id: 'code', label: text.code, cell: ({ account_code: of }) => <span>{of}</span>, width: '2fr' },
                { id: 'name', label: text.name, cell: ({ name }) => <span>{name}</span>, width: '3fr', isOptional: true },
                {
                  id: 'currency',
                  label: text.currency,
                  cell: ({ currency }) => <span>{currency ?? text.allCurrencies}</span>,
                  width: '1fr',
                },
                {
                  id: 'status',
                  label: text.status,
                  cell: ({ status }) => <span>{words.statuses[status]}</span>,
                  width: '1fr',
                  isOptional: true,
                },
              ]}
            />
          )}
        </Loaded>
      </Section>
    </>
  );
}

interface BalanceLine {
  currency: Currency;
  debits: string;
  credits: string;
  balance: string;
}

function Balances({ lines }: { lines: BalanceLine[] }): ReactElement {
  if (lines.length === 0) return <Empty title={text.neverMoved} />;
  return (
    <Sheet
      label={text.balances}
      items={lines}
      idOf={({ currency }) => currency}
      columns={[
        { id: 'currency', label: text.currency, cell: ({ currency }) => <strong>{currency}</strong> },
        { id: 'debits', label: words.sides.debit, isNumber: true, isOptional: true, cell: ({ debits }) => <Amount amount={debits} /> },
        { id: 'credits', label: words.sides.credit, isNumber: true, isOptional: true, cell: ({ credits }) => <Amount amount={credits} /> },
        { id: 'balance', label: text.balance, isNumber: true, cell: ({ balance }) => <Amount amount={balance} /> },
      ]}
    />
  );
}

function Leaf({ account }: { account: Account }): ReactElement {
  const [filters, setFilters] = useFilters(['currency', 'from', 'to']);
  const currency = account.currency ?? ((filters.currency ?? currencies[0]) as Currency);
  const range = { from: filters.from ?? daysAgo(30), to: filters.to ?? daysAgo(0) };
  const { account_code: code } = account;
  const balance = useRead(['balance', code, currency], (ledger, options) => ledger.accounts.balance(code, { currency, ...options }), {
    everyMs: 10_000,
  });
  return (
    <>
      <div className="account-head">
        <div className="balance">
          {account.currency === null && (
            <SelectField
              isCompact
              label={text.currency}
              name="currency"
              value={currency}
              onChange={(chosen) => setFilters({ currency: chosen })}
              options={currencies.map((id) => ({ id, label: id }))}
            />
          )}
          <Loaded query={balance} lines={3}>
            {({ balance: now }) => (
              <>
                <p className="balance-now total">
                  <Amount amount={now.balance} currency={currency} />
                </p>
                <Facts
                  facts={[
                    [text.available, now.available !== null && <Amount amount={now.available} />],
                    [words.sides.debit, <Amount amount={now.debits} />],
                    [words.sides.credit, <Amount amount={now.credits} />],
                    [text.pendingDebits, isSome(now.pending_debits) && <Amount amount={now.pending_debits ?? ''} />],
                    [text.pendingCredits, isSome(now.pending_credits) && <Amount amount={now.pending_credits ?? ''} />],
                    [text.balanceVersion, formatCount(now.version)],
                  ]}
                />
              </>
            )}
          </Loaded>
        </div>
        <Daily code={code} currency={currency} {...range} />
      </div>
      <Statement account={account} currency={currency} range={range} onRange={setFilters} />
      <Holds code={code} currency={currency} />
    </>
  );
}

const isSome = (amount: string | null): boolean => amount !== null && toMinor(amount) !== 0n;

function Daily({ code, currency, from, to }: { code: string; currency: Currency; from: string; to: string }): ReactElement {
  const daily = useRead(['daily', code, currency, from, to], (ledger, options) =>
    ledger.accounts.dailyBalances(code, { currency, from, to, ...options }),
  );
  return (
    <Loaded query={daily}>
      {({ days }) => (
        <Plot
          title={`${text.closing} ${code} ${currency}`}
          kind="line"
          measure={`${text.closing} ${currency}`}
          summary={
            days.length === 0
              ? text.neverMoved
              : text.summary(currency, formatAmount(days[0]?.opening ?? '0'), formatAmount(days.at(-1)?.closing ?? '0'))
          }
          points={days.map(({ date, closing }) => ({ date, value: toPlot(closing), text: `${currency} ${formatAmount(closing)}` }))}
        />
      )}
    </Loaded>
  );
}

function Holds({ code, currency }: { code: string; currency: Currency }): ReactElement | null {
  const holds = useRead(['holds', 'pending', code, currency], (ledger, options) =>
    ledger.holds.list({ account_code: code, currency, status: 'pending', limit: 20, ...options }).page(),
  );
  if (holds.data?.holds.length === 0) return null;
  return (
    <Section
      title={text.holds}
      actions={
        <LinkButton kind="quiet" href={`/holds?account_code=${encodeURIComponent(code)}`}>
          {text.allHolds}
        </LinkButton>
      }
    >
      <Loaded query={holds} lines={2}>
        {({ holds: open }) => (
          <Sheet
            label={text.holds}
            items={open}
            idOf={({ hold_id: id }) => id}
            columns={[
              { id: 'time', label: text.created, cell: ({ created_at: time }) => <Time time={time} /> },
              {
                id: 'description',
                label: text.description,
                cell: ({ hold_id: id, description }) => <Link href={`/holds/${id}`}>{description || id}</Link>,
              },
              {
                id: 'expires',
                label: text.expires,
                isOptional: true,
                cell: ({ expires_at: time }) => (time === null ? text.never : <Time time={time} />),
              },
              {
                id: 'amount',
                label: text.amount,
                isNumber: true,
                cell: ({ entries }) => {
                  const entry = entries.find((each) => each.account_code === code && each.currency === currency);
                  return entry && <Amount amount={entry.amount} currency={currency} />;
                },
              },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}
