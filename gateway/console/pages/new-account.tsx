// The dialog that adds an account to the chart.
import { useState, type ReactElement } from 'react';
import type { Account, AccountType, CreateAccountRequest, Currency } from '../../clients/typescript/ledger.ts';
import { accountPath } from '../parts/account-tree.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Checkbox, Form, SelectField, TextField } from '../parts/form.tsx';
import { useGo } from '../parts/links.ts';
import { currencies } from '../parts/money.ts';
import { toast } from '../parts/toast.tsx';
import { useWrite } from '../tenant.tsx';
import { words } from '../words.ts';

const text = words.newAccount;
const types = Object.keys(words.overview.types) as AccountType[];
const none = '-';

/** `accounts`: what may be a parent. */
export function NewAccount({ accounts, onClose }: { accounts: Account[]; onClose: () => void }): ReactElement {
  const [code, setCode] = useState('');
  const [name, setName] = useState('');
  const [type, setType] = useState<AccountType>('liability');
  const [parent, setParent] = useState(none);
  const [currency, setCurrency] = useState(none);
  const [isGroup, setGroup] = useState(false);
  const [mayBeNegative, setNegative] = useState(false);
  const go = useGo();
  const create = useWrite(
    (ledger, given: CreateAccountRequest) => ledger.accounts.create(given),
    ({ account }) => {
      toast(text.done(account.account_code));
      onClose();
      go(accountPath(account.account_code));
    },
  );
  const submit = (): void =>
    create.mutate({
      account_code: code,
      name,
      type,
      parent_code: parent === none ? null : parent,
      currency: currency === none ? null : (currency as Currency),
      is_group: isGroup,
      allow_negative: mayBeNegative,
    });
  const groups = accounts.filter((account) => account.is_group && account.type === type);
  return (
    <Dialog title={text.title} isOpen onClose={onClose}>
      <Form
        onSubmit={submit}
        error={create.error}
        actions={
          <>
            <Button onPress={onClose}>{words.cancel}</Button>
            <Button kind="primary" type="submit" isPending={create.isPending}>
              {text.action}
            </Button>
          </>
        }
      >
        <div className="field-row">
          <TextField label={text.code} name="account_code" value={code} onChange={setCode} maxLength={64} isRequired isMono autoFocus />
          <TextField label={text.name} name="name" value={name} onChange={setName} maxLength={255} isRequired />
        </div>
        <div className="field-row">
          <SelectField
            label={text.type}
            name="type"
            value={type}
            onChange={(id) => {
              setType(id as AccountType);
              setParent(none);
            }}
            options={types.map((id) => ({ id, label: words.overview.types[id] }))}
          />
          <SelectField
            label={text.currency}
            name="currency"
            value={currency}
            onChange={setCurrency}
            options={[{ id: none, label: text.allCurrencies }, ...currencies.map((id) => ({ id, label: id }))]}
          />
        </div>
        <SelectField
          label={text.parent}
          name="parent_code"
          value={parent}
          onChange={setParent}
          options={[
            { id: none, label: text.top },
            ...groups.map((group) => ({ id: group.account_code, label: group.account_code, detail: group.name })),
          ]}
        />
        <Checkbox label={text.group} isSelected={isGroup} onChange={setGroup} />
        <Checkbox label={text.negative} isSelected={mayBeNegative} onChange={setNegative} />
      </Form>
    </Dialog>
  );
}
