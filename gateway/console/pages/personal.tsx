// Personal data: as a transaction shows it, and the erasure of a subject.
import { useState, type ReactElement } from 'react';
import type { Personal, Transaction } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { Confirm } from '../parts/dialog.tsx';
import { Form, TextField } from '../parts/form.tsx';
import { Badge, Facts, Section } from '../parts/page.tsx';
import { toast } from '../parts/toast.tsx';
import { useMissing, useWrite } from '../tenant.tsx';

const words = texts.personal;

/** Personal data of a transaction; nothing where it has none. */
export function PersonalSection({ transaction: { personal } }: { transaction: Transaction }): ReactElement | null {
  if (personal.length === 0) return null;
  return (
    <Section title={words.title}>
      {personal.map((each) => (
        <Facts key={each.subject_id} facts={[[words.subject, each.subject ?? <Code text={each.subject_id} />], ...factsOf(each)]} />
      ))}
    </Section>
  );
}

function factsOf({ data, state }: Personal): [string, ReactElement][] {
  const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  if (data !== null) return Object.entries(data).map(([name, value]) => [name, <code>{text(value)}</code>]);
  return [[words.state, <Badge tone={state === 'erased' ? 'bad' : 'plain'}>{words.states[state]}</Badge>]];
}

/** The form that erases a subject. */
export function EraseSection(): ReactElement {
  const [subject, setSubject] = useState('');
  const [reason, setReason] = useState('');
  const [isAsked, setAsked] = useState(false);
  const isReadOnly = useMissing('personal:manage') !== undefined;
  const erase = useWrite(
    (ledger) => ledger.subjects.erase({ subject, ...(reason !== '' && { reason }) }),
    () => {
      toast(words.erased);
      setAsked(false);
      setSubject('');
      setReason('');
    },
  );
  return (
    <Section title={words.title}>
      <p className="hint">{words.text}</p>
      <Form
        onSubmit={() => setAsked(true)}
        actions={
          <Button kind="danger" type="submit" needs="personal:manage">
            {words.erase}
          </Button>
        }
      >
        <TextField label={words.subject} name="subject" value={subject} onChange={setSubject} isRequired isDisabled={isReadOnly} />
        <TextField
          label={texts.periods.reason}
          name="reason"
          value={reason}
          onChange={setReason}
          hint={words.reasonHint}
          isDisabled={isReadOnly}
        />
      </Form>
      <Confirm
        title={words.question(subject)}
        action={words.eraseNow}
        isOpen={isAsked}
        onClose={() => setAsked(false)}
        onConfirm={() => erase.mutate(undefined)}
        isPending={erase.isPending}
        error={erase.error}
      >
        <p className="dialog-text">{words.warning}</p>
      </Confirm>
    </Section>
  );
}
