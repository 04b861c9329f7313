// README and guide pages: their commands run as written, their links lead somewhere, their words are plain.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { jest } from '@jest/globals';
import { endWithParent } from '../deploy/local/children.ts';
import { root } from '../deploy/local/plan.ts';
import { anchorOf, readPages } from '../gateway/docs/contents.ts';
import { errorCodes, statusOf } from '../gateway/errors.ts';
import { testPort } from './cluster.ts';
import { bareEnvironment, currentRun } from './run.ts';

// The commands run against a deployment of their own, which a busy machine needs minutes to start.
jest.setTimeout(180_000);

const guide = 'gateway/docs';
const pages = [
  'README.md',
  ...readdirSync(join(root, guide), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(guide, name))
    .sort(),
];
const text = new Map(pages.map((page) => [page, readFileSync(join(root, page), 'utf8')]));
const textOf = (page: string) => text.get(page) ?? '';

/** The blocks of a page that a shell runs. `console` blocks need what no test has: a cluster, a registry. */
const commandsOf = (page: string) => [...textOf(page).matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);

const prose = (page: string) => textOf(page).replace(/^```[\s\S]*?^```$/gm, '');

describe('the documents', () => {
  test.each(pages)('%s has at most 150 lines', (page) => {
    expect(textOf(page).trimEnd().split('\n').length).toBeLessThanOrEqual(150);
  });

  test.each(pages)('%s links only to what exists', (page) => {
    const dead = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !/^https?:/.test(target))
      .filter((target) => {
        const [path = '', anchor] = target.split('#');
        const file = path === '' ? page : relative(root, join(root, dirname(page), path));
        if (!existsSync(join(root, file))) return true;
        // The site has the guide's pages alone.
        if (page !== 'README.md' && !pages.slice(1).includes(file) && !file.startsWith(`${guide}/images/`)) return true;
        const headings = [...prose(file).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => anchorOf(title));
        return anchor !== undefined && !headings.includes(anchor);
      });
    expect(dead).toEqual([]);
  });

  test('the front page of the guide lists every page once, and the README leads there', () => {
    const listed = readPages(join(root, guide)).map(({ path }) => `${guide}/${path}.md`);
    expect(listed.sort()).toEqual(pages.slice(1));
    expect(textOf('README.md')).toContain(`](${guide}/index.md)`);
  });

  test('the errors page lists every code under its status', () => {
    const rows = [...textOf(`${guide}/reference/errors.md`).matchAll(/^\| `(\w+)` \| (\d{3})/gm)].map(([, code, status]) => [code, status]);
    expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(errorCodes.map((code) => [code, String(statusOf(code))])));
  });

  test.each(pages)('%s names only files that exist', (page) => {
    const named = [...textOf(page).matchAll(/`((?:services|gateway|deploy|test|proto)\/[\w./-]+\.\w+)`/g)].map(([, file = '']) => file);
    expect(named.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });

  test.each(pages)('%s names only metrics that exist', (page) => {
    const metric = /\b(?:http|grpc|gateway|identity|ledger|notifier|auditor|postgres|tls|tracing)(?:_[a-z]+){2,}\b(?=[`{])/g;
    const named = [...textOf(page).matchAll(metric)].map(([name]) => name);
    expect(named.filter((name) => !textOf(`${guide}/reference/metrics.md`).includes(`\`${name}\``))).toEqual([]);
  });

  test.each(pages)('%s has sentences of at most 30 words and no private word', (page) => {
    const sentences = prose(page)
      .split('\n')
      .filter((line) => !line.startsWith('|'))
      .join('\n')
      .split(/(?<=[.:!?])\s|\n\n|\n[-*] /);
    const long = sentences.filter((sentence) => sentence.split(/\s+/).length > 30);
    expect(long).toEqual([]);
    expect(prose(page)).not.toMatch(/\b(house|strangers?|whoever|his|him|(?<!dead[ -])letters(?!,? digits)|lanes?|told)\b/i);
  });

  test.each(pages)('%s has commands that a shell understands', (page) => {
    const blocks = [...textOf(page).matchAll(/^```(?:sh|console)\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
    for (const code of blocks) expect(spawnSync('bash', ['-nc', code], { encoding: 'utf8' }).stderr).toBe('');
  });
});

/** Whether pip can get what the Python client needs. */
function hasPythonPackages(): boolean {
  const environment = mkdtempSync(join(currentRun().directory, 'pip-'));
  const pip = [
    '-m',
    'pip',
    'download',
    '--quiet',
    '--disable-pip-version-check',
    '--no-deps',
    '--dest',
    environment,
    'httpx-retries==0.6.0',
  ];
  return spawnSync('python3', pip, { timeout: 60_000 }).status === 0;
}

describe('the commands of the documents', () => {
  const directory = mkdtempSync(join(currentRun().directory, 'documents-'));
  const variables = join(directory, 'shell-variables');
  const ports: Record<string, string> = {};
  let deployment: ChildProcess;

  /** Runs commands in a shell that stops at the first failure, with what the first posting has left in the shell. */
  async function run(script: string, timeout = 90_000): Promise<string> {
    const own = Object.entries(ports).reduce(
      (code, [port, mine]) => code.replaceAll(new RegExp(`(:|PORT=)${port}\\b`, 'g'), `$1${mine}`),
      script,
    );
    // What a page starts in the background ends with it, also where one of its commands fails.
    const before = `trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n${existsSync(variables) ? `. ${variables}\n` : ''}`;
    const shell = spawn('bash', ['-euc', before + own.replaceAll('.data/', `'${directory}'/`)], {
      cwd: root,
      // Fewer lines than the guide imports, and programs that are compiled once, in less time.
      env: { ...process.env, DATA_DIR: directory, IMPORT_LINES: '3000', NODE_COMPILE_CACHE: join(directory, 'compiled') },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A loop that waits for what never comes.
      timeout,
    });
    const [answers, errors] = [shell.stdout, shell.stderr].map((stream) => stream.setEncoding('utf8').toArray()) as Promise<string[]>[];
    const status = await new Promise((resolve) => shell.once('close', resolve));
    const answer = (await answers!).join('');
    if (status !== 0) throw new Error(`status ${String(status)}: ${answer}${(await errors!).join('')}`);
    return answer;
  }

  /** Saves the code blocks of a page that have a file name. */
  function saveFiles(page: string): void {
    for (const [, file = '', code = ''] of textOf(page).matchAll(/^```\w+ \.data\/(\S+)\n([\s\S]*?)^```$/gm)) {
      mkdirSync(dirname(join(directory, file)), { recursive: true });
      writeFileSync(join(directory, file), code.replaceAll("'../../gateway/", `'${root}/gateway/`));
    }
  }

  const missing = ['curl', 'bash'].filter((program) => spawnSync(program, ['--version']).error !== undefined);
  const hasGrpcurl = spawnSync('grpcurl', ['--version']).error === undefined;
  const runsPython = spawnSync('python3', ['--version']).error === undefined;
  const ready = missing.length === 0 ? test : test.skip;

  beforeAll(async () => {
    for (const port of ['8080', '50051', '50052', '50053', '50054', '4242']) ports[port] = String(await testPort());
    const env = {
      ...bareEnvironment,
      HOME: process.env['HOME'],
      DATA_DIR: directory,
      PORT: ports['8080'],
      IDENTITY_ADDR: `127.0.0.1:${String(ports['50051'])}`,
      LEDGER_ADDR: `127.0.0.1:${String(ports['50052'])}`,
      NOTIFIER_ADDR: `127.0.0.1:${String(ports['50053'])}`,
      AUDITOR_ADDR: `127.0.0.1:${String(ports['50054'])}`,
      // Each log every few seconds, so that a page which waits for it is quick.
      VERIFY_HOURS: '0.001',
    };
    const [file = '', ...args] = endWithParent('SIGTERM', ['node', 'deploy/local/start.ts']);
    deployment = spawn(file, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise<void>((resolve, reject) => {
      deployment.stdout?.on('data', (chunk: Buffer) => {
        if (/^ready /m.test(chunk.toString())) resolve();
      });
      deployment.once('exit', () => reject(new Error('npm start has ended')));
    });
  });

  afterAll(async () => {
    const ended = new Promise((resolve) => deployment.once('exit', resolve));
    if (deployment.exitCode === null && deployment.kill('SIGTERM')) await ended;
    rmSync(directory, { recursive: true, force: true });
  });

  const hasPosted = /"balance": ?"100\.00"(?![\s\S]*"balance": ?")/;
  ready('the README leads to a first posting and its balance with two commands and at most seven calls', async () => {
    const [start, tests, ...rest] = commandsOf('README.md');
    expect([start, tests]).toEqual(['npm start\n', 'npm test\n']);
    const script = rest.join('');
    expect(script.match(/\bcurl\b/g)?.length).toBeLessThanOrEqual(7);
    const answers = await run(script);
    expect(answers).not.toMatch(/"success": ?false/);
    expect(answers).toMatch(hasPosted);
  });

  // Other pages go on with its variables.
  const first = `${guide}/tutorials/first-posting.md`;
  ready(`the commands of ${first} do what they say`, async () => {
    const answers = await run(`set -a\n${commandsOf(first).join('\n')}\n{ export -p; declare -f; } > ${variables}`);
    expect(answers).not.toMatch(/"success": ?false/);
    expect(answers).toMatch(hasPosted);
    if (hasPython) {
      saveFiles(inPython);
      inBackground = run(commandsOf(inPython).join('\n'), 300_000);
      // Its own test reports a failure.
      inBackground.catch(() => undefined);
    }
  });

  // It installs packages, so it runs next to the other pages.
  const inPython = `${guide}/tutorials/wallet-app-python.md`;
  const hasPython = missing.length === 0 && hasPythonPackages();
  let inBackground: Promise<string> | undefined;

  // Pages that freeze the tenant or export its end wait for the one in the background, which posts to it.
  const last = [inPython, `${guide}/how-to/move-a-log.md`, `${guide}/how-to/freeze-and-repair.md`];
  const withCommands = pages
    // `test/restore-page.test.ts` follows those on restoring, on another server.
    .filter((page) => page !== 'README.md' && page !== first && !page.includes('/operate/restore') && commandsOf(page).length > 0)
    // In the order in which a reader comes to them.
    .sort((one, other) => Number(other.includes('/tutorials/')) - Number(one.includes('/tutorials/')))
    .sort((one, other) => last.indexOf(one) - last.indexOf(other));

  for (const page of withCommands) {
    const script = commandsOf(page).join('\n');
    const isReady =
      missing.length === 0 &&
      (hasGrpcurl || !script.includes('grpcurl')) &&
      (runsPython || !script.includes('python3 ')) &&
      (hasPython || page !== inPython);
    const name = `the commands of ${page} do what they say`;
    const runs = async () => {
      saveFiles(page);
      const answers = await ((page === inPython ? inBackground : undefined) ?? run(script));
      expect(answers).not.toMatch(/"success": ?false/);
      for (const expected of expectations[page] ?? []) expect(answers).toMatch(expected);
    };
    (isReady ? test : test.skip)(name, runs, page === inPython ? 300_000 : undefined);
  }

  test('each page whose answer matters is checked for it', () => {
    expect(Object.keys(expectations).filter((page) => !withCommands.includes(page))).toEqual([]);
  });
});

/** What the commands of a page must print. */
const expectations: Record<string, RegExp[]> = {
  'gateway/docs/tutorials/wallet-app-typescript.md': [/^5 of 10 paid\nada has 0\.00, ben has 50\.00\nPayment order-/m],
  'gateway/docs/tutorials/wallet-app-python.md': [/^5 of 10 paid\ncleo has 0\.00, dan has 50\.00\nPayment sale-/m],
  'gateway/docs/tutorials/first-webhook.md': [
    /^401\n[\s\S]*^test test\.webhook evt_[\s\S]*transaction\.posted evt_[\s\S]*"status": ?"delivered"/m,
  ],
  'gateway/docs/how-to/use-the-command-line.md': [/12\.50[\s\S]*CUSTOMER-WALLETS-NGN[\s\S]*ended with [14]$/m],
  'gateway/docs/how-to/import-and-export.md': [/equal[\s\S]*"posted":0,"replayed":2[\s\S]*Capital of the owners[\s\S]*RENT/],
  'gateway/docs/how-to/design-a-chart.md': [/"WALLET:81"[\s\S]*"balance":"0\.00"/],
  'gateway/docs/how-to/post-correct-reverse.md': [
    /"unreversed":\["45\.00","45\.00"\][\s\S]*\nalready_reversed\n[\s\S]*"posted":2,"replayed":0/,
  ],
  'gateway/docs/how-to/personal-data.md': [
    /"name":"Ada Lovelace"[\s\S]*"state":"sealed"[\s\S]*"subject":"customer-81"[\s\S]*"subject_id":"subj_[0-9a-z]+","erased_at"/,
    /"state":"erased"[^\n]*"name":"Charles Babbage"[\s\S]*\nthe event has its hash\n"code":"subject_not_found"/,
  ],
  'gateway/docs/how-to/read-lists.md': [/"has_more": ?true[\s\S]*\n30\n[\s\S]*\n\d+\n$/],
  'gateway/docs/how-to/rotate-keys.md': [/^200\n200\n[\s\S]*unauthenticated/],
  'gateway/docs/how-to/month-end.md': [
    /"closing_balance":"-3\.00"[\s\S]*"through":"\d{4}-03-31"[\s\S]*SETTLEMENT-NGN[\s\S]*\{"sequence":\d+,/,
  ],
  'gateway/docs/how-to/prove-a-transaction.md': [
    /(verified: event \d+ of \d+, transaction\.posted evt_\w+ of [^\n]* signed: txn_\w+ [^\n]*)\n\1\nstatus 1\nc2sp\.org\/tlog-proof@v1\n/,
  ],
  'gateway/docs/how-to/keep-a-checkpoint.md': [
    /verified: the first \d+ of \d+ events of \S+ have not changed\nverified: \d+ events of \S+ follow the rules, \d+ of them are signed, /,
  ],
  'gateway/docs/how-to/freeze-and-repair.md': [
    /"reason":"verification found \d+ differences?: balances [^\n]*"code":"books_frozen"\n[\s\S]*repaired: balances [\s\S]*can be changed again[^\n]*\n"status":"active"/,
  ],
  'gateway/docs/how-to/prove-a-balance.md': [/\n(\d+) events fit, head [0-9a-f]{64}\n/],
  'gateway/docs/how-to/receive-webhooks.md': [/"secret": ?"whsec_/, /"name": ?"Authorization", ?"value": ?null/],
  'gateway/docs/how-to/retry-safely.md': [/HTTP\/1\.1 201[\s\S]*HTTP\/1\.1 200[\s\S]*idempotent-replayed: true/i],
  'gateway/docs/how-to/opening-balances.md': [/"amount": ?"5000000\.00"/],
  'gateway/docs/how-to/many-accounts.md': [/"created": ?3[\s\S]*"created": ?1, ?"skipped": ?1[\s\S]*"children_count": ?3/],
  'gateway/docs/how-to/explain-a-number.md': [/"transaction_id": ?"txn_/, /"actor": ?"/],
  'gateway/docs/how-to/limit-accounts.md': [
    /"remaining_amount": ?"10\.00"[\s\S]*"broken": ?\["account_blocked", ?"limit_[\s\S]*"actor": ?"key_[\s\S]*"reason": ?"Charge-back 4711"/,
  ],
  'gateway/docs/how-to/date-postings.md': [
    /"balance":"1000\.00"[\s\S]*"balance":"700\.00"[\s\S]*"balance":"990\.00"[\s\S]*"balance":"1000\.00"[^\n]*"known_sequence"/,
    /"closing":"990\.00"[\s\S]*"balance":"1000\.00"/,
  ],
  'gateway/docs/how-to/close-periods.md': [
    /\nperiod_closed\n[\s\S]*"requested_effective_at":"\d{4}-01-20T00:00:00\.000Z"/,
    /"year_end":true[\s\S]*"balance":"0\.00"[\s\S]*"action":"reopen"[\s\S]*"balance":"0\.00"[\s\S]*"through":null/,
  ],
  'gateway/docs/how-to/print-reports.md': [
    /"report":"trial-balance"[\s\S]*"report":"balance-sheet"[\s\S]*"report":"income-statement"[\s\S]*"amount":"50\.00"[\s\S]*"report":"cash-flow"/,
    /FEES-2,Card fees[^\n]*,50\.00[\s\S]*\n%PDF-\n[\s\S]*"amount":"150\.00"[\s\S]*\naccount_code,currency,transaction_id/,
  ],
  'gateway/docs/how-to/move-a-log.md': [
    /^verified[\s\S]*"status":"succeeded"[\s\S]*"source_tenant_id":"tenant_[\s\S]*"checkpoint":"localhost\/tenant_[\s\S]*^nothing has changed\nverified/m,
  ],
  'gateway/docs/how-to/find-and-export.md': [
    /"indexed_metadata":\["order_id","shop"\][\s\S]*"order_id":"A-1009"[\s\S]*"order_id":"A-1009"[\s\S]*"reference":"INV-2041"/,
    /"filter":\{"name":"lagos"[\s\S]*"order_id":"A-1009"[\s\S]*\{"end":true,"count":\d+,"sequence":\d+,"hash":"[\s\S]*\{"end":true[\s\S]*id: 1\n/,
  ],
  'gateway/docs/how-to/hold-and-capture.md': [
    /"balance":"100\.00"[^\n]*"available":"40\.00"[\s\S]*"balance":"55\.00"[^\n]*"available":"55\.00"[\s\S]*"balance":"60\.00"/,
    /"unreversed":\["20\.00","20\.00"\]/,
  ],
  'gateway/docs/how-to/batch-and-import.md': [
    /"dry_run":true\n"posted":1000\n[\s\S]*"posted":1000,"replayed":0,"failed":0\}\}\n/,
    /"replayed":[1-9]\d*,"failed":0,"done":true[\s\S]*"posted":0,"replayed":3000,"failed":0,"done":true/,
  ],
  'gateway/docs/how-to/work-as-a-team.md': [
    /Invitation accepted[\s\S]*"transaction_id":"txn_[\s\S]*\nforbidden\n[\s\S]*\nunauthenticated\ntotp_required\n/,
    /"type":"member.role_changed"[\s\S]*"type":"recovery_code.used"[\s\S]*\ntenant_suspended\n[\s\S]*Tenant resumed/,
  ],
  'gateway/docs/how-to/catch-up.md': [/"has_more": ?(true|false)/],
  'gateway/docs/reference/grpc.md': [/"transactionId": ?"txn_/, /ledger\.v1\.LedgerService/],
};
