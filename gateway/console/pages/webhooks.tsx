// The webhook: its configuration, its secret, and its deliveries.
import type { ReactElement } from 'react';
import { useState } from 'react';
import type { WebhookConfig } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Secret } from '../parts/copy.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { SelectField, TextField } from '../parts/form.tsx';
import { useFilters } from '../parts/links.ts';
import { Badge, Facts, Page, Section } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Table } from '../parts/table.tsx';
import { toast, toastError } from '../parts/toast.tsx';
import { usePages, useRead, useWrite } from '../tenant.tsx';
import { deliveryColumns } from './delivery-table.tsx';
import { eventTypes, WebhookForm } from './webhook-form.tsx';

const words = texts.webhooks;

/** The page. */
export function WebhooksPage(): ReactElement {
  const [secret, setSecret] = useState<string>();
  const query = useRead(['webhook'], async (ledger, options) => {
    // No configuration is no error here.
    const { webhook_config: config, deliveries } = await ledger.deliveries.list({ limit: 1, ...options });
    return { config, hasDeliveries: deliveries.length > 0 };
  });
  return (
    <Page title={words.title} lead={words.lead}>
      <Loaded query={query} lines={4}>
        {({ config }) => (config === null ? <NoWebhook onSecret={setSecret} /> : <Configuration config={config} onSecret={setSecret} />)}
      </Loaded>
      <Dialog title={words.secretLabel} isOpen={secret !== undefined} onClose={() => setSecret(undefined)} isKept>
        {secret !== undefined && <Secret text={secret} label={words.secretLabel} />}
      </Dialog>
      {query.data && (query.data.config !== null || query.data.hasDeliveries) && <Deliveries />}
    </Page>
  );
}

interface SecretProps {
  onSecret: (secret: string) => void;
}

function NoWebhook({ onSecret }: SecretProps): ReactElement {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Empty
        title={words.none}
        action={
          <Button kind="primary" onPress={() => setOpen(true)} needs="webhooks:manage">
            {words.configure}
          </Button>
        }
      >
        {words.noneText}
      </Empty>
      <WebhookForm isOpen={isOpen} onClose={() => setOpen(false)} onSecret={onSecret} />
    </>
  );
}

function Configuration({ config, onSecret }: SecretProps & { config: WebhookConfig }): ReactElement {
  const [asked, setAsked] = useState<'edit' | 'secret' | 'remove'>();
  const close = (): void => setAsked(undefined);
  const rotate = useWrite(
    (ledger) => ledger.webhooks.rotateSecret({}),
    ({ webhook_config: { secret } }) => {
      close();
      if (secret !== null) onSecret(secret);
    },
  );
  const remove = useWrite(
    (ledger) => ledger.webhooks.delete(),
    () => {
      toast(words.removed);
      close();
    },
  );
  return (
    <Section title={words.receiver} actions={<ConfigurationActions config={config} ask={setAsked} />}>
      <Facts
        facts={[
          [words.url, <code className="wide">{config.url}</code>],
          [texts.common.status, <Badge tone={config.enabled ? 'good' : 'warn'}>{config.enabled ? words.on : words.off}</Badge>],
          [
            words.events,
            <span className="codes">
              {config.events.map((event) => (
                <code key={event}>{event}</code>
              ))}
            </span>,
          ],
          [words.headers, config.headers.map(({ name }) => name).join(', ')],
        ]}
      />
      <WebhookForm config={config} isOpen={asked === 'edit'} onClose={close} onSecret={onSecret} />
      <Confirm
        title={words.secretTitle}
        isOpen={asked === 'secret'}
        onClose={close}
        action={words.makeSecret}
        onConfirm={() => rotate.mutate(undefined)}
        isPending={rotate.isPending}
        error={rotate.error}
      >
        <p>{words.secretText}</p>
      </Confirm>
      <Confirm
        title={words.removeTitle}
        isOpen={asked === 'remove'}
        onClose={close}
        action={words.removeTitle}
        onConfirm={() => remove.mutate(undefined)}
        isPending={remove.isPending}
        error={remove.error}
      >
        <p>{words.removeText}</p>
      </Confirm>
    </Section>
  );
}

function ConfigurationActions({ config, ask }: { config: WebhookConfig; ask: (what: 'edit' | 'secret' | 'remove') => void }): ReactElement {
  const test = useWrite((ledger) => ledger.webhooks.test({}, { timeoutMs: 90_000 }));
  const change = useWrite(
    (ledger) => ledger.webhooks.update({ enabled: !config.enabled }),
    () => toast(texts.common.saved),
  );
  const send = (): void =>
    test.mutate(undefined, {
      onSuccess: ({ status_code: status, response_time_ms: ms }) => toast(words.testDone(status, ms)),
      onError: toastError,
    });
  return (
    <>
      <Button kind="primary" onPress={send} isPending={test.isPending} needs="webhooks:manage">
        {words.test}
      </Button>
      <Button onPress={() => ask('edit')} needs="webhooks:manage">
        {words.edit}
      </Button>
      <Button onPress={() => change.mutate(undefined, { onError: toastError })} isPending={change.isPending} needs="webhooks:manage">
        {config.enabled ? words.turnOff : words.turnOn}
      </Button>
      <Button onPress={() => ask('secret')} needs="webhooks:manage">
        {words.secret}
      </Button>
      <Button kind="quiet" onPress={() => ask('remove')} needs="webhooks:manage">
        {words.remove}
      </Button>
    </>
  );
}

const names = ['status', 'event_type', 'start_date', 'end_date'] as const;
type Filters = Partial<Record<(typeof names)[number], string>>;

function Deliveries(): ReactElement {
  const [filters, set] = useFilters(names);
  const pages = usePages(
    ['deliveries', filters],
    (ledger, options) => ledger.deliveries.list({ ...(filters as object), ...options }),
    ({ deliveries }) => deliveries,
    { everyMs: 5_000 },
  );
  const { status: _, ...retried } = filters;
  const retry = useWrite(
    (ledger) => ledger.deliveries.retryAll(retried as object),
    ({ queued, remaining }) => toast(words.retriedAll(queued, remaining)),
  );
  const retryAll = (
    <Button onPress={() => retry.mutate(undefined, { onError: toastError })} isPending={retry.isPending} needs="webhooks:manage">
      {words.retryAll}
    </Button>
  );
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <Section title={words.deliveries} actions={retryAll}>
      <DeliveryFilters filters={filters} set={set} />
      <Loaded query={pages.query} lines={8}>
        {() => (
          <Table
            label={words.deliveries}
            columns={deliveryColumns}
            items={pages.items}
            idOf={({ id }) => id}
            hrefOf={({ id }) => `/webhooks/${id}`}
            more={pages.more}
            isLoadingMore={pages.isLoadingMore}
            empty={
              isFiltered ? <Empty title={texts.common.nothingFound} /> : <Empty title={words.noDeliveries}>{words.noDeliveriesText}</Empty>
            }
          />
        )}
      </Loaded>
    </Section>
  );
}

function DeliveryFilters({ filters, set }: { filters: Filters; set: (changed: Filters) => void }): ReactElement {
  const choose = (name: keyof Filters) => (value: string) => set({ [name]: value === 'all' ? '' : value });
  const anyOf = (options: { id: string; label: string }[]) => [{ id: 'all', label: texts.common.all }, ...options];
  return (
    <div className="filters" role="search" aria-label={words.deliveries}>
      <SelectField
        label={texts.common.status}
        name="status"
        value={filters.status ?? 'all'}
        onChange={choose('status')}
        options={anyOf(Object.entries(words.statuses).map(([id, label]) => ({ id, label })))}
      />
      <SelectField
        label={words.event}
        name="event_type"
        value={filters.event_type ?? 'all'}
        onChange={choose('event_type')}
        options={anyOf([...eventTypes, 'test.webhook'].map((id) => ({ id, label: id })))}
      />
      <TextField label={texts.common.from} name="start_date" type="date" value={filters.start_date ?? ''} onChange={choose('start_date')} />
      <TextField label={texts.common.to} name="end_date" type="date" value={filters.end_date ?? ''} onChange={choose('end_date')} />
    </div>
  );
}
