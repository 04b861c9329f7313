// Settings of the user, and of the tenant's books.
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState, type ReactElement } from 'react';
import type { AuditEntry, Books, LateEntries } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Form, SelectField, TextField } from '../parts/form.tsx';
import { Badge, Facts, Page, Section } from '../parts/page.tsx';
import { Loaded } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { toast } from '../parts/toast.tsx';
import { session } from '../session.ts';
import { useMissing, useRead, useTenant, useWrite } from '../tenant.tsx';
import { chooseTheme, readTheme, type Theme } from '../theme.ts';
import { words as shared } from '../words.ts';
import { EraseSection } from './personal.tsx';

const words = texts.settings;

/** The page. */
export function SettingsPage(): ReactElement {
  return (
    <Page title={words.title} lead={words.lead}>
      <Appearance />
      <BooksSection />
      <EraseSection />
      <LoginSection />
    </Page>
  );
}

function Appearance(): ReactElement {
  const [theme, setTheme] = useState<Theme>(readTheme());
  return (
    <Section title={words.look}>
      <SelectField
        label={words.theme}
        name="theme"
        value={theme}
        onChange={(value) => {
          chooseTheme(value as Theme);
          setTheme(value as Theme);
        }}
        options={Object.entries(words.themes).map(([id, label]) => ({ id, label }))}
      />
    </Section>
  );
}

function BooksSection(): ReactElement {
  const query = useRead(['books'], (ledger, options) => ledger.books.get(options));
  return (
    <Section title={words.books}>
      <Loaded query={query} lines={6}>
        {({ books }) => <BooksForm key={books.version} books={books} />}
      </Loaded>
    </Section>
  );
}

const listOf = (text: string): string[] => text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]));

function BooksForm({ books }: { books: Books }): ReactElement {
  const [timezone, setTimezone] = useState(books.timezone);
  const [yearEnd, setYearEnd] = useState(books.fiscal_year_end);
  const [late, setLate] = useState<string>(books.late_entries);
  const [retained, setRetained] = useState(books.retained_earnings_code);
  const [cash, setCash] = useState(books.cash_accounts.join(', '));
  const [indexed, setIndexed] = useState(books.indexed_metadata.join(', '));
  const isReadOnly = useMissing('accounts:write') !== undefined;
  const save = useWrite(
    (ledger) =>
      ledger.books.update({
        timezone,
        fiscal_year_end: yearEnd,
        late_entries: late as LateEntries,
        ...(retained !== books.retained_earnings_code && { retained_earnings_code: retained }),
        cash_accounts: listOf(cash),
        indexed_metadata: listOf(indexed),
        version: books.version,
      }),
    () => toast(texts.common.saved),
  );
  const building = books.indexes.filter(({ status }) => status !== 'ready').map(({ key }) => key);
  return (
    <Form
      onSubmit={() => save.mutate(undefined)}
      error={save.error}
      actions={
        <Button kind="primary" type="submit" isPending={save.isPending} needs="accounts:write">
          {shared.save}
        </Button>
      }
    >
      <TextField
        label={words.timezone}
        name="timezone"
        value={timezone}
        onChange={setTimezone}
        hint={words.timezoneHint}
        isDisabled={isReadOnly}
      />
      <TextField
        label={words.yearEnd}
        name="fiscal_year_end"
        value={yearEnd}
        onChange={setYearEnd}
        hint={words.yearEndHint}
        isDisabled={isReadOnly}
      />
      <SelectField
        label={words.late}
        name="late_entries"
        value={late}
        onChange={setLate}
        options={Object.entries(words.lates).map(([id, label]) => ({ id, label }))}
        isDisabled={isReadOnly}
      />
      <TextField
        label={words.retained}
        name="retained_earnings_code"
        value={retained}
        onChange={setRetained}
        isMono
        isDisabled={isReadOnly}
      />
      <TextField
        label={words.cash}
        name="cash_accounts"
        value={cash}
        onChange={setCash}
        hint={words.cashHint}
        isMono
        isDisabled={isReadOnly}
      />
      <TextField
        label={words.indexed}
        name="indexed_metadata"
        value={indexed}
        onChange={setIndexed}
        hint={building.length === 0 ? words.indexedHint : `${building.join(', ')}: ${words.building}`}
        isMono
        isDisabled={isReadOnly}
      />
    </Form>
  );
}

const columns: ColumnOf<AuditEntry>[] = [
  { id: 'type', label: words.what, cell: ({ type }) => <code>{type}</code> },
  { id: 'address', label: words.from, cell: ({ address }) => address },
  { id: 'at', label: words.at, cell: ({ created_at: at }) => <Time time={at} /> },
];

function LoginSection(): ReactElement {
  const [isAsked, setAsked] = useState(false);
  const { ledger } = useTenant();
  const user = session.read()?.user;
  const query = useQuery({ queryKey: ['user', 'audit'], queryFn: ({ signal }) => ledger.user.audit({ limit: 10, signal }).page() });
  return (
    <Section title={words.login} actions={<Button onPress={() => setAsked(true)}>{words.password}</Button>}>
      {user && (
        <Facts
          facts={[
            [texts.common.name, `${user.first_name} ${user.last_name}`],
            [texts.members.email, user.email],
            [
              words.factor,
              <Badge tone={user.totp_enabled ? 'good' : 'plain'}>{user.totp_enabled ? words.factorOn : words.factorOff}</Badge>,
            ],
          ]}
        />
      )}
      <h3>{words.history}</h3>
      <Loaded query={query} lines={4}>
        {({ audit }) => <Sheet label={words.history} columns={columns} items={audit} idOf={({ id }) => id} />}
      </Loaded>
      {isAsked && <PasswordDialog onClose={() => setAsked(false)} />}
    </Section>
  );
}

function PasswordDialog({ onClose }: { onClose: () => void }): ReactElement {
  const [current, setCurrent] = useState('');
  const [fresh, setFresh] = useState('');
  const { ledger } = useTenant();
  const change = useMutation({
    mutationFn: async () => ledger.auth.changePassword({ current, password: fresh }),
    onSuccess: () => {
      toast(words.passwordDone);
      onClose();
    },
  });
  return (
    <Dialog title={words.passwordTitle} isOpen onClose={onClose}>
      <p className="dialog-text">{words.passwordText}</p>
      <Form
        onSubmit={() => change.mutate()}
        error={change.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="primary" type="submit" isPending={change.isPending}>
              {words.passwordTitle}
            </Button>
          </>
        }
      >
        <TextField
          label={words.current}
          name="current"
          type="password"
          value={current}
          onChange={setCurrent}
          autoComplete="current-password"
          isRequired
          autoFocus
        />
        <TextField
          label={words.fresh}
          name="password"
          type="password"
          value={fresh}
          onChange={setFresh}
          autoComplete="new-password"
          minLength={8}
          isRequired
        />
      </Form>
    </Dialog>
  );
}
