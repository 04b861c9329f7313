// The question before texts of a transaction are redacted.
import { useState, type ReactElement } from 'react';
import type { Transaction } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Checkbox, Form, TextField } from '../parts/form.tsx';
import { toast } from '../parts/toast.tsx';
import { useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';

const words = texts.transaction;

/** Names of the texts that a transaction has. */
export function textsOf({ description, reference, metadata }: Transaction): string[] {
  const own = [...(description === '' ? [] : ['description']), ...(reference === null ? [] : ['reference'])];
  return [...own, ...Object.keys(metadata).map((key) => `metadata.${key}`)];
}

/** The dialog. */
export function RedactDialog(props: { transaction: Transaction; isOpen: boolean; onClose: () => void }): ReactElement {
  const { transaction, isOpen, onClose } = props;
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [reason, setReason] = useState('');
  const redact = useWrite(
    (ledger) => ledger.transactions.redact(transaction.transaction_id, { fields: [...chosen], reason }),
    () => {
      toast(words.redactionDone);
      setChosen([]);
      setReason('');
      onClose();
    },
  );
  return (
    <Dialog title={words.redactionTitle} isOpen={isOpen} onClose={onClose}>
      <p className="dialog-text">{words.redactionText}</p>
      <Form
        onSubmit={() => redact.mutate(undefined)}
        error={redact.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="danger" type="submit" isPending={redact.isPending} isDisabled={chosen.length === 0}>
              {words.redactionTitle}
            </Button>
          </>
        }
      >
        {textsOf(transaction).map((field) => (
          <Checkbox
            key={field}
            label={<code>{field}</code>}
            isSelected={chosen.includes(field)}
            onChange={(isChosen) => setChosen(isChosen ? [...chosen, field] : chosen.filter((each) => each !== field))}
          />
        ))}
        <TextField label={texts.periods.reason} name="reason" value={reason} onChange={setReason} maxLength={1000} isRequired />
      </Form>
    </Dialog>
  );
}
