// Writes the result of a running job in parts of one size, so that any range of it can be read alone.
import { createHash } from 'node:crypto';
import { Refusal } from '../accounting.ts';
import { chunkBytes } from './jobs.ts';

/** The largest result, bytes. */
export const maxResultBytes = 256 * 1024 * 1024;

/** A result that is being written. */
export class ResultWriter {
  private readonly add: (position: number, bytes: Buffer) => Promise<void>;
  private readonly hash = createHash('sha256');
  private parts: Uint8Array[] = [];
  private pending = 0;
  private position = 0;
  private total = 0;

  /** `add` stores a part. */
  constructor(add: (position: number, bytes: Buffer) => Promise<void>) {
    this.add = add;
  }

  /** Appends bytes, which must not change later. Throws {@link Refusal} beyond the limit. */
  async write(bytes: Uint8Array): Promise<void> {
    this.total += bytes.length;
    if (this.total > maxResultBytes) throw new Refusal('report_too_large', `the result is larger than ${maxResultBytes >> 20} MiB`);
    this.hash.update(bytes);
    this.parts.push(bytes);
    this.pending += bytes.length;
    if (this.pending < chunkBytes) return;
    const all = Buffer.concat(this.parts);
    let from = 0;
    for (; all.length - from >= chunkBytes; from += chunkBytes) await this.add(this.position++, all.subarray(from, from + chunkBytes));
    this.keep(all.subarray(from));
  }

  /** Stores what is left; resolves to what describes the result. */
  async end(): Promise<{ bytes: number; sha256: Buffer }> {
    if (this.pending > 0) await this.add(this.position++, Buffer.concat(this.parts));
    this.keep(Buffer.alloc(0));
    return { bytes: this.total, sha256: this.hash.digest() };
  }

  private keep(rest: Buffer): void {
    this.parts = rest.length > 0 ? [Buffer.from(rest)] : [];
    this.pending = rest.length;
  }
}
