// Questions to a person, on standard error; secrets come from there or from standard input, never from arguments.
import { readFile } from 'node:fs/promises';
import { isCancel, password, select, text } from '@clack/prompts';
import { Failure } from './failure.ts';

/** The streams of the process. */
export interface Streams {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
}

/** Asks on a terminal; without one it fails and names the way for scripts. */
export class Prompt {
  private readonly streams: Streams;

  constructor(streams: Streams) {
    this.streams = streams;
  }

  /** `otherwise`: what a script gives instead. */
  async text(message: string, otherwise: string): Promise<string> {
    return this.answer(await text({ message, ...this.terminal(message, otherwise), validate: notEmpty }));
  }

  /** Not shown while it is typed. */
  async secret(message: string, otherwise: string): Promise<string> {
    return this.answer(await password({ message, ...this.terminal(message, otherwise), validate: notEmpty }));
  }

  /** One of these. */
  async choice(message: string, options: { value: string; label: string }[], otherwise: string): Promise<string> {
    return this.answer(await select({ message, options, ...this.terminal(message, otherwise) }));
  }

  private answer(given: string | symbol): string {
    if (isCancel(given) || typeof given === 'symbol') throw new Failure('usage', 'cancelled');
    return given;
  }

  private terminal(message: string, otherwise: string): { input: NodeJS.ReadStream; output: NodeJS.WriteStream } {
    const { stdin, stderr } = this.streams;
    if (!stdin.isTTY || !stderr.isTTY) throw new Failure('usage', `${message} is needed and there is no terminal to ask on`, otherwise);
    return { input: stdin, output: stderr };
  }
}

const notEmpty = (given: string | undefined) => (given === undefined || given === '' ? 'Something is needed here.' : undefined);

/** Everything of standard input, or of a file. */
export async function textOf(stdin: NodeJS.ReadStream, file: string): Promise<string> {
  if (file !== '-') {
    return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      throw new Failure('usage', `${file} can't be read: ${error.message}`);
    });
  }
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
