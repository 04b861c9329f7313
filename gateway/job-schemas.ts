// Jobs in answers: their schema, an example, and the record of a message.
import type { Job } from '../proto/gen/ledger/v1/audit_pb.js';
import { timeOf } from '../services/platform/ledger-records.ts';
import { id, integer, long, maybe, record, string, time, word, type Schema } from './records.ts';

const statuses = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const;

const orNull = (schema: Schema, description: string): Schema => ({ anyOf: [schema, { type: 'null' }], description });

/** The schemas by name. */
export const jobSchemas: Record<string, Schema> = {
  Job: record({
    id: id('job'),
    kind: { ...string, description: 'Of a report: its name.' },
    status: word(statuses),
    progress: record({ done: integer, total: { ...integer, description: '0: not known yet.' } }),
    error: orNull(
      {
        ...record({ code: string, message: string, line: { ...integer, description: 'Of an import: the line of the file at fault.' } }),
        required: ['code', 'message'],
      },
      'Why it failed; null: it did not.',
    ),
    result: orNull(record({ content_type: string, bytes: long, sha256: string }), 'null: there is none yet.'),
    created_at: time,
    finished_at: maybe(time),
    expires_at: { ...maybe(time), description: 'When it and its result are deleted, 7 days after its end.' },
  }),
};

/** A job that has ended, as an example. */
export const exampleJob = {
  id: 'job_01jd1zq5v8e6n9w2k4m7p3r5t8',
  kind: 'general-ledger',
  status: 'succeeded',
  progress: { done: 120_000, total: 120_000 },
  error: null,
  result: {
    content_type: 'text/csv; charset=utf-8',
    bytes: 8_400_000,
    sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  },
  created_at: '2030-01-31T12:00:00.000Z',
  finished_at: '2030-01-31T12:00:09.000Z',
  expires_at: '2030-02-07T12:00:09.000Z',
};

/** The same before it runs: the answer to its start. */
export const exampleNewJob = {
  ...exampleJob,
  status: 'queued',
  progress: { done: 0, total: 0 },
  result: null,
  finished_at: null,
  expires_at: null,
};

/** `data.job`. */
export function jobRecord(job: Job | undefined): Record<string, unknown> {
  if (!job) throw new Error('the auditor answered without a job');
  const { result, error, finishedMs, expiresMs } = job;
  return {
    id: job.id,
    kind: job.kind,
    status: job.status,
    progress: { done: Number(job.done), total: Number(job.total) },
    error: error ? { code: error.code, message: error.message, ...(error.line !== undefined && { line: Number(error.line) }) } : null,
    result: result ? { content_type: result.contentType, bytes: Number(result.bytes), sha256: result.sha256 } : null,
    created_at: timeOf(job.createdMs),
    finished_at: finishedMs === undefined ? null : timeOf(finishedMs),
    expires_at: expiresMs === undefined ? null : timeOf(expiresMs),
  };
}
