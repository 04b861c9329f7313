// The newest signed checkpoint, and the proof that nothing before one that was kept has changed.
import { useMutation } from '@tanstack/react-query';
import { useState, type ReactElement } from 'react';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { save } from '../parts/files.ts';
import { Form, TextField } from '../parts/form.tsx';
import { formatCount } from '../parts/money.ts';
import { Badge, Facts, Section } from '../parts/page.tsx';
import { Loaded } from '../parts/problem.tsx';
import { checkCheckpoint, checkSince } from '../parts/verifier.ts';
import { useRead, useTenant } from '../tenant.tsx';

const words = texts.checkpoint;

/** Both sections. */
export function CheckpointSections(): ReactElement {
  const query = useRead(['checkpoint'], async (ledger, options) => {
    const [answer, { keys }] = await Promise.all([ledger.proofs.checkpoint(options), ledger.proofs.keys(options)]);
    return { checkpoint: await checkCheckpoint(await answer.text(), keys), keys };
  });
  const download = (text: string, size: number) => void save(new Response(text), `checkpoint-${size}.txt`);
  const { checkpoint } = query.data ?? {};
  return (
    <>
      <Section
        title={words.title}
        actions={checkpoint && <Button onPress={() => download(checkpoint.text, checkpoint.size)}>{words.download}</Button>}
      >
        <p className="hint">{words.text}</p>
        <Loaded query={query} lines={4}>
          {({ checkpoint: { size, root, signer }, keys }) => (
            <Facts
              facts={[
                [words.size, formatCount(size)],
                [words.root, <Code text={root} />],
                [words.signer, <code>{signer}</code>],
                [words.key, keys[0] && <Code text={keys[0].vkey} />],
              ]}
            />
          )}
        </Loaded>
      </Section>
      <Since />
    </>
  );
}

function Since(): ReactElement {
  const { ledger } = useTenant();
  const [old, setOld] = useState('');
  const check = useMutation({ mutationFn: async () => checkSince(ledger, old, (await ledger.proofs.keys()).keys) });
  return (
    <Section title={words.since}>
      <Form
        onSubmit={() => check.mutate()}
        error={check.error}
        actions={
          <Button type="submit" isPending={check.isPending} isDisabled={old.trim() === ''} needs="transactions:read">
            {words.check}
          </Button>
        }
      >
        <TextField label={words.kept} name="old" value={old} onChange={setOld} rows={5} isMono hint={words.sinceText} />
      </Form>
      <p role="status">{check.data && <Badge tone="good">{words.good(formatCount(check.data.old), formatCount(check.data.now))}</Badge>}</p>
    </Section>
  );
}
