// The search above all pages: pages and accounts by name, transactions by id or text.
import { useState, type ReactElement } from 'react';
import { Autocomplete, Input, ListBox, ListBoxItem, SearchField } from 'react-aria-components';
import type { AccountNode } from '../clients/typescript/ledger.ts';
import { navigation } from './pages.tsx';
import { accountPath, flatten, isLike } from './parts/account-tree.ts';
import { Dialog } from './parts/dialog.tsx';
import { Icon } from './parts/icons.tsx';
import { useGo } from './parts/links.ts';
import { useRead } from './tenant.tsx';
import { words } from './words.ts';

interface Found {
  path: string;
  label: string;
  detail: string;
}

const maxAccounts = 12;

/** Searches while something is typed. Arrow keys choose, Enter goes there. */
export function SearchDialog({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }): ReactElement {
  const [text, setText] = useState('');
  const go = useGo();
  const tree = useRead(['hierarchy'], (ledger, options) => ledger.accounts.tree({ ...options }), { isEnabled: isOpen });
  const found =
    text.trim() === ''
      ? pagesLike('')
      : [...pagesLike(text), ...accountsLike(text, tree.data?.accounts ?? []), ...transactionsLike(text.trim())];
  const close = (): void => {
    setText('');
    onClose();
  };
  return (
    <Dialog title={words.search.open} isOpen={isOpen} onClose={close}>
      <Autocomplete inputValue={text} onInputChange={setText}>
        <SearchField autoFocus aria-label={words.search.open} className="search-field">
          <Icon name="search" />
          <Input className="input" placeholder={words.search.placeholder} />
        </SearchField>
        <ListBox
          className="list search-list"
          aria-label={words.search.open}
          items={found}
          selectionMode="none"
          renderEmptyState={() => <p className="hint">{words.search.none}</p>}
          onAction={(key) => {
            go(String(key));
            close();
          }}
        >
          {({ path, label, detail }) => (
            <ListBoxItem id={path} textValue={label} className="list-item">
              <span>{label}</span>
              <small>{detail}</small>
            </ListBoxItem>
          )}
        </ListBox>
      </Autocomplete>
    </Dialog>
  );
}

function pagesLike(text: string): Found[] {
  const pages = navigation.flatMap(({ items }) => items).filter(({ label }) => isLike(text, label));
  return pages.map(({ path, label }) => ({ path, label, detail: words.search.pages }));
}

function accountsLike(text: string, tree: readonly AccountNode[]): Found[] {
  const accounts = flatten(tree).filter(({ account_code: code, name }) => isLike(text, code, name));
  return accounts.slice(0, maxAccounts).map(({ account_code: code, name }) => ({ path: accountPath(code), label: code, detail: name }));
}

function transactionsLike(text: string): Found[] {
  if (/^txn_\w{26}$/.test(text))
    return [{ path: `/transactions/${text}`, label: words.search.byId(text), detail: words.search.transactions }];
  return [{ path: `/transactions?q=${encodeURIComponent(text)}`, label: words.search.byText(text), detail: words.search.transactions }];
}
