// Runs a program of another ledger and gives what it prints.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Failure } from '../failure.ts';

const run = promisify(execFile);
const maxBytes = 1 << 30;

/** The output of a program, which has no fault to report. `otherwise`: what to do where it is not installed. */
export async function readByProgram(program: string, args: string[], otherwise: string): Promise<string> {
  try {
    const { stdout, stderr } = await run(program, args, { maxBuffer: maxBytes });
    // bean-query leaves out what it can't read, and ends well.
    if (stderr.trim() === '') return stdout;
    throw Object.assign(new Error(), { stderr });
  } catch (error) {
    const { code, stderr } = error as NodeJS.ErrnoException & { stderr?: string };
    if (code === 'ENOENT') throw new Failure('usage', `${program} is not installed`, otherwise);
    throw new Failure('refused', `${program} can't read the file: ${(stderr ?? (error as Error).message).trim()}`);
  }
}
