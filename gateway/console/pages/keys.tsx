// API keys: created, replaced and revoked.
import { useState, type ReactElement } from 'react';
import type { ApiKey, Scope } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Secret } from '../parts/copy.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Checkbox, Form, SelectField, TextField } from '../parts/form.tsx';
import { Badge, Page } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { toast } from '../parts/toast.tsx';
import { usePages, useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';

const words = texts.keys;
const { common } = texts;

/** The page. */
export function KeysPage(): ReactElement {
  const [isCreating, setCreating] = useState(false);
  const [secret, setSecret] = useState<string>();
  const pages = usePages(
    ['keys'],
    (ledger, options) => ledger.keys.list(options),
    ({ api_keys: keys }) => keys,
  );
  const create = (
    <Button kind="primary" icon="add" onPress={() => setCreating(true)} needs="admin">
      {words.create}
    </Button>
  );
  return (
    <Page title={words.title} lead={words.lead} actions={create}>
      <Loaded query={pages.query}>
        {() =>
          pages.items.length === 0 ? (
            <Empty title={words.empty}>{words.emptyText}</Empty>
          ) : (
            <Sheet label={words.title} columns={columnsOf(setSecret)} items={pages.items} idOf={({ id }) => id} />
          )
        }
      </Loaded>
      {pages.more && <Button onPress={pages.more}>{common.loadMore}</Button>}
      {isCreating && <CreateDialog onClose={() => setCreating(false)} onSecret={setSecret} />}
      <Dialog title={words.shown} isOpen={secret !== undefined} onClose={() => setSecret(undefined)} isKept>
        {secret !== undefined && <Secret text={secret} label={words.shown} />}
      </Dialog>
    </Page>
  );
}

type OnSecret = (secret: string) => void;

const isPast = (time: string | null): boolean => time !== null && Date.parse(time) <= Date.now();

function KeyState({ revoked_at: revoked, expires_at: expires }: ApiKey): ReactElement {
  if (revoked !== null) return <Badge tone="bad">{words.revoked}</Badge>;
  if (isPast(expires)) return <Badge tone="warn">{words.expired}</Badge>;
  return <Badge tone="good">{words.active}</Badge>;
}

function columnsOf(onSecret: OnSecret): ColumnOf<ApiKey>[] {
  return [
    {
      id: 'name',
      label: words.name,
      cell: ({ name, description }) => (
        <>
          {name}
          {description !== null && <small className="second-line">{description}</small>}
        </>
      ),
    },
    { id: 'last4', label: words.ends, cell: ({ last4 }) => <code>…{last4}</code> },
    { id: 'status', label: common.status, cell: KeyState },
    { id: 'scopes', label: words.scopes, cell: ({ scopes }) => <Scopes scopes={scopes} /> },
    { id: 'created', label: words.created, isOptional: true, cell: ({ created_at: at }) => <Time time={at} as="day" /> },
    {
      id: 'expires',
      label: words.expires,
      isOptional: true,
      cell: ({ expires_at: at }) => (at === null ? words.never : <Time time={at} as="day" />),
    },
    { id: 'actions', label: common.actions, cell: (key) => <KeyActions apiKey={key} onSecret={onSecret} /> },
  ];
}

function Scopes({ scopes }: { scopes: readonly Scope[] }): ReactElement {
  if (scopes.length > 3)
    return (
      <details className="scopes">
        <summary>{`${scopes.length} ${words.scopes.toLowerCase()}`}</summary>
        <code>{scopes.join(', ')}</code>
      </details>
    );
  return (
    <span className="codes">
      {scopes.map((scope) => (
        <code key={scope}>{scope}</code>
      ))}
    </span>
  );
}

function KeyActions({ apiKey, onSecret }: { apiKey: ApiKey; onSecret: OnSecret }): ReactElement | null {
  const [asked, setAsked] = useState<'rotate' | 'revoke'>();
  const close = (): void => setAsked(undefined);
  const revoke = useWrite(
    (ledger) => ledger.keys.revoke(apiKey.id),
    () => {
      toast(words.revokeDone);
      close();
    },
  );
  if (apiKey.revoked_at !== null || isPast(apiKey.expires_at)) return null;
  return (
    <span className="row-actions">
      <Button kind="quiet" onPress={() => setAsked('rotate')} needs="admin">
        {words.rotate}
      </Button>
      <Button kind="quiet" onPress={() => setAsked('revoke')} needs="admin">
        {words.revoke}
      </Button>
      {asked === 'rotate' && <RotateDialog apiKey={apiKey} onClose={close} onSecret={onSecret} />}
      <Confirm
        title={`${words.revokeTitle}: ${apiKey.name}`}
        isOpen={asked === 'revoke'}
        onClose={close}
        action={words.revokeTitle}
        onConfirm={() => revoke.mutate(undefined)}
        isPending={revoke.isPending}
        error={revoke.error}
      >
        <p>{words.revokeText}</p>
      </Confirm>
    </span>
  );
}

function RotateDialog({ apiKey, onClose, onSecret }: { apiKey: ApiKey; onClose: () => void; onSecret: OnSecret }): ReactElement {
  const [overlap, setOverlap] = useState('86400');
  const rotate = useWrite(
    (ledger) => ledger.keys.rotate(apiKey.id, { overlap_seconds: Number(overlap) }),
    ({ api_key: { key } }) => {
      onClose();
      onSecret(key);
    },
  );
  return (
    <Dialog title={`${words.rotateTitle}: ${apiKey.name}`} isOpen onClose={onClose}>
      <p className="dialog-text">{words.rotateText}</p>
      <Form
        onSubmit={() => rotate.mutate(undefined)}
        error={rotate.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="primary" type="submit" isPending={rotate.isPending}>
              {words.rotateTitle}
            </Button>
          </>
        }
      >
        <SelectField
          label={words.overlap}
          name="overlap_seconds"
          value={overlap}
          onChange={setOverlap}
          options={Object.entries(words.overlaps).map(([id, label]) => ({ id, label }))}
        />
      </Form>
    </Dialog>
  );
}

function CreateDialog({ onClose, onSecret }: { onClose: () => void; onSecret: OnSecret }): ReactElement {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [expires, setExpires] = useState('');
  const [scopes, setScopes] = useState<readonly Scope[]>([]);
  const create = useWrite(
    (ledger) =>
      ledger.keys.create({
        name,
        scopes: [...scopes],
        ...(description !== '' && { description }),
        ...(expires !== '' && { expires_at: new Date(`${expires}T23:59:59`).toISOString() }),
      }),
    ({ api_key: { key } }) => {
      onClose();
      onSecret(key);
    },
  );
  const choose = (scope: Scope) => (isSelected: boolean) =>
    setScopes(isSelected ? [...scopes, scope] : scopes.filter((each) => each !== scope));
  return (
    <Dialog title={words.create} isOpen onClose={onClose}>
      <Form
        onSubmit={() => create.mutate(undefined)}
        error={create.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="primary" type="submit" isPending={create.isPending} isDisabled={scopes.length === 0}>
              {words.create}
            </Button>
          </>
        }
      >
        <TextField
          label={words.name}
          name="name"
          value={name}
          onChange={setName}
          hint={words.nameHint}
          isRequired
          maxLength={255}
          autoFocus
        />
        <TextField label={words.description} name="description" value={description} onChange={setDescription} maxLength={1000} />
        <fieldset className="choices">
          <legend>{words.scopes}</legend>
          {Object.entries(words.scopeTexts).map(([scope, text]) => (
            <Checkbox
              key={scope}
              label={
                <span>
                  {text} <code>{scope}</code>
                </span>
              }
              isSelected={scopes.includes(scope as Scope)}
              onChange={choose(scope as Scope)}
            />
          ))}
        </fieldset>
        <TextField label={words.expires} name="expires_at" type="date" value={expires} onChange={setExpires} hint={words.expiresHint} />
      </Form>
    </Dialog>
  );
}
