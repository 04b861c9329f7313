// What an import needs of a file before anything looks at its content.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Failure } from '../failure.ts';

/** Refuses what can't be read more than once, and text that is not UTF-8: its letters would be kept wrong for ever. */
export async function checkText(file: string): Promise<void> {
  const facts = await stat(file).catch((error: Error) => {
    throw new Failure('usage', `${file} can't be read: ${error.message}`);
  });
  if (!facts.isFile()) throw new Failure('usage', `${file} is not a file`, 'It is read more than once: save what a pipe gives first.');
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let isFirst = true;
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      // CSV in UTF-16 says so at its beginning, and is read.
      if (isFirst && chunk[0] === 0xff && chunk[1] === 0xfe) return;
      isFirst = false;
      decoder.decode(chunk, { stream: true });
    }
    decoder.decode();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_ENCODING_INVALID_ENCODED_DATA')
      throw new Failure('usage', `${file} can't be read: ${(error as Error).message}`);
    throw new Failure('usage', `${file} is not UTF-8`, `Convert it, such as: iconv -f WINDOWS-1252 -t UTF-8 ${file} > utf8.csv`);
  }
}
