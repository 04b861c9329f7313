// The posting form: lines that must balance, a check that posts nothing, and the posting itself, once.
import { useRef, useState, type ReactElement, type ReactNode } from 'react';
import { Link, useSearchParams } from 'wouter';
import type { Account, Currency, Entry } from '../../clients/typescript/ledger.ts';
import { AccountPicker, usePostable } from '../parts/account-picker.tsx';
import { Amount } from '../parts/amount.tsx';
import { Button } from '../parts/button.tsx';
import { Form, SelectField, TextField } from '../parts/form.tsx';
import { Icon } from '../parts/icons.tsx';
import { currencies, formatAmount } from '../parts/money.ts';
import { Page } from '../parts/page.tsx';
import { useWrite } from '../tenant.tsx';
import { words } from '../words.ts';
import { differences, doubleRequest, isAmount, isComplete, sideOf, singleRequest, type Heading, type Line } from './posting-lines.ts';

const text = words.post;
const noHeading: Heading = { description: '', reference: '', date: '' };

/** `/console/t/<slug>/post`; `?account=` fills the first line. */
export function PostPage(): ReactElement {
  const [parameters] = useSearchParams();
  const accounts = usePostable();
  const lastId = useRef(2);
  const blank = (id: number, account = '', currency: Currency = 'USD'): Line => ({ id, account, debit: '', credit: '', currency });
  const start = (): Line[] => [blank(1, parameters.get('account') ?? ''), blank(2)];
  const [isSingle, setSingle] = useState(false);
  const [heading, setHeading] = useState(noHeading);
  const [all, setAll] = useState(start);
  const [checked, setChecked] = useState<Entry[]>();
  const [posted, setPosted] = useState<string>();
  // An account of one currency takes no other.
  const ownCurrency = (code: string) => accounts.find((account) => account.account_code === code)?.currency;
  const lines = (isSingle ? all.slice(0, 1) : all).map((line) => ({ ...line, currency: ownCurrency(line.account) ?? line.currency }));

  const send = useWrite(
    async (ledger, { isDry }: { isDry: boolean }, options) => {
      const more = isDry ? { dry_run: true as const } : options;
      const answered = isSingle
        ? await ledger.transactions.postSingle(singleRequest(heading, lines[0] ?? blank(0)), more)
        : await ledger.transactions.post(doubleRequest(heading, lines), more);
      return { isDry, transaction: answered.transaction };
    },
    ({ isDry, transaction }) => {
      setChecked(transaction.entries);
      if (isDry) return;
      setPosted(transaction.transaction_id);
      setHeading(noHeading);
      setAll(start);
      setChecked(undefined);
    },
  );
  // What was checked, posted or refused was another form.
  const change = (next: Line[]): void => {
    setAll(next);
    setChecked(undefined);
    setPosted(undefined);
    send.reset();
  };
  const changeLine = (line: Line): void => change(all.map((each) => (each.id === line.id ? line : each)));
  const addLine = (): void => change([...all, blank((lastId.current += 1), '', all.at(-1)?.currency)]);
  const open = differences(lines);
  const isReady = lines.every(isComplete) && (isSingle || (open.length > 0 && open.every(({ side }) => !side)));
  const field = (name: keyof Heading) => ({
    value: heading[name],
    onChange: (value: string) => {
      setHeading({ ...heading, [name]: value });
      setPosted(undefined);
    },
  });
  const actions = (
    <>
      <Button
        needs="transactions:write"
        onPress={() => send.mutate({ isDry: true })}
        isDisabled={!lines.every(isComplete)}
        isPending={send.isPending}
      >
        {text.check}
      </Button>
      <Button kind="primary" type="submit" needs="transactions:write" isDisabled={!isReady} isPending={send.isPending}>
        {text.post}
      </Button>
    </>
  );
  return (
    <Page title={words.nav.post} actions={<Kinds isSingle={isSingle} onChange={setSingle} />}>
      <Outcome posted={posted} isChecked={checked !== undefined} />
      <Form onSubmit={() => isReady && !send.isPending && send.mutate({ isDry: false })} error={send.error} actions={actions}>
        <div className="field-row heading-fields">
          <TextField label={text.description} name="description" maxLength={1000} autoFocus {...field('description')} />
          <TextField label={text.reference} name="reference" maxLength={255} hint={text.referenceHint} {...field('reference')} />
          <TextField label={text.date} name="effective_at" type="date" hint={text.dateHint} {...field('date')} />
        </div>
        <div className="posting" role="group" aria-label={text.kind}>
          <div className="posting-line posting-head" aria-hidden="true">
            <span>{text.account}</span>
            <span className="number">{words.sides.debit}</span>
            <span className="number">{words.sides.credit}</span>
            <span>{text.currency}</span>
            <span className="number">{text.after}</span>
          </div>
          {lines.map((line, index) => (
            <PostingLine
              key={line.id}
              line={line}
              index={index}
              isSingle={isSingle}
              accounts={accounts}
              isCurrencyFixed={ownCurrency(line.account) != null}
              after={checked?.[index]}
              onChange={changeLine}
              onRemove={lines.length > 2 ? () => change(all.filter(({ id }) => id !== line.id)) : undefined}
            />
          ))}
          <div className="posting-foot">
            {isSingle ? (
              <p className="hint">{text.singleHint}</p>
            ) : (
              <>
                <Button kind="quiet" icon="add" onPress={addLine}>
                  {text.addLine}
                </Button>
                <Balance lines={lines} />
              </>
            )}
          </div>
        </div>
      </Form>
      <p className="hint">{text.keyHint}</p>
    </Page>
  );
}

function Kinds({ isSingle, onChange }: { isSingle: boolean; onChange: (isSingle: boolean) => void }): ReactElement {
  return (
    <div className="toggle" role="group" aria-label={text.kind}>
      <Button isPressed={!isSingle} onPress={() => onChange(false)}>
        {text.double}
      </Button>
      <Button isPressed={isSingle} onPress={() => onChange(true)}>
        {text.single}
      </Button>
    </div>
  );
}

function Outcome({ posted, isChecked }: { posted: string | undefined; isChecked: boolean }): ReactNode {
  return (
    <div role="status">
      {posted !== undefined && (
        <p className="outcome good">
          <Icon name="check" /> <strong>{text.done}</strong> <Link href={`/transactions/${posted}`}>{text.open}</Link>
        </p>
      )}
      {isChecked && (
        <p className="outcome">
          <Icon name="check" /> {text.checked}
        </p>
      )}
    </div>
  );
}

function Balance({ lines }: { lines: readonly Line[] }): ReactElement {
  const open = differences(lines);
  return (
    <p className="posting-balance" role="status">
      {open.length === 0
        ? text.empty
        : open.map(({ currency, amount, side }) => (
            <span key={currency} className={side ? 'out-of-balance' : 'in-balance'}>
              <Icon name={side ? 'warning' : 'check'} /> {currency}:{' '}
              {side ? text.short(formatAmount(amount), words.sides[side].toLowerCase()) : text.balanced}
            </span>
          ))}
    </p>
  );
}

interface LineProps {
  line: Line;
  index: number;
  isSingle: boolean;
  accounts: Account[];
  isCurrencyFixed: boolean;
  after: Entry | undefined;
  onChange: (line: Line) => void;
  onRemove: (() => void) | undefined;
}

function PostingLine({ line, index, isSingle, accounts, isCurrencyFixed, after, onChange, onRemove }: LineProps): ReactElement {
  const number = index + 1;
  const name = (field: string): string => (isSingle ? field : `entries[${index}].${field}`);
  const side = sideOf(line);
  const amount = (of: 'debit' | 'credit', label: string) => (
    <TextField
      isCompact
      isNumber
      label={label}
      // The API's errors of an amount belong to the side that has one.
      name={side === of || (side === undefined && of === 'debit') ? name('amount') : `${of}-${index}`}
      inputMode="decimal"
      placeholder={of === 'debit' ? words.sides.debit : words.sides.credit}
      value={line[of]}
      error={line[of] !== '' && !isAmount(line[of]) ? text.badAmount : undefined}
      onChange={(value) => onChange({ ...line, debit: '', credit: '', [of]: value })}
    />
  );
  return (
    <div className="posting-line" role="group" aria-label={`${number}`}>
      <AccountPicker
        isCompact
        label={text.accountOf(number)}
        name={name('account_code')}
        value={line.account}
        accounts={accounts}
        onChange={(account) => onChange({ ...line, account })}
      />
      {amount('debit', text.debitOf(number))}
      {amount('credit', text.creditOf(number))}
      <SelectField
        isCompact
        label={text.currencyOf(number)}
        name={name('currency')}
        value={line.currency}
        onChange={(currency) => onChange({ ...line, currency: currency as Currency })}
        isDisabled={isCurrencyFixed}
        options={currencies.map((id) => ({ id, label: id }))}
      />
      <span className="number posting-after">{after && <Amount amount={after.balance_after} />}</span>
      {onRemove ? <Button kind="quiet" icon="close" label={text.removeLine(number)} onPress={onRemove} /> : <span />}
    </div>
  );
}
