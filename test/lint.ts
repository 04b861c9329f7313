// Types and lint in one process, on the same programs: each by itself would read and check all the files anew, which is half a minute of a core.
// Prints JSON: what is wrong with the types, and what with the rest; '' where nothing is.
import { join } from 'node:path';
import { ESLint } from 'eslint';
import ts from 'typescript';
import { root } from '../deploy/local/plan.ts';

const host = { getCanonicalFileName: (file: string) => file, getCurrentDirectory: () => root, getNewLine: () => '\n' };

/** The program of a folder's tsconfig.json. */
function programOf(folder: string): ts.Program {
  const directory = join(root, folder);
  const { config, error } = ts.readConfigFile(join(directory, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as {
    config: unknown;
    error?: ts.Diagnostic;
  };
  const parsed = ts.parseJsonConfigFileContent(config, ts.sys, directory);
  return ts.createProgram({
    rootNames: parsed.fileNames,
    options: parsed.options,
    configFileParsingDiagnostics: [...(error ? [error] : []), ...parsed.errors],
  });
}

const programs = ['.', 'gateway/console'].map(programOf);
const parserOptions = { projectService: false, programs };
const eslint = new ESLint({ cwd: root, overrideConfig: [{ files: ['**/*.ts', '**/*.tsx'], languageOptions: { parserOptions } }] });
const results = await eslint.lintFiles(['.']);
const wrong = results.some(({ errorCount, warningCount }) => errorCount + warningCount > 0);
const formatter = await eslint.loadFormatter('stylish');

const types = programs.map((program) => ts.formatDiagnostics(ts.getPreEmitDiagnostics(program), host)).join('');
process.stdout.write(JSON.stringify({ types, lint: wrong ? await formatter.format(results) : '' }));
