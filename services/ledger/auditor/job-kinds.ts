// What a kind of job is: its scope, the check of its parameters, and what writes its result.
import type { Scope } from '../../platform/roles.ts';
import type { Connections } from '../../platform/postgres.ts';

/** A job that is running. */
export interface RunningJob {
  /** UUIDs. */
  tenant: string;
  id: string;
  /** JSON, as it was checked at the start. */
  parameters: string;
  /** Connections for long reads. */
  connections: Connections;
  /** Aborted when the job was cancelled, its lease was lost or the process stops: what it writes would be refused. */
  signal: AbortSignal;
  /** Appends to the result; resolves when more may be written. Throws a Refusal beyond 256 MiB. */
  write: (bytes: Uint8Array) => Promise<void>;
  /** Reports how much is done. */
  progress: (done: number, total: number) => void;
}

/** A kind of job. */
export interface JobKind {
  /** That a start needs. */
  scope: Scope;
  /** Its run only reads, so that a standby may answer. */
  isReadOnly?: true;
  /** Checks the parameters (JSON) of a start of a tenant (UUID). Throws a Refusal. */
  check: (connections: Connections, tenant: string, parameters: string) => Promise<unknown>;
  /** Writes the result and returns its content type. It may run again after a crash. A Refusal is the job's error. */
  run: (job: RunningJob) => Promise<string>;
}

/** Kinds by their names. */
export type JobKinds = Readonly<Record<string, JobKind>>;
