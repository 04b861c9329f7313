// What the files of the tree say: what they import, and which settings they read.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from '../deploy/local/plan.ts';

/** The text of a file, which is named from the root, as everywhere here. */
export const text = (file: string): string => readFileSync(join(root, file), 'utf8');

/** Only what is code. */
export function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}

/** What a file imports: `node:…`, a package's name, or a path from the root. `new URL('./x.ts', …)` names a worker's file. */
export function imports(file: string): string[] {
  const source = withoutComments(text(file));
  const found = [
    ...source.matchAll(/^(?:import|export)\s[^;'"`]*?from\s+'([^']+)'/gm),
    ...source.matchAll(/^import\s+'([^']+)'/gm),
    ...source.matchAll(/\bimport\('([^']+)'\)/g),
    ...source.matchAll(/\bnew URL\('(\.[^']+)'/g),
  ].map((match) => match[1] ?? '');
  return [...new Set(found)].map((name) => (name.startsWith('.') ? join(dirname(file), name) : name));
}

/** Whether that is a part of Node. */
export const isBuiltIn = (name: string): boolean => name.startsWith('node:');

/** Whether that is a package, rather than a part of Node or a file of the tree. */
export const isPackage = (name: string): boolean => !isBuiltIn(name) && !/^(services|gateway|deploy|test|proto)\//.test(name);

/** The environment variables that a file reads. */
export function variablesIn(file: string): string[] {
  return [...text(file).matchAll(/\b(?:[sS]ettings\.[a-zA-Z]+|quota)\(\s*'([A-Z][A-Z0-9_]*)'/g)].map((match) => match[1] ?? '');
}
