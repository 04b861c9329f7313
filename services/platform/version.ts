// The version of the sources, as package.json has it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const found = JSON.parse(readFileSync(join(import.meta.dirname, '..', '..', 'package.json'), 'utf8')) as { version: string };

/** The version of all processes, the API's document and the command lines. */
export const version = found.version;
