// The question before a transaction, or a part of it, is reversed.
import { useState, type ReactElement } from 'react';
import type { Transaction } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Form, TextField } from '../parts/form.tsx';
import { useGo } from '../parts/links.ts';
import { formatAmount } from '../parts/money.ts';
import { toast } from '../parts/toast.tsx';
import { useWrite } from '../tenant.tsx';
import { words as shared } from '../words.ts';

const words = texts.transaction;

interface Props {
  transaction: Transaction;
  isOpen: boolean;
  onClose: () => void;
}

/** What is left to reverse, where it is one amount. */
function leftOf({ amount, entries, unreversed }: Transaction): string | undefined {
  if (amount === null) return undefined;
  return unreversed === null || entries.length !== 2 ? amount : unreversed[0];
}

/** The dialog. */
export function ReverseDialog({ transaction, isOpen, onClose }: Props): ReactElement {
  const [description, setDescription] = useState('');
  const [amount, setAmount] = useState('');
  const go = useGo();
  const reverse = useWrite(
    (ledger, _: undefined, options) => {
      const body = { ...(description !== '' && { description }), ...(amount !== '' && { amount }) };
      return ledger.transactions.reverse(transaction.transaction_id, body, options);
    },
    ({ transaction: { transaction_id: id } }) => {
      toast(words.reversalDone);
      onClose();
      go(`/transactions/${id}`);
    },
  );
  const left = leftOf(transaction);
  return (
    <Dialog title={words.reversalTitle} isOpen={isOpen} onClose={onClose}>
      <p className="dialog-text">{words.reversalText}</p>
      <Form
        onSubmit={() => reverse.mutate(undefined)}
        error={reverse.error}
        actions={
          <>
            <Button onPress={onClose}>{shared.cancel}</Button>
            <Button kind="danger" type="submit" isPending={reverse.isPending}>
              {words.reversalTitle}
            </Button>
          </>
        }
      >
        <TextField
          label={texts.common.description}
          name="description"
          value={description}
          onChange={setDescription}
          maxLength={255}
          autoFocus
        />
        {left !== undefined && (
          <TextField
            label={words.part}
            name="amount"
            value={amount}
            onChange={setAmount}
            inputMode="decimal"
            isMono
            hint={words.partHint(formatAmount(left))}
          />
        )}
      </Form>
    </Dialog>
  );
}
