// A ratchet: small rules about the tree that no other tool checks.
import { readdirSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, join, relative } from 'node:path';
import { root } from '../deploy/local/plan.ts';
import { imports, isBuiltIn, isPackage, text, variablesIn, withoutComments } from './sources.ts';

const files = ['services', 'gateway', 'deploy', 'test']
  .flatMap((top) => readdirSync(join(root, top), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)))
  // The console is a program of its own for the browser, the client's code is generated.
  .filter((file) => !/^gateway\/(console|clients\/typescript\/gen)\//.test(file))
  .sort();
const source = new Map(files.map((file) => [file, text(file)]));
const isTest = (file: string) => file.startsWith('test/') || file.endsWith('.test.ts');
const product = files.filter((file) => !isTest(file));

function packageOf(name: string): string {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
}

const under =
  (...places: string[]) =>
  (name: string) =>
    places.some((place) => name.startsWith(place));

/** What a file may import; the first matching pattern is its rule. */
const importRules: [RegExp, (name: string) => boolean][] = [
  [
    /^services\/(ledger\/(accounting|posting-rules|matching|velocity|effective-time)|identity\/credentials|platform\/(money|json|calendar)|notifier\/webhook)\.ts$/,
    under(
      ...['services/platform/money.ts', 'services/platform/roles.ts', 'services/platform/calendar.ts'],
      ...['services/ledger/accounting.ts', 'services/ledger/velocity.ts'],
    ),
  ],
  // The ledger derives balance events for Kafka, the notifier for itself. REST and webhooks have the same records.
  [
    /^services\/platform\/(derived-events|payment-records|books-records|proof-records|ledger-records)\.ts$/,
    under('services/platform/', 'proto/gen/ledger/v1/events_pb.js', 'proto/gen/ledger/v1/ledger_pb.js'),
  ],
  [/^services\/platform\//, under('services/platform/', 'proto/gen/grpc/', 'proto/gen/google/', 'proto/gen/platform/')],
  [/^services\/identity\//, under('services/identity/', 'services/platform/', 'proto/gen/')],
  [/^services\/ledger\//, under('services/ledger/', 'services/platform/', 'proto/gen/')],
  [/^services\/notifier\//, under('services/notifier/', 'services/platform/', 'proto/gen/')],
  // Generators read the document; what runs on a customer's machine knows the API alone.
  [/^gateway\/clients\/[a-z-]+\.ts$/, under('gateway/', 'services/platform/')],
  [/^gateway\/clients\//, under('gateway/clients/')],
  [/^gateway\/cli\//, under('gateway/cli/', 'gateway/clients/')],
  [/^gateway\//, under('gateway/', 'services/platform/', 'proto/gen/')],
  [/^deploy\//, under('deploy/', 'services/platform/', 'gateway/clients/')],
];

const entryPoints = [
  /^services\/[a-z]+\/(main|cli|auditor)\.ts$/,
  /^gateway\/(main|cli\/(main|build|generate)|docs\/build|console\/build|clients\/(generate|.*\/(ledger|example|receiver)))\.ts$/,
  /^deploy\/(local\/(start|operator|kafka|demo|sdk)|monitoring\/generate)\.ts$/,
];
/** What is built or run from a checkout or a package of its own, with development dependencies; the image runs none of it. */
const notInImage = /^(gateway\/(cli|clients|console)\/|gateway\/docs\/.*\.ts$|deploy\/monitoring\/|deploy\/local\/(demo|sdk)(\.ts$|\/))/;
const testEntryPoints = [
  /\.test\.ts$/,
  /^test\/(environment|setup|teardown|summary-line|longest-first|check|lint)\.ts$/,
  /^test\/(bench|conformance|proof)\/main\.ts$/,
];

/** Words that only this repository used, or that treat software and organizations as persons: the glossary has the standard ones. */
const privateWords = /\b(house|strangers?|whoever|he|his|him|himself|told|heard|beside|lanes?|somebody|yardstick|nemesis)\b/gi;

/** TypeScript files over 350 lines, and why. Tests may have 400. */
const longFiles: Record<string, string> = {
  'services/ledger/migrations/0001-ledger.ts': 'the schema in one migration',
  'services/notifier/consumer.test.ts': 'cases of one transaction, on one database',
  'gateway/fields.test.ts': 'one table of fields',
  'services/ledger/reads.test.ts': 'all reads, on one set of postings',
};

/** Every file that can be reached from these. */
function reachable(from: string[]): Set<string> {
  const seen = new Set<string>();
  const waiting = [...from];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file) || !source.has(file)) continue;
    seen.add(file);
    waiting.push(...imports(file));
  }
  return seen;
}

const fits = (patterns: RegExp[]) => (file: string) => patterns.some((pattern) => pattern.test(file));

describe('the tree', () => {
  test('each part imports only what it may', () => {
    const pure = importRules[0]?.[0];
    const forbidden = product.flatMap((file) => {
      const rule = importRules.find(([pattern]) => pattern.test(file));
      const allowed = (name: string) => isBuiltIn(name) || rule?.[1](name) === true || (isPackage(name) && !pure?.test(file));
      return imports(file)
        .filter((name) => !allowed(name))
        .map((name) => `${file} imports ${name}`);
    });
    expect(forbidden).toEqual([]);
  });

  test('a relative import names a file that exists, a built-in module has its prefix', () => {
    const wrong = files.flatMap((file) =>
      imports(file)
        .filter((name) =>
          isPackage(name)
            ? builtinModules.includes(name)
            : !isBuiltIn(name) && !/(^proto|\/typescript)\/gen\//.test(name) && !source.has(name),
        )
        .map((name) => `${file} imports ${name}`),
    );
    expect(wrong).toEqual([]);
  });

  test('no file of the product imports, by whatever way, one that imports it', () => {
    expect(product.filter((file) => reachable(imports(file)).has(file))).toEqual([]);
  });

  test('what runs in production needs no development dependency', () => {
    const { dependencies, optionalDependencies } = JSON.parse(text('package.json')) as Record<string, object>;
    const installed = new Set(Object.keys({ ...dependencies, ...optionalDependencies }));
    const wrong = product
      .filter((file) => !notInImage.test(file))
      .flatMap((file) =>
        imports(file)
          .filter((name) => isPackage(name) && !installed.has(packageOf(name)))
          .map((name) => `${file} imports ${name}`),
      );
    expect(wrong).toEqual([]);
  });

  test('every file can be reached from a process or a test, and product code from a process', () => {
    const alive = reachable(files.filter(fits(entryPoints)));
    const tested = reachable(files.filter(fits(testEntryPoints)));
    expect(files.filter((file) => (isTest(file) ? !tested.has(file) : !alive.has(file)))).toEqual([]);
  });

  test('no file only passes on what others export, and only what a tool reads is a default export', () => {
    const jestReads = fits([/^test\/(environment|setup|teardown|summary-line|longest-first)\.ts$/]);
    const wrong = files.filter((file) => {
      const code = withoutComments(source.get(file) ?? '');
      const passesOn = /^export\s+(type\s+)?(\*|\{[^}]*\})[^;'"`]*from\b/m.test(code);
      const ownExport = /^export\s+(async\s+|abstract\s+|declare\s+)*(function|class|const|let|interface|type\s+\w|enum)/m.test(code);
      return /^export\s+\*/m.test(code) || (passesOn && !ownExport) || (/^export default\b/m.test(code) && !jestReads(file));
    });
    expect(wrong).toEqual([]);
  });

  test('only main, settings and what an operator starts read the environment', () => {
    const readers = fits([
      /^services\/[a-z]+\/(main|cli|auditor|config)\.ts$/,
      /^services\/platform\/settings\.ts$/,
      /^gateway\/(main|config|cli\/main|clients\/.*\/example)\.ts$/,
      /^deploy\//,
    ]);
    expect(product.filter((file) => !readers(file) && /\bprocess\.env\b/.test(withoutComments(source.get(file) ?? '')))).toEqual([]);
  });

  test('a file is named after what it is about, and says so in its first line', () => {
    const patterns = /(^|-)(utils?|common|helpers?|misc|shared|service|repository|manager|types|index)$/;
    const named = (file: string) =>
      /^([0-9]{4}-)?[a-z][a-z0-9-]*(\.test)?\.ts$/.test(basename(file)) && !patterns.test(basename(file, '.ts'));
    expect(files.filter((file) => !named(file))).toEqual([]);
    expect(product.filter((file) => !source.get(file)?.startsWith('// '))).toEqual([]);
  });

  test('product code and documents use the words of the glossary', () => {
    const documents = readdirSync(join(root, 'gateway/docs'), { recursive: true, encoding: 'utf8' }).filter((each) => each.endsWith('.md'));
    const found = [...product, ...documents.map((each) => `gateway/docs/${each}`), 'README.md'].flatMap((file) =>
      [...new Set(text(file).match(privateWords))].map((word) => `${file}: ${word}`),
    );
    expect(found).toEqual([]);
  });

  test('a file is short enough to read, or is listed with a reason', () => {
    const isLong = (file: string) => text(file).split('\n').length - 1 > (file.endsWith('.test.ts') ? 400 : 350);
    expect(files.filter((file) => isLong(file) && !(file in longFiles))).toEqual([]);
  });

  test('nothing is left for later, and no test keeps the others from running', () => {
    const marks = new RegExp(['TO' + 'DO', 'FIX' + 'ME', String.raw`\b(test|it|describe)\.only\b`].join('|'));
    expect(files.filter((file) => marks.test(source.get(file) ?? ''))).toEqual([]);
  });

  test('the settings page lists exactly the environment variables that the code reads', () => {
    const read = product.filter((file) => !file.startsWith('deploy/') || file === 'deploy/local/start.ts').flatMap(variablesIn);
    // A table whose first column is headed "Variable"; a cell may name several.
    const tables = [...text('gateway/docs/reference/settings.md').matchAll(/^\| *Variable *\|.*\n\|[-| :]+\|\n((?:\|.*\n?)+)/gm)].map(
      (match) => match[1] ?? '',
    );
    const listed = tables
      .flatMap((table) => table.split('\n'))
      .flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([A-Z][A-Z0-9_]*)`/g)])
      .map((match) => match[1] ?? '');
    expect([...new Set(listed)].sort()).toEqual([...new Set(read)].sort());
  });
});
