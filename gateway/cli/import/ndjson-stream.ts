// Reads an export of the API line by line, and knows whether it was cut.
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { LedgerError } from '../../clients/typescript/ledger.ts';

/** The records of an export. Throws where its last line is missing. */
export async function* linesOf<Row extends object>(response: Response): AsyncGenerator<Row> {
  const bytes = Readable.fromWeb(response.body as ReadableStream<Uint8Array>);
  for await (const line of createInterface({ input: bytes, crlfDelay: Infinity })) {
    if (line === '') continue;
    const row = JSON.parse(line) as Row | { end: true };
    if ('end' in row) return;
    yield row;
  }
  throw new LedgerError('the export was cut: run the command again', { code: 'no_answer' });
}
