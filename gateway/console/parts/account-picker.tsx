// A field for an account: found by code or name, or typed in full.
import { useMemo, type ReactElement } from 'react';
import { ComboBox, FieldError, Input, Label, ListBox, ListBoxItem, Popover } from 'react-aria-components';
import type { Account } from '../../clients/typescript/ledger.ts';
import { useRead } from '../tenant.tsx';
import { words } from '../words.ts';
import { flatten, isLike } from './account-tree.ts';

const maxFound = 60;

/** All accounts that take postings. Of a chart that is too large to be read at once there are none: a code can be typed. */
export function usePostable(): Account[] {
  const tree = useRead(['hierarchy'], (ledger, options) => ledger.accounts.tree({ ...options }));
  return useMemo(
    () => flatten(tree.data?.accounts ?? []).filter(({ is_group: isGroup, status }) => !isGroup && status === 'active'),
    [tree.data],
  );
}

interface PickerProps {
  label: string;
  name: string;
  value: string;
  onChange: (code: string) => void;
  accounts: Account[];
  isCompact?: boolean;
  autoFocus?: boolean;
}

/** `value` is the code. */
export function AccountPicker({ label, value, onChange, accounts, isCompact = false, ...field }: PickerProps): ReactElement {
  const isChosen = accounts.some((account) => account.account_code === value);
  // What is chosen already is no filter: the list then shows all.
  const found = (isChosen ? accounts : accounts.filter(({ account_code: code, name }) => isLike(value, code, name))).slice(0, maxFound);
  return (
    <ComboBox
      className={isCompact ? 'field compact picker' : 'field'}
      aria-label={isCompact ? label : undefined}
      items={found}
      inputValue={value}
      onInputChange={onChange}
      onChange={(key) => key !== null && onChange(String(key))}
      allowsCustomValue
      allowsEmptyCollection
      menuTrigger="focus"
      isRequired
      {...field}
    >
      {!isCompact && <Label>{label}</Label>}
      <Input className="input mono" placeholder={isCompact ? words.post.account : undefined} />
      <FieldError className="field-error" />
      <Popover className="popover">
        <ListBox className="list" renderEmptyState={() => <p className="hint list-item">{words.post.noAccount}</p>}>
          {(account: Account) => (
            <ListBoxItem id={account.account_code} textValue={account.account_code} className="list-item">
              <span>{account.account_code}</span>
              <small>{account.name}</small>
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </ComboBox>
  );
}
