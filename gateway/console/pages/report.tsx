// One report: its parameters, its figures, and how to print, download or make it again.
import { useMutation } from '@tanstack/react-query';
import type { ReactElement } from 'react';
import { useParams } from 'wouter';
import type {
  AccountsReport,
  AccountStatementReport,
  AsRecorded,
  GeneralLedgerReport,
  JournalReport,
  Ledger,
  Listing,
} from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button, MenuButton } from '../parts/button.tsx';
import { Code } from '../parts/copy.tsx';
import { save } from '../parts/files.ts';
import { useFilters } from '../parts/links.ts';
import { formatCount } from '../parts/money.ts';
import { Page } from '../parts/page.tsx';
import { Empty, Loaded, ProblemView, problemOf } from '../parts/problem.tsx';
import { formatDay, Time } from '../parts/time.tsx';
import { toast } from '../parts/toast.tsx';
import { usePages, useRead, useTenant, useWrite } from '../tenant.tsx';
import { NotFoundPage } from './not-found.tsx';
import { AccountsTables } from './report-accounts.tsx';
import { JournalTable, StatementTable } from './report-entries.tsx';
import { kinds, parameterNames, ParametersForm, queryOf, starts, type Kind, type Parameters } from './report-parameters.tsx';

const words = texts.report;

type Query = Record<string, string | number | boolean>;
interface Entries {
  report: AccountStatementReport | GeneralLedgerReport | JournalReport;
}

/** The reports of the client; what one takes and answers depends on its kind. */
function methodsOf({ reports }: Ledger): Record<Kind['method'] | (typeof starts)[Kind['method']], (given: object) => unknown> {
  return reports as never;
}

/** The page of a report. */
export function ReportPage(): ReactElement {
  const { report = '' } = useParams();
  const kind = kinds[report];
  return kind ? <Report key={report} name={report} kind={kind} /> : <NotFoundPage />;
}

function Report({ name, kind }: { name: string; kind: Kind }): ReactElement {
  const [parameters, set] = useFilters(parameterNames);
  const query = queryOf(kind, parameters);
  const needsAccount = kind.method === 'accountStatement' && parameters.account_code === undefined;
  const { tenant } = useTenant();
  return (
    <Page
      title={words.names[name] ?? name}
      parent={{ href: '/reports', label: words.title }}
      lead={
        <>
          <span className="print-only">{tenant.name} · </span>
          <PeriodText query={query} />
        </>
      }
      actions={needsAccount ? undefined : <Actions name={name} kind={kind} query={query} />}
    >
      <ParametersForm kind={kind} parameters={parameters} set={set} />
      {needsAccount ? (
        <Empty title={words.chooseAccount}>{words.chooseAccountText}</Empty>
      ) : kind.takes.includes('depth') ? (
        <OfAccounts kind={kind} query={query} parameters={parameters} set={set} />
      ) : (
        <OfEntries kind={kind} query={query} parameters={parameters} set={set} />
      )}
    </Page>
  );
}

function PeriodText({ query }: { query: Query }): ReactElement | null {
  const day = (name: string) => formatDay(String(query[name]));
  if (query['from'] !== undefined && query['to'] !== undefined) return <>{`${day('from')} – ${day('to')}`}</>;
  if (query['as_of'] !== undefined) return <>{`${words.asOf} ${day('as_of')}`}</>;
  return <>{words.today}</>;
}

function Actions({ name, kind, query }: { name: string; kind: Kind; query: Query }): ReactElement {
  const { ledger, tenant } = useTenant();
  const download = useMutation({
    mutationFn: async (format: string) => {
      const response = (await methodsOf(ledger)[kind.method]({ ...query, format, timeoutMs: 60_000 })) as Response;
      await save(response, `${tenant.slug}-${name}.${format}`);
    },
    onError: (error) => toast(problemOf(error).message),
  });
  const items = Object.entries(words.formats).map(([id, label]) => ({ id, label, onAction: () => download.mutate(id) }));
  return (
    <>
      <Button onPress={() => print()}>{words.print}</Button>
      <MenuButton items={items}>{words.download}</MenuButton>
    </>
  );
}

interface ContentProps {
  kind: Kind;
  query: Query;
  parameters: Parameters;
  set: (changed: Parameters) => void;
}

function OfAccounts({ kind, query, ...given }: ContentProps): ReactElement {
  const read = useRead(['report', kind.method, query], async (ledger, options) => {
    const answer = (await methodsOf(ledger)[kind.method]({ ...query, ...options })) as { report: AccountsReport };
    return answer.report;
  });
  if (isTooLarge(read.error)) return <TooLarge kind={kind} query={query} error={read.error} />;
  return (
    <Loaded query={read} lines={12}>
      {(report) => (
        <>
          {report.lines.length === 0 ? <Empty title={words.empty}>{words.emptyText}</Empty> : <AccountsTables report={report} />}
          <Recorded at={report.as_recorded} {...given} />
        </>
      )}
    </Loaded>
  );
}

function OfEntries({ kind, query, ...given }: ContentProps): ReactElement {
  const pages = usePages<Entries, Entries['report']>(
    ['report', kind.method, query],
    (ledger, options) => methodsOf(ledger)[kind.method]({ ...query, ...options }) as Listing<Entries, Entries['report']>,
    ({ report }) => [report],
  );
  const [first] = pages.items;
  if (isTooLarge(pages.query.error)) return <TooLarge kind={kind} query={query} error={pages.query.error} />;
  return (
    <Loaded query={pages.query} lines={12}>
      {() => (
        <>
          <EntriesTables kind={kind} reports={pages.items} isComplete={!pages.more && !pages.isLoadingMore} />
          {(pages.more ?? pages.isLoadingMore) && (
            <div className="more-lines no-print">
              <Button onPress={pages.more} isPending={pages.isLoadingMore}>
                {texts.common.loadMore}
              </Button>
            </div>
          )}
          {first && <Recorded at={first.as_recorded} {...given} />}
        </>
      )}
    </Loaded>
  );
}

function EntriesTables({ kind, reports, isComplete }: { kind: Kind; reports: Entries['report'][]; isComplete: boolean }): ReactElement {
  const empty = <Empty title={words.empty}>{words.emptyText}</Empty>;
  if (kind.method === 'journal') {
    const lines = (reports as JournalReport[]).flatMap((report) => report.lines);
    return lines.length === 0 ? empty : <JournalTable lines={lines} />;
  }
  const statements =
    kind.method === 'generalLedger'
      ? (reports as GeneralLedgerReport[]).flatMap((report) => report.statements)
      : (reports as AccountStatementReport[]);
  const joined: typeof statements = [];
  // A page that begins within a statement repeats its heading.
  for (const each of statements) {
    const last = joined.at(-1);
    if (last?.account_code === each.account_code && last.currency === each.currency)
      joined[joined.length - 1] = { ...last, lines: [...last.lines, ...each.lines] };
    else joined.push(each);
  }
  if (joined.length === 0) return empty;
  return (
    <>
      {joined.map((statement, index) => (
        <StatementTable
          key={`${statement.account_code} ${statement.currency}`}
          statement={statement}
          isComplete={isComplete || index < joined.length - 1}
        />
      ))}
    </>
  );
}

/** From which state of the log the figures are, and how to have them again. */
function Recorded({
  at: { sequence, hash, at },
  parameters,
  set,
}: { at: AsRecorded } & Pick<ContentProps, 'parameters' | 'set'>): ReactElement {
  const isKept = parameters.known_sequence !== undefined;
  return (
    <footer className="recorded">
      <p>
        {isKept ? words.againText : words.asRecorded} {formatCount(sequence)}
        {at !== null && (
          <>
            {', '}
            <Time time={at} />
          </>
        )}
      </p>
      {hash !== null && <Code text={hash} isShort />}
      <span className="no-print">
        <Button kind="quiet" onPress={() => set({ known_sequence: isKept ? '' : String(sequence) })}>
          {isKept ? words.newest : words.again}
        </Button>
      </span>
    </footer>
  );
}

const isTooLarge = (error: unknown): boolean => error !== null && problemOf(error).code === 'report_too_large';

function TooLarge({ kind, query, error }: { kind: Kind; query: Query; error: unknown }): ReactElement {
  const begin = useWrite(
    async (ledger) => methodsOf(ledger)[starts[kind.method]]({ ...query, format: 'xlsx' }),
    () => toast(words.jobStarted),
  );
  return (
    <>
      <ProblemView error={begin.error ?? error} />
      <Empty
        title={words.tooLarge}
        action={
          <Button kind="primary" onPress={() => begin.mutate(undefined)} isPending={begin.isPending} needs="reports:read">
            {words.asJob}
          </Button>
        }
      />
    </>
  );
}
