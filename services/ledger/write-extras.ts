// What few batches write besides postings: parts of reversals and holds, holds, and what velocity limits have counted.
import { bigintArray, bytesArray, plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import type { MetadataWrite, ShiftedWrite } from './dated-writes.ts';
import { stepsText, type Step } from './velocity.ts';

/** An event that changes a hold, or reverses a part of a transaction. */
export interface PartWrite {
  tenant: string;
  /** UUID of the hold or transaction. */
  of: string;
  /** Counts its parts, from 1. */
  number: number;
  /** Position of the event. */
  sequence: bigint;
}

/** A hold after a batch. */
export interface HoldWrite {
  tenant: string;
  /** Position of its `hold.created`. */
  sequence: bigint;
  /** What is stored of a hold that the batch makes; null for one that was pending before. Times are milliseconds since the Unix epoch. */
  made: {
    id: string;
    idempotencyKey: string;
    fingerprint: Buffer;
    reference: string | null;
    expiresAtMs: number | null;
    createdMs: number;
  } | null;
  status: 'pending' | 'captured' | 'voided' | 'expired';
  lines: HoldLineWrite[];
}

/** A line of a hold; minor units. */
export interface HoldLineWrite {
  /** UUID of the account. */
  account: string;
  currency: string;
  side: string;
  amount: bigint;
  captured: bigint;
  remaining: bigint;
  /** What remained when it was read. */
  from: bigint;
}

/** What a velocity limit has counted of an account or group. */
export interface VelocityWrite {
  tenant: string;
  limitId: string;
  subject: string;
  steps: readonly Step[];
}

/** Whose personal data a posting has. */
export interface SubjectWrite {
  tenant: string;
  /** UUID. */
  subject: string;
  sequence: bigint;
}

/** All that a batch writes besides: each hold, and each count of a limit, once. */
export interface Extras {
  parts: PartWrite[];
  holds: HoldWrite[];
  velocity: VelocityWrite[];
  /** What `write_dated` writes. */
  shifted: ShiftedWrite[];
  metadata: MetadataWrite[];
  /** What `write_personal` writes. */
  subjects: SubjectWrite[];
}

/** Nothing besides. */
export const noExtras: Extras = { parts: [], holds: [], velocity: [], shifted: [], metadata: [], subjects: [] };

/** Types of the parameters of `write_extras`, without the first. */
export const extraTypes = [
  ...['uuid[]', 'uuid[]', 'int[]', 'bigint[]'],
  ...['uuid[]', 'bigint[]', 'uuid[]', 'text[]', 'bytea[]', 'text[]', 'text[]', 'float8[]', 'float8[]'],
  ...['uuid[]', 'bigint[]', 'smallint[]', 'uuid[]', 'text[]', 'text[]', 'bigint[]', 'bigint[]', 'bigint[]'],
  ...['uuid[]', 'bigint[]', 'smallint[]', 'bigint[]', 'bigint[]', 'bigint[]'],
  ...['uuid[]', 'bigint[]', 'text[]'],
  ...['uuid[]', 'text[]', 'text[]', 'text[]'],
];

/** Whether there is nothing to write. */
export function isEmpty({ parts, holds, velocity, shifted, metadata, subjects }: Extras): boolean {
  return parts.length + holds.length + velocity.length + shifted.length + metadata.length + subjects.length === 0;
}

/** The parameters of `write_extras`, without the first. */
export function extraValues({ parts, holds, velocity }: Extras): unknown[] {
  const made = holds.flatMap(({ made: hold, ...rest }) => (hold ? [{ ...rest, ...hold }] : []));
  const linesOf = (all: Omit<HoldWrite, 'made'>[]) =>
    all.flatMap(({ tenant, sequence, lines }) => lines.map((line, position) => ({ tenant, sequence, position, ...line })));
  const newLines = linesOf(made);
  const before = holds.filter((hold) => hold.made === null);
  const changed = linesOf(before).filter(({ from, remaining }) => from !== remaining);
  const ended = before.filter(({ status }) => status !== 'pending');
  return [
    uuidArray(parts.map(({ tenant }) => tenant)),
    uuidArray(parts.map(({ of }) => of)),
    plainArray(parts.map(({ number }) => number)),
    bigintArray(parts.map(({ sequence }) => sequence)),
    uuidArray(made.map(({ tenant }) => tenant)),
    bigintArray(made.map(({ sequence }) => sequence)),
    uuidArray(made.map(({ id }) => id)),
    textArray(made.map(({ idempotencyKey }) => idempotencyKey)),
    bytesArray(made.map(({ fingerprint }) => fingerprint)),
    textArray(made.map(({ reference }) => reference)),
    textArray(made.map(({ status }) => status)),
    plainArray(made.map(({ expiresAtMs }) => expiresAtMs)),
    plainArray(made.map(({ createdMs }) => createdMs)),
    uuidArray(newLines.map(({ tenant }) => tenant)),
    bigintArray(newLines.map(({ sequence }) => sequence)),
    plainArray(newLines.map(({ position }) => position)),
    uuidArray(newLines.map(({ account }) => account)),
    textArray(newLines.map(({ currency }) => currency)),
    textArray(newLines.map(({ side }) => side)),
    bigintArray(newLines.map(({ amount }) => amount)),
    bigintArray(newLines.map(({ captured }) => captured)),
    bigintArray(newLines.map(({ remaining }) => remaining)),
    uuidArray(changed.map(({ tenant }) => tenant)),
    bigintArray(changed.map(({ sequence }) => sequence)),
    plainArray(changed.map(({ position }) => position)),
    bigintArray(changed.map(({ from }) => from)),
    bigintArray(changed.map(({ captured }) => captured)),
    bigintArray(changed.map(({ remaining }) => remaining)),
    uuidArray(ended.map(({ tenant }) => tenant)),
    bigintArray(ended.map(({ sequence }) => sequence)),
    textArray(ended.map(({ status }) => status)),
    uuidArray(velocity.map(({ tenant }) => tenant)),
    textArray(velocity.map(({ limitId }) => limitId)),
    textArray(velocity.map(({ subject }) => subject)),
    textArray(velocity.map(({ steps }) => stepsText(steps))),
  ];
}

/** Types of the parameters of `write_personal`, without the first. */
export const subjectTypes = ['uuid[]', 'uuid[]', 'bigint[]'];

/** The parameters of `write_personal`, without the first. */
export function subjectValues(subjects: SubjectWrite[]): unknown[] {
  return [
    uuidArray(subjects.map(({ tenant }) => tenant)),
    uuidArray(subjects.map(({ subject }) => subject)),
    bigintArray(subjects.map(({ sequence }) => sequence)),
  ];
}
