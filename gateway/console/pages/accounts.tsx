// The chart of accounts as a tree with balances, rolled up to every group.
import { useMemo, useState, type CSSProperties, type ReactElement } from 'react';
import { Button as AriaButton, Collection, ListLayout, Tree, TreeItem, TreeItemContent, Virtualizer } from 'react-aria-components';
import type { AccountNode, Currency, LedgerError } from '../../clients/typescript/ledger.ts';
import { accountPath, flatten, isLike, prune } from '../parts/account-tree.ts';
import { Amount } from '../parts/amount.tsx';
import { Button } from '../parts/button.tsx';
import { SelectField, TextField } from '../parts/form.tsx';
import { Icon } from '../parts/icons.tsx';
import { useFilters } from '../parts/links.ts';
import { useIsNarrow } from '../parts/media.ts';
import { currencies, formatAmount, toMinor } from '../parts/money.ts';
import { Badge, Page } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { useRead } from '../tenant.tsx';
import { words } from '../words.ts';
import { NewAccount } from './new-account.tsx';

const text = words.accounts;
const rowHeight = 34;
const types = ['asset', 'liability', 'equity', 'revenue', 'expense'] as const;
// A chart that is too large to be read at once is shown down to here; below, each group has a page of its own.
const shallow = 3;

/** `/console/t/<slug>/accounts`. */
export function AccountsPage(): ReactElement {
  const [filters, setFilters] = useFilters(['q', 'currency', 'type']);
  const [isCreating, setCreating] = useState(false);
  const isNarrow = useIsNarrow();
  const tree = useRead(['hierarchy', 'balances'], async (ledger, options) =>
    ledger.accounts.tree({ include: 'balances', ...options }).catch((error: LedgerError) => {
      if (error.code !== 'too_large') throw error;
      return ledger.accounts.tree({ include: 'balances', depth: shallow, ...options });
    }),
  );
  const chosen = filters.currency as Currency | undefined;
  // One column of figures is all that a telephone has room for.
  const columns: readonly Currency[] = chosen ? [chosen] : isNarrow ? currencies.slice(0, 1) : currencies;
  return (
    <Page
      title={words.nav.accounts}
      actions={
        <Button kind="primary" icon="add" needs="accounts:write" onPress={() => setCreating(true)}>
          {text.create}
        </Button>
      }
    >
      <div className="filters">
        <TextField label={text.filter} name="q" type="search" value={filters.q ?? ''} onChange={(q) => setFilters({ q })} />
        <SelectField
          label={text.currency}
          name="currency"
          value={chosen ?? (isNarrow ? currencies[0] : 'all')}
          onChange={(id) => setFilters({ currency: id === 'all' ? '' : id })}
          options={[...(isNarrow ? [] : [{ id: 'all', label: text.all }]), ...currencies.map((id) => ({ id, label: id }))]}
        />
        <SelectField
          label={text.type}
          name="type"
          value={filters.type ?? 'all'}
          onChange={(id) => setFilters({ type: id === 'all' ? '' : id })}
          options={[{ id: 'all', label: text.all }, ...types.map((id) => ({ id, label: words.overview.types[id] }))]}
        />
      </div>
      <Loaded query={tree} lines={12}>
        {({ accounts }) =>
          accounts.length === 0 ? (
            <Empty title={words.chart.title} />
          ) : (
            <Chart accounts={accounts} columns={columns} text={filters.q ?? ''} type={filters.type} currency={chosen} />
          )
        }
      </Loaded>
      {isCreating && <NewAccount accounts={flatten(tree.data?.accounts ?? [])} onClose={() => setCreating(false)} />}
    </Page>
  );
}

interface ChartProps {
  accounts: AccountNode[];
  columns: readonly Currency[];
  text: string;
  type: string | undefined;
  currency: Currency | undefined;
}

function Chart({ accounts, columns, text: wanted, type, currency }: ChartProps): ReactElement {
  const shown = useMemo(
    () =>
      prune(accounts, (node) => {
        const holds = currency === undefined || node.currency === null || node.currency === currency;
        return (type === undefined || node.type === type) && holds && isLike(wanted, node.account_code, node.name);
      }),
    [accounts, wanted, type, currency],
  );
  const isFiltered = wanted !== '' || currency !== undefined;
  // A filter opens the groups of what it has found.
  const [opened, setOpened] = useState<Set<string | number>>(() => new Set(accounts.map(({ account_code: code }) => code)));
  const expanded = isFiltered ? new Set(flatten(shown).map(({ account_code: code }) => code)) : opened;
  if (shown.length === 0) return <Empty title={text.none} />;
  const lines = flatten(shown).filter(({ parent_code: parent }) => parent === null || expanded.has(parent)).length;
  // As wide as the longest balance, so that columns align however large it is.
  const figures = flatten(shown).flatMap(({ balances = [] }) => balances.map(({ balance }) => widthOf(formatAmount(balance))));
  const style = { '--figure': `${figures.reduce((most, each) => Math.max(most, each), 12) + 1}ch` } as CSSProperties;
  return (
    <div className="chart" style={style}>
      <div className="chart-line chart-head" aria-hidden="true">
        <span>{text.account}</span>
        {columns.map((column) => (
          <span key={column} className="number">
            {column}
          </span>
        ))}
      </div>
      <div className="table-frame" style={{ height: lines * rowHeight + 2 }}>
        <Virtualizer layout={ListLayout} layoutOptions={{ rowHeight }}>
          <Tree
            className="table"
            aria-label={words.nav.accounts}
            items={shown}
            expandedKeys={expanded}
            onExpandedChange={(keys) => setOpened(new Set(keys))}
            selectionMode="none"
            dependencies={[columns]}
          >
            {(node) => <Line node={node} columns={columns} />}
          </Tree>
        </Virtualizer>
      </div>
    </div>
  );
}

/** Separators are half as wide as digits. */
const widthOf = (text: string): number => text.length - text.replaceAll(/[0-9]/g, '').length / 2;

function Line({ node, columns }: { node: AccountNode; columns: readonly Currency[] }): ReactElement {
  const { account_code: code, name, children, balances = [], is_group: isGroup, status } = node;
  const balanceIn = (currency: Currency): string => balances.find((each) => each.currency === currency)?.balance ?? '0.00';
  const spoken = columns.map((currency) => `${currency} ${balanceIn(currency)}`).join(', ');
  return (
    <TreeItem
      id={code}
      textValue={`${code}, ${name}, ${spoken}`}
      href={accountPath(code)}
      className={isGroup ? 'row link group' : 'row link'}
    >
      <TreeItemContent>
        {({ hasChildItems, isExpanded, level }) => (
          <div className="chart-line">
            <span className={`chart-name level-${Math.min(level, 8)}`}>
              {hasChildItems ? (
                <AriaButton slot="chevron" className="chevron">
                  <Icon name={isExpanded ? 'down' : 'right'} />
                </AriaButton>
              ) : (
                <span className="chevron" />
              )}
              <span className="chart-code">{code}</span>
              <span className="chart-title">{name}</span>
              {status === 'closed' && <Badge>{text.closed}</Badge>}
            </span>
            {columns.map((currency) => (
              <span key={currency} className="number">
                {toMinor(balanceIn(currency)) === 0n ? <span className="none">–</span> : <Amount amount={balanceIn(currency)} />}
              </span>
            ))}
          </div>
        )}
      </TreeItemContent>
      <Collection items={children} dependencies={[columns]}>
        {(child) => <Line node={child} columns={columns} />}
      </Collection>
    </TreeItem>
  );
}
