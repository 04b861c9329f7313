// The version of the sources, as package.json has it.
import { readFileSync } from 'node:fs';

const { version: found } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };

/** The version of all processes, the API's document and the command lines. */
export const version = found;
