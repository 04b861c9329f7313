// Directories that settings name.
import { constants } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import { BadSetting } from './settings.ts';

/** Makes the directory that a variable names where it is missing, for this user alone. Throws {@link BadSetting} where it can't be written to. */
export async function writableDirectory(variable: string, directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new BadSetting(variable, `${directory} is no directory that can be written to (${code ?? ''})`);
  }
}
