// The proof that an event stands in the signed log, checked in this browser.
import type { ReactElement } from 'react';
import type { Ledger, Proof, Transaction } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { save } from '../parts/files.ts';
import { formatCount } from '../parts/money.ts';
import { Badge, Facts, Section } from '../parts/page.tsx';
import { Loaded, problemOf } from '../parts/problem.tsx';
import { checkProof } from '../parts/verifier.ts';
import { useRead } from '../tenant.tsx';

const words = texts.proof;

interface ProofProps {
  /** Of the file that is saved. */
  name: string;
  read: (ledger: Ledger, options: { signal: AbortSignal }) => PromiseLike<{ proof: Proof }>;
  /** What the proof must be of. */
  transaction?: Transaction;
}

/** The section. */
export function ProofSection({ name, read, transaction }: ProofProps): ReactElement {
  const query = useRead(['proof', name], async (ledger, options) => {
    const [{ proof }, { keys }] = await Promise.all([read(ledger, options), ledger.proofs.keys(options)]);
    const result = await checkProof(proof, keys, transaction).catch((error: unknown) => problemOf(error).message);
    return { proof, keys, result };
  });
  const download = (proof: Proof) => void save(new Response(JSON.stringify({ success: true, data: { proof } })), `${name}.proof.json`);
  return (
    <Section title={words.title} actions={query.data && <Button onPress={() => download(query.data.proof)}>{words.download}</Button>}>
      <p className="hint">{words.text}</p>
      <Loaded query={query} lines={3}>
        {({ proof, keys, result }) => (
          <>
            <p role="status">
              <Badge tone={typeof result === 'string' ? 'bad' : 'good'}>
                {typeof result === 'string' ? words.bad(result) : words.good(formatCount(result.size))}
              </Badge>
            </p>
            {proof.payload === null && <p className="hint">{words.redacted}</p>}
            <Facts
              facts={[
                [words.signer, typeof result !== 'string' && <code>{result.signer}</code>],
                [words.key, keys[0] && <Code text={keys[0].vkey} />],
              ]}
            />
          </>
        )}
      </Loaded>
    </Section>
  );
}
