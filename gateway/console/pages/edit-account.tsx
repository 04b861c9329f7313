// The dialog that changes an account: its name, its description, whether it may be negative, and its end.
import { useState, type ReactElement } from 'react';
import type { Account, UpdateAccountRequest } from '../../clients/typescript/ledger.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Checkbox, Form, TextField } from '../parts/form.tsx';
import { toast } from '../parts/toast.tsx';
import { useWrite } from '../tenant.tsx';
import { words } from '../words.ts';

const text = words.editAccount;

/** Refused by the API if another user has changed the account since it was read. */
export function EditAccount({ account, onClose }: { account: Account; onClose: () => void }): ReactElement {
  const [name, setName] = useState(account.name);
  const [description, setDescription] = useState(account.description ?? '');
  const [mayBeNegative, setNegative] = useState(account.allow_negative);
  const [isClosed, setClosed] = useState(account.status === 'closed');
  const update = useWrite(
    (ledger, given: UpdateAccountRequest) => ledger.accounts.update(account.account_code, given),
    () => {
      toast(text.done);
      onClose();
    },
  );
  const submit = (): void =>
    update.mutate({ name, description, allow_negative: mayBeNegative, status: isClosed ? 'closed' : 'active', version: account.version });
  return (
    <Dialog title={text.title(account.account_code)} isOpen onClose={onClose}>
      <Form
        onSubmit={submit}
        error={update.error}
        actions={
          <>
            <Button onPress={onClose}>{words.cancel}</Button>
            <Button kind="primary" type="submit" isPending={update.isPending}>
              {words.save}
            </Button>
          </>
        }
      >
        <TextField label={words.newAccount.name} name="name" value={name} onChange={setName} maxLength={255} isRequired autoFocus />
        <TextField
          label={words.account.description}
          name="description"
          value={description}
          onChange={setDescription}
          maxLength={1000}
          rows={3}
        />
        <Checkbox label={words.newAccount.negative} isSelected={mayBeNegative} onChange={setNegative} />
        <Checkbox label={text.close} isSelected={isClosed} onChange={setClosed} />
      </Form>
    </Dialog>
  );
}
