// All transactions, newest first, with a search whose filters stand in the address.
import { useState, type ReactElement } from 'react';
import type { Transaction } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Amount } from '../parts/amount.tsx';
import { Button, LinkButton } from '../parts/button.tsx';
import { AccountFilter, SearchField } from '../parts/filter.tsx';
import { SelectField, TextField } from '../parts/form.tsx';
import { useFilters } from '../parts/links.ts';
import { useIsNarrow } from '../parts/media.ts';
import { currencies } from '../parts/money.ts';
import { Badge, Page } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Table, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { usePages, useRead } from '../tenant.tsx';

const words = texts.transactions;
const { common } = texts;

const names = ['q', 'account_code', 'currency', 'kind', 'effective_from', 'effective_to', 'reference', 'metadata', 'value'] as const;
type Filters = Partial<Record<(typeof names)[number], string>>;

/** The codes of a transaction's accounts: the first, and how many more. */
export function AccountCodes({ entries }: Pick<Transaction, 'entries'>): ReactElement {
  const codes = [...new Set(entries.map(({ account_code: code }) => code))];
  return (
    <span className="codes">
      {codes.slice(0, 2).map((code) => (
        <code key={code}>{code}</code>
      ))}
      {codes.length > 2 && <small>{words.further(codes.length - 2)}</small>}
    </span>
  );
}

const columnsOf = (isNarrow: boolean): ColumnOf<Transaction>[] => [
  {
    id: 'at',
    label: words.when,
    width: isNarrow ? 112 : 184,
    cell: ({ effective_at: at }) => <Time time={at} as={isNarrow ? 'day' : 'both'} />,
  },
  { id: 'description', label: common.description, width: '2fr', isRowHeader: true, cell: (each) => <Description transaction={each} /> },
  { id: 'reference', label: common.reference, width: '1fr', isOptional: true, cell: ({ reference }) => reference },
  { id: 'accounts', label: words.accounts, width: '2fr', isOptional: true, cell: (each) => <AccountCodes entries={each.entries} /> },
  { id: 'amount', label: common.amount, width: isNarrow ? 126 : 170, isNumber: true, cell: (each) => <Total transaction={each} /> },
];

function Description({ transaction }: { transaction: Transaction }): ReactElement {
  const { description, kind, reversed_by: reversedBy } = transaction;
  return (
    <>
      {description === '' ? <span className="nothing">{common.noDescription}</span> : description}
      {kind !== 'double' && kind !== 'single' && <Badge>{words.kinds[kind]}</Badge>}
      {reversedBy !== null && <Badge tone="warn">{texts.transaction.reversed}</Badge>}
    </>
  );
}

/** The sum of its debits, or that there are several currencies. */
export function Total({ transaction: { amount, currency } }: { transaction: Pick<Transaction, 'amount' | 'currency'> }): ReactElement {
  if (amount === null || currency === null) return <span className="nothing">{common.severalCurrencies}</span>;
  return <Amount amount={amount} currency={currency} />;
}

/** The query of the API for these filters. */
function queryOf({ metadata, value, ...filters }: Filters): object {
  return metadata === undefined || value === undefined ? filters : { ...filters, [`metadata.${metadata}`]: value };
}

/** The page. */
export function TransactionsPage(): ReactElement {
  const [filters, set] = useFilters(names);
  const isNarrow = useIsNarrow();
  const pages = usePages(
    ['transactions', filters],
    (ledger, options) => ledger.transactions.list({ ...queryOf(filters), ...options }),
    ({ transactions }) => transactions,
    { everyMs: 10_000 },
  );
  const isFiltered = Object.keys(filters).length > 0;
  const clear = () => set(Object.fromEntries(names.map((name) => [name, ''])));
  const empty = isFiltered ? (
    <Empty title={common.nothingFound} action={<Button onPress={clear}>{common.clearFilters}</Button>} />
  ) : (
    <Empty title={words.empty} action={<PostButton />}>
      {words.emptyText}
    </Empty>
  );
  return (
    <Page title={words.title} lead={words.lead}>
      <Search filters={filters} set={set} clear={isFiltered ? clear : undefined} />
      <Loaded query={pages.query} lines={12}>
        {() => (
          <Table
            label={words.title}
            columns={columnsOf(isNarrow)}
            items={pages.items}
            idOf={({ transaction_id: id }) => id}
            hrefOf={({ transaction_id: id }) => `/transactions/${id}`}
            more={pages.more}
            isLoadingMore={pages.isLoadingMore}
            empty={empty}
          />
        )}
      </Loaded>
    </Page>
  );
}

function PostButton(): ReactElement {
  return (
    <LinkButton kind="primary" icon="add" href="/post" needs="transactions:write">
      {words.post}
    </LinkButton>
  );
}

interface SearchProps {
  filters: Filters;
  set: (changed: Filters) => void;
  clear: (() => void) | undefined;
}

function Search({ filters, set, clear }: SearchProps): ReactElement {
  const [isOpen, setOpen] = useState(names.slice(4).some((name) => filters[name] !== undefined));
  const choose = (name: keyof Filters) => (value: string) => set({ [name]: value === 'all' ? '' : value });
  const anyOf = (options: { id: string; label: string }[]) => [{ id: 'all', label: common.all }, ...options];
  return (
    <div className="filters" role="search" aria-label={words.title}>
      <SearchField
        label={words.search}
        name="q"
        type="search"
        value={filters.q ?? ''}
        onChange={choose('q')}
        placeholder={words.searchHint}
      />
      <AccountFilter label={common.account} value={filters.account_code ?? ''} onChange={choose('account_code')} />
      <SelectField
        label={common.currency}
        name="currency"
        value={filters.currency ?? 'all'}
        onChange={choose('currency')}
        options={anyOf(currencies.map((id) => ({ id, label: id })))}
      />
      <SelectField
        label={words.kind}
        name="kind"
        value={filters.kind ?? 'all'}
        onChange={choose('kind')}
        options={anyOf(Object.entries(words.kinds).map(([id, label]) => ({ id, label })))}
      />
      {isOpen ? <MoreFilters filters={filters} set={set} /> : <Button onPress={() => setOpen(true)}>{common.more}</Button>}
      {clear && (
        <Button kind="quiet" onPress={clear}>
          {common.clearFilters}
        </Button>
      )}
    </div>
  );
}

function MoreFilters({ filters, set }: Omit<SearchProps, 'clear'>): ReactElement {
  const books = useRead(['books'], (ledger, options) => ledger.books.get(options));
  const keys = books.data?.books.indexed_metadata ?? [];
  const choose = (name: keyof Filters) => (value: string) => set({ [name]: value === 'none' ? '' : value });
  return (
    <>
      <TextField
        label={common.from}
        name="effective_from"
        type="date"
        value={filters.effective_from ?? ''}
        onChange={choose('effective_from')}
      />
      <TextField label={common.to} name="effective_to" type="date" value={filters.effective_to ?? ''} onChange={choose('effective_to')} />
      <SearchField label={common.reference} name="reference" value={filters.reference ?? ''} onChange={choose('reference')} />
      {keys.length > 0 && (
        <SelectField
          label={words.metadataKey}
          name="metadata"
          value={filters.metadata ?? 'none'}
          onChange={choose('metadata')}
          options={[{ id: 'none', label: '–' }, ...keys.map((id) => ({ id, label: id }))]}
        />
      )}
      {filters.metadata !== undefined && (
        <SearchField label={words.metadataValue} name="value" value={filters.value ?? ''} onChange={choose('value')} />
      )}
    </>
  );
}
