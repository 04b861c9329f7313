// What shows that nothing was lost or changed: the newest hash, the last verification, the checkpoint, and checks in the browser.
import { useMutation } from '@tanstack/react-query';
import { useState, type ReactElement } from 'react';
import type { Event, Ledger } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { brokenLink, forgedEntry } from '../parts/chain.ts';
import { Code } from '../parts/copy.tsx';
import { formatCount, toMinor } from '../parts/money.ts';
import { Badge, Facts, Page, Section } from '../parts/page.tsx';
import { Loaded, ProblemView } from '../parts/problem.tsx';
import { Time } from '../parts/time.tsx';
import { useMissing, useRead, useTenant, type Need } from '../tenant.tsx';
import { CheckpointSections } from './checkpoint.tsx';

const words = texts.verification;

/** Events that a check of the links reads. */
const checked = 1_000;

/** The page. */
export function VerificationPage(): ReactElement {
  // The state of the log, and the sums of all accounts, in one answer.
  const query = useRead(['verification'], (ledger, options) => ledger.reports.trialBalance({ depth: 1, ...options }));
  const { ledger } = useTenant();
  const isAdmin = useMissing('admin') === undefined;
  return (
    <Page title={words.title} lead={words.lead}>
      <Loaded query={query} lines={6}>
        {({ report }) => (
          <>
            <LastVerification />
            <Section title={words.head}>
              <p className="hint">{words.headText}</p>
              <Facts
                facts={[
                  [texts.common.sequence, formatCount(report.as_recorded.sequence)],
                  [texts.events.at, report.as_recorded.at !== null && <Time time={report.as_recorded.at} />],
                  [texts.events.hash, report.as_recorded.hash !== null && <Code text={report.as_recorded.hash} />],
                ]}
              />
            </Section>
            <Section title={words.trial}>
              <p className="hint">{words.trialText}</p>
              <Facts
                facts={report.totals.map(({ currency, values: [value] }) => {
                  const isBalanced = toMinor(value?.['debit'] ?? '0') === toMinor(value?.['credit'] ?? '0');
                  return [currency, <Badge tone={isBalanced ? 'good' : 'bad'}>{isBalanced ? words.balanced : words.unbalanced}</Badge>];
                })}
              />
            </Section>
            {report.as_recorded.sequence > 0 && <CheckpointSections />}
            <Check
              title={words.links}
              text={words.linksText}
              action={words.check}
              needs="transactions:read"
              check={() => checkLinks(ledger, report.as_recorded.sequence)}
            />
          </>
        )}
      </Loaded>
      {isAdmin && (
        <Check title={words.audit} text={words.auditText} action={words.checkAudit} needs="admin" check={() => checkAudit(ledger)} />
      )}
    </Page>
  );
}

function LastVerification(): ReactElement {
  const query = useRead(['books'], (ledger, options) => ledger.books.get(options));
  const { frozen } = query.data?.books ?? {};
  return (
    <>
      {frozen && (
        <Section title={words.frozen}>
          <p>
            <Badge tone="bad">{words.frozen}</Badge> {words.frozenText}
          </p>
          <Facts
            facts={[
              [texts.events.at, <Time time={frozen.at} />],
              [words.upTo, formatCount(frozen.sequence)],
              [words.reason, frozen.reason],
            ]}
          />
        </Section>
      )}
      <Section title={words.last}>
        <Loaded query={query} lines={2}>
          {({ books: { verified } }) =>
            verified === null ? (
              <p>{words.never}</p>
            ) : (
              <Facts
                facts={[
                  [texts.events.at, <Time time={verified.at} />],
                  [words.upTo, formatCount(verified.sequence)],
                ]}
              />
            )
          }
        </Loaded>
      </Section>
    </>
  );
}

interface Finding {
  isGood: boolean;
  text: string;
}

async function checkLinks(ledger: Ledger, newest: number): Promise<Finding> {
  const events: Event[] = [];
  for await (const event of ledger.events.list({ after_sequence: Math.max(0, newest - checked), limit: 100 })) {
    events.push(event);
    if (event.sequence >= newest) break;
  }
  const broken = brokenLink(events);
  return broken === undefined
    ? { isGood: true, text: words.linksGood(formatCount(events.length)) }
    : { isGood: false, text: words.linksBad(broken) };
}

async function checkAudit(ledger: Ledger): Promise<Finding> {
  const entries = await ledger.tenants.audit({ limit: 100 }).all(10_000);
  const forged = await forgedEntry(entries);
  return forged === undefined
    ? { isGood: true, text: words.auditGood(formatCount(entries.length)) }
    : { isGood: false, text: words.auditBad(forged) };
}

interface CheckProps {
  title: string;
  text: string;
  action: string;
  needs: Need;
  check: () => Promise<Finding>;
}

function Check({ title, text, action, needs, check }: CheckProps): ReactElement {
  const [finding, setFinding] = useState<Finding>();
  const run = useMutation({ mutationFn: check, onSuccess: setFinding });
  return (
    <Section title={title}>
      <p className="hint">{text}</p>
      <p>
        <Button onPress={() => run.mutate()} isPending={run.isPending} needs={needs}>
          {action}
        </Button>
      </p>
      <p role="status">{finding && <Badge tone={finding.isGood ? 'good' : 'bad'}>{finding.text}</Badge>}</p>
      {run.error && <ProblemView error={run.error} />}
    </Section>
  );
}
