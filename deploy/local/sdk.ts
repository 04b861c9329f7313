// `npm run sdk -- python|go|typescript|cli`: makes a package in .data/sdk: a client from the OpenAPI document and the layer over its types, or the command line.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { openApiDocument } from '../../gateway/clients/document.ts';
import { goResources } from '../../gateway/clients/go-resources.ts';
import { withoutTransport, type ClientDocument } from '../../gateway/clients/operations.ts';
import { pythonResources } from '../../gateway/clients/python-resources.ts';
import { root } from './plan.ts';

const generators = { python: 'openapi-python-client==0.29.1', go: 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2' };

class Failure extends Error {}

type Language = 'python' | 'go' | 'typescript';

function run(program: string, args: string[], cwd = root): void {
  const { status, error, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8', maxBuffer: 1 << 26 });
  if (error) throw new Failure(`${program} cannot be run: ${error.message}`);
  if (status !== 0) throw new Failure(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`);
}

/** Copies the hand-written files of a language; tests stay. */
function copyLayer(language: Language, output: string): void {
  cpSync(join(root, 'gateway/clients', language), output, { recursive: true, filter: (file) => !/\.test\.ts$|__pycache__/.test(file) });
}

const manifestOf = () =>
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string; devDependencies: Record<string, string> };

/** Changes the text of a file. */
function edit(file: string, change: (text: string) => string): void {
  writeFileSync(file, change(readFileSync(file, 'utf8')));
}

/** Writes the document for a generator, and answers its path. */
async function writeDocument(output: string): Promise<{ file: string; document: ClientDocument }> {
  const document = (await openApiDocument()) as unknown as ClientDocument;
  const file = join(output, 'openapi.json');
  writeFileSync(file, JSON.stringify(withoutTransport(document, true)));
  return { file, document };
}

async function python(output: string, tools: string): Promise<void> {
  const environment = join(tools, generators.python.replace('==', '-'));
  const generator = join(environment, 'bin/openapi-python-client');
  if (!existsSync(generator)) {
    run('python3', ['-m', 'venv', environment]);
    run(join(environment, 'bin/pip'), ['install', '--quiet', '--disable-pip-version-check', generators.python]);
  }
  const { file, document } = await writeDocument(output);
  const [layer, module] = [join(output, 'layer'), join(output, 'ledger_client')];
  copyLayer('python', layer);
  run(generator, [
    'generate',
    '--path',
    file,
    '--output-path',
    module,
    '--overwrite',
    '--meta',
    'none',
    '--config',
    join(layer, 'config.yaml'),
  ]);
  for (const unused of ['api', 'client.py', 'errors.py']) rmSync(join(module, unused), { recursive: true });
  for (const name of readdirSync(layer)) {
    if (name !== 'config.yaml') cpSync(join(layer, name), join(name.endsWith('.py') && name !== 'example.py' ? module : output, name));
  }
  // A word that a newer server answers stays a text. Words of one kind only tell the members of a union apart.
  for (const name of readdirSync(join(module, 'models'))) {
    const acceptUnknown = (text: string) =>
      text.replace(/(_VALUES: set\[(\w+)\] = \{ '[^']*', '.*) {4}raise TypeError\(.*\)\n$/s, '$1    return cast($2, value)\n');
    edit(join(module, 'models', name), (text) => {
      const accepting = acceptUnknown(text);
      return accepting === text ? text : accepting.replace('import Literal', 'import Literal, cast');
    });
  }
  edit(join(output, 'pyproject.toml'), (text) => text.replace(/^version = .*$/m, `version = "${manifestOf().version}"`));
  writeFileSync(join(module, 'resources.py'), pythonResources(document));
  writeFileSync(join(module, 'py.typed'), '');
  rmSync(layer, { recursive: true });
}

async function go(output: string, tools: string): Promise<void> {
  const { file, document } = await writeDocument(output);
  copyLayer('go', output);
  const binaries = join(tools, 'oapi-codegen-v2.8.2');
  const generator = join(binaries, 'oapi-codegen');
  if (!existsSync(generator)) {
    const { status, error, stderr } = spawnSync('go', ['install', generators.go], {
      env: { ...process.env, GOBIN: binaries },
      encoding: 'utf8',
    });
    if (status !== 0) throw new Failure(`go install ${generators.go} failed: ${error?.message ?? stderr}`);
  }
  run(generator, ['-config', 'config.yaml', '-o', 'models.go', file], output);
  writeFileSync(join(output, 'resources.go'), goResources(document));
  run('gofmt', ['-w', 'resources.go'], output);
  rmSync(join(output, 'config.yaml'));
}

/** JavaScript and types: Node strips no types below node_modules. */
async function typescript(output: string): Promise<void> {
  const source = join(root, 'gateway/clients/typescript');
  const options = ['--outDir', join(output, 'dist'), '--rootDir', source, '--declaration', '--module', 'nodenext', '--target', 'es2023'];
  const checks = [
    '--lib',
    'esnext,dom,dom.iterable',
    '--types',
    'node',
    '--strict',
    '--skipLibCheck',
    '--rewriteRelativeImportExtensions',
    '--ignoreConfig',
  ];
  run(process.execPath, [
    join(root, 'node_modules/typescript/bin/tsc'),
    ...options,
    ...checks,
    ...['ledger.ts', 'webhooks.ts'].map((name) => join(source, name)),
  ]);
  const { version, devDependencies } = manifestOf();
  const exported = (name: string) => ({ types: `./dist/${name}.d.ts`, default: `./dist/${name}.js` });
  const manifest = {
    ...{ name: 'ledger-client', version, description: 'Client of the ledger', license: 'UNLICENSED', type: 'module' },
    ...{ engines: { node: '>=22' }, files: ['dist'] },
    exports: { '.': exported('ledger'), './webhooks': exported('webhooks') },
    dependencies: Object.fromEntries(['eventsource-parser', 'standardwebhooks'].map((name) => [name, devDependencies[name]])),
  };
  writeFileSync(join(output, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  const asPackage = (text: string) =>
    text.replaceAll(/'\.\/(ledger|webhooks)\.ts'/g, (_, name) => `'${manifest.name}${name === 'ledger' ? '' : '/webhooks'}'`);
  for (const name of ['README.md', 'example.ts']) {
    cpSync(join(source, name), join(output, name));
    edit(join(output, name), asPackage);
  }
}

const cli = (output: string) => run(process.execPath, [join(root, 'gateway/cli/build.ts'), output]);

const makers = { python, go, typescript, cli } satisfies Record<string, (output: string, tools: string) => Promise<void> | void>;

// As those of .ci/tools.
const tools = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'ledger-tools');
const [language = ''] = process.argv.slice(2);
const output = resolve(root, process.env['DATA_DIR'] ?? '.data', 'sdk', language);
try {
  if (!Object.hasOwn(makers, language)) throw new Failure(`name one of ${Object.keys(makers).join(', ')}`);
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  await makers[language as keyof typeof makers](output, tools);
  process.stdout.write(`${output}\n`);
  process.exit(0);
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
