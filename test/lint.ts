// Types and lint in one process, on one program: each by itself would read and check all the files anew, which is half a minute of a core.
// Prints JSON: what is wrong with the types, and what with the rest; '' where nothing is.
import { ESLint } from 'eslint';
import ts from 'typescript';
import { root } from '../deploy/local/plan.ts';

const host = { getCanonicalFileName: (file: string) => file, getCurrentDirectory: () => root, getNewLine: () => '\n' };
const { config, error } = ts.readConfigFile(`${root}/tsconfig.json`, (file) => ts.sys.readFile(file)) as {
  config: unknown;
  error?: ts.Diagnostic;
};
const parsed = ts.parseJsonConfigFileContent(config, ts.sys, root);
const program = ts.createProgram({
  rootNames: parsed.fileNames,
  options: parsed.options,
  configFileParsingDiagnostics: [...(error ? [error] : []), ...parsed.errors],
});

const parserOptions = { projectService: false, programs: [program] };
const eslint = new ESLint({ cwd: root, overrideConfig: [{ files: ['**/*.ts'], languageOptions: { parserOptions } }] });
const results = await eslint.lintFiles(['.']);
const wrong = results.some(({ errorCount, warningCount }) => errorCount + warningCount > 0);
const formatter = await eslint.loadFormatter('stylish');

const types = ts.formatDiagnostics(ts.getPreEmitDiagnostics(program), host);
process.stdout.write(JSON.stringify({ types, lint: wrong ? await formatter.format(results) : '' }));
