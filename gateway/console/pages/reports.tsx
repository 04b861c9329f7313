// The list of reports, and of the jobs that make large ones.
import { useMutation } from '@tanstack/react-query';
import type { ReactElement } from 'react';
import { Link } from 'wouter';
import type { Job } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { save } from '../parts/files.ts';
import { formatCount } from '../parts/money.ts';
import { Badge, Page, Section } from '../parts/page.tsx';
import { problemOf } from '../parts/problem.tsx';
import { Sheet, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { toast } from '../parts/toast.tsx';
import { usePages, useTenant, useWrite } from '../tenant.tsx';
import { kinds } from './report-parameters.tsx';

const words = texts.report;

/** All reports, and the jobs. */
export function ReportsPage(): ReactElement {
  return (
    <Page title={words.title} lead={words.lead}>
      <ul className="cards">
        {Object.keys(kinds).map((name) => (
          <li key={name}>
            <Link className="card" href={`/reports/${name}`}>
              <strong>{words.names[name]}</strong>
              <span>{words.leads[name]}</span>
            </Link>
          </li>
        ))}
      </ul>
      <Jobs />
    </Page>
  );
}

const isOver = ({ status }: Job): boolean => status !== 'queued' && status !== 'running';

function Jobs(): ReactElement | null {
  const { items } = usePages(
    ['jobs'],
    (ledger, options) => ledger.jobs.list(options),
    ({ jobs }) => jobs,
    { everyMs: 5_000 },
  );
  if (items.length === 0) return null;
  const columns: ColumnOf<Job>[] = [
    { id: 'kind', label: texts.common.type, cell: ({ kind }) => words.names[kind] ?? kind },
    { id: 'created', label: texts.common.created, cell: ({ created_at }) => <Time time={created_at} /> },
    { id: 'status', label: texts.common.status, cell: (job) => <JobStatus job={job} /> },
    {
      id: 'size',
      label: words.size,
      isNumber: true,
      cell: ({ result }) => (result ? `${formatCount(Math.ceil(result.bytes / 1024))} KiB` : ''),
    },
    { id: 'actions', label: texts.common.actions, cell: (job) => <JobActions job={job} /> },
  ];
  return (
    <Section title={words.jobs}>
      <p className="hint">{words.jobsText}</p>
      <Sheet label={words.jobs} columns={columns} items={items} idOf={({ id }) => id} />
    </Section>
  );
}

const tones = { queued: 'plain', running: 'plain', succeeded: 'good', failed: 'bad', cancelled: 'warn' } as const;

function JobStatus({ job: { status, progress, error } }: { job: Job }): ReactElement {
  const share = status === 'running' && progress.total > 0 ? ` ${Math.floor((100 * progress.done) / progress.total)} %` : '';
  return (
    <>
      <Badge tone={tones[status]}>
        {words.jobStatuses[status]}
        {share}
      </Badge>
      {error && <small> {error.message}</small>}
    </>
  );
}

function JobActions({ job }: { job: Job }): ReactElement {
  const { ledger, tenant } = useTenant();
  const download = useMutation({
    mutationFn: async () => {
      const extension = { csv: 'csv', pdf: 'pdf', sheet: 'xlsx', json: 'json', ndjson: 'ndjson' };
      const type = job.result?.content_type ?? '';
      const [, end = 'bin'] = Object.entries(extension).find(([part]) => type.includes(part)) ?? [];
      await save(await ledger.jobs.result(job.id, { timeoutMs: 600_000 }), `${tenant.slug}-${job.kind}.${end}`);
    },
    onError: (error) => toast(problemOf(error).message),
  });
  const remove = useWrite((ledger) => ledger.jobs.delete(job.id));
  return (
    <span className="row-actions">
      {job.result && (
        <Button onPress={() => download.mutate()} isPending={download.isPending}>
          {words.downloadJob}
        </Button>
      )}
      <Button kind="quiet" onPress={() => remove.mutate(undefined)} isPending={remove.isPending}>
        {isOver(job) ? words.removeJob : words.cancelJob}
      </Button>
    </span>
  );
}
