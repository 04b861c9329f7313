// Asks a witness for its cosignature of a checkpoint: https://c2sp.org/tlog-witness, https://c2sp.org/tlog-cosignature.
import { verify } from 'node:crypto';
import { readNote, signatureLine, type NoteSignature } from './note.ts';
import type { Witness } from './witness-list.ts';

/** Why a witness has not cosigned. */
export class NotCosigned extends Error {
  /** Whether it is about this log; otherwise the witness can't be reached, or is not well. */
  readonly ofLog: boolean;

  constructor(message: string, ofLog: boolean) {
    super(message);
    this.ofLog = ofLog;
  }
}

/** What is to be cosigned. */
export interface ToCosign {
  /** Events of the log. */
  size: number;
  /** C2SP signed note. */
  note: string;
  /** Proves that the log begins with that of an earlier size. */
  prove: (old: number) => Promise<Buffer[]>;
}

const timeoutMs = 10_000;
const maxAnswerBytes = 65_536;

/**
 * The line that joins the note. `old`: the size that the witness has cosigned last, as far as is known; it says where it is another. Throws
 * {@link NotCosigned}.
 */
export async function cosign(witness: Witness, { size, note, prove }: ToCosign, old: number, closed: AbortSignal): Promise<string> {
  const first = await submit(witness, note, old, old === 0 ? [] : await prove(old), closed);
  if (first.status !== 409) return lineOf(witness, note, first);
  const known = Number(/^(0|[1-9][0-9]{0,14})\n$/.exec(first.text)?.[1]);
  if (Number.isNaN(known)) throw new NotCosigned('another root of the same size is cosigned already', true);
  if (known > size) throw new NotCosigned(`${known} events are cosigned already, and the newest checkpoint here has ${size}`, true);
  return lineOf(witness, note, await submit(witness, note, known, known === 0 ? [] : await prove(known), closed));
}

interface Submitted {
  status: number;
  text: string;
}

async function submit({ url }: Witness, note: string, old: number, proof: Buffer[], closed: AbortSignal): Promise<Submitted> {
  const body = [`old ${old}`, ...proof.map((hash) => hash.toString('base64')), '', note].join('\n');
  const signal = AbortSignal.any([closed, AbortSignal.timeout(timeoutMs)]);
  try {
    const answer = await fetch(`${url}/add-checkpoint`, { method: 'POST', body, signal, redirect: 'error' });
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const part of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
      length += part.length;
      if (length > maxAnswerBytes) throw new Error('the answer is too long');
      parts.push(part);
    }
    return { status: answer.status, text: Buffer.concat(parts).toString() };
  } catch (error) {
    const { message, cause } = error as Error;
    throw new NotCosigned(cause instanceof Error ? `${message}: ${cause.message}` : message, false);
  }
}

function lineOf(witness: Witness, note: string, { status, text: answer }: Submitted): string {
  if (status !== 200) throw new NotCosigned(`it answers ${status}`, status < 500 && status !== 429);
  const own = signaturesIn(note + answer).find((each) => isOf(witness, each));
  if (!own || !isCosignature(witness, readNote(note).text, own.signature))
    throw new NotCosigned('its answer has no cosignature of its key', false);
  return signatureLine(own);
}

function signaturesIn(note: string): NoteSignature[] {
  try {
    return readNote(note).signatures;
  } catch {
    return [];
  }
}

/** Whether a signature has the name and id of a witness's key. */
export const isOf = ({ name, keyId }: Witness, signature: NoteSignature): boolean => signature.name === name && signature.keyId === keyId;

/** Whether a signature with its time is that of a witness. `text`: of the note. */
function isCosignature({ key }: Witness, text: string, signature: Buffer): boolean {
  if (signature.length !== 72) return false;
  const signed = `cosignature/v1\ntime ${signature.readBigUInt64BE()}\n${text}`;
  return verify(null, Buffer.from(signed), key, signature.subarray(8));
}
