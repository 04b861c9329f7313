// The form of the webhook's address and events.
import { useState, type ReactElement } from 'react';
import type { WebhookConfig, WebhookEventType } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Checkbox, Form, TextField } from '../parts/form.tsx';
import { toast } from '../parts/toast.tsx';
import { useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';

const words = texts.webhooks;

/** Types of events that may be subscribed to. */
export const eventTypes: readonly WebhookEventType[] = [
  ...(['transaction.posted', 'balance.updated', 'account.created', 'account.updated'] as const),
  ...(['hold.created', 'hold.captured', 'hold.voided', 'hold.expired'] as const),
  ...(['definition.changed', 'books.updated', 'period.closed', 'period.reopened'] as const),
  ...(['subject.erased', 'transaction.redacted', 'books.unfrozen'] as const),
];

interface Props {
  /** Undefined: there is none yet. */
  config?: WebhookConfig;
  isOpen: boolean;
  onClose: () => void;
  onSecret: (secret: string) => void;
}

/** The dialog. */
export function WebhookForm({ config, isOpen, onClose, onSecret }: Props): ReactElement {
  const [url, setUrl] = useState(config?.url ?? '');
  const [events, setEvents] = useState<readonly WebhookEventType[]>(config?.events ?? ['transaction.posted']);
  const save = useWrite(
    (ledger) => {
      const body = { url, events: [...events] };
      return config ? ledger.webhooks.update(body) : ledger.webhooks.configure(body);
    },
    ({ webhook_config: { secret } }) => {
      toast(texts.common.saved);
      onClose();
      if (secret !== null) onSecret(secret);
    },
  );
  const choose = (type: WebhookEventType) => (isSelected: boolean) =>
    setEvents(isSelected ? [...events, type] : events.filter((each) => each !== type));
  return (
    <Dialog title={words.configure} isOpen={isOpen} onClose={onClose}>
      <Form
        onSubmit={() => save.mutate(undefined)}
        error={save.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="primary" type="submit" isPending={save.isPending} isDisabled={events.length === 0}>
              {shared.save}
            </Button>
          </>
        }
      >
        <TextField label={words.url} name="url" type="url" value={url} onChange={setUrl} hint={words.urlHint} isRequired autoFocus />
        <fieldset className="choices">
          <legend>{words.events}</legend>
          {eventTypes.map((type) => (
            <Checkbox key={type} label={<code>{type}</code>} isSelected={events.includes(type)} onChange={choose(type)} />
          ))}
        </fieldset>
      </Form>
    </Dialog>
  );
}
