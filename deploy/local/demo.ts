// `npm run demo`: starts the deployment where none runs, and fills the tenant `demo` with a year of business.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { BadSetting, Settings, isProduction } from '../../services/platform/settings.ts';
import { writeAtomically } from './children.ts';
import { fillDemo } from './demo/fill.ts';
import { localUrl, root } from './plan.ts';

const say = (line: string) => void process.stdout.write(`${line}\n`);

async function demo(): Promise<void> {
  const settings = new Settings(process.env);
  if (isProduction(settings)) throw new BadSetting('NODE_ENV', 'is production: the demo makes users with a known password');
  const dataDirectory = resolve(root, settings.text('DATA_DIR', '.data'));
  const port = settings.integer('PORT', { min: 1, max: 65_534, fallback: 8080 });
  const url = localUrl(settings.text('HOST', '127.0.0.1'), port);
  const began = Date.now();
  const deployment = (await isReady(url)) ? undefined : await start();
  const mailDirectory = settings.optional('MAIL_DIR') ?? join(dataDirectory, 'mail');
  const mails = settings.optional('MAIL_URL') === undefined && existsSync(mailDirectory) ? { mailDirectory } : {};
  const { changed, receiver, ...answer } = await fillDemo({ url, ...mails, receiverPort: port + 1, say });
  const file = join(dataDirectory, 'demo.json');
  if (changed && existsSync(dataDirectory)) writeAtomically(file, JSON.stringify({ tenantId: answer.tenantId, key: answer.key }));
  const kept = keptKey(file, answer.tenantId);
  const seconds = ((Date.now() - began) / 1000).toFixed(1);
  say(changed ? `filled the tenant ${answer.slug} in ${seconds} s` : `the tenant ${answer.slug} is complete: nothing was changed`);
  say('');
  say(`address   ${url}`);
  say(`user      ${answer.email}`);
  say(`password  ${answer.password}`);
  say(`tenant    ${answer.slug}`);
  say(`key       ${kept ?? `${answer.key} (for one hour)`}`);
  if (!deployment) {
    await receiver?.close();
    return;
  }
  say('');
  say('the deployment runs until you press Ctrl-C');
  await deployment.ended;
  await receiver?.close();
}

async function isReady(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
  await answer?.body?.cancel();
  return answer?.ok === true;
}

/** Starts the deployment as `npm start` does; resolves when it is ready. */
async function start(): Promise<{ ended: Promise<void> }> {
  // It ends when this process does.
  const environment = { ...process.env, npm_pid: String(process.pid) };
  const child = spawn(process.execPath, ['deploy/local/start.ts'], { cwd: root, env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  const ended = once(child, 'exit').then(([code]) => void (process.exitCode = Number(code ?? 1)));
  const ready = new Promise<void>((resolve) => {
    createInterface(child.stdout).on('line', (line) => (line.startsWith('ready ') ? resolve() : say(line)));
  });
  const failed = ended.then(() => Promise.reject(new StartFailure('the deployment could not be started')));
  await Promise.race([ready, failed]);
  return { ended };
}

/** The key that an earlier run has printed. */
function keptKey(file: string, tenantId: string): string | undefined {
  if (!existsSync(file)) return undefined;
  const kept = JSON.parse(readFileSync(file, 'utf8')) as { tenantId: string; key: string };
  return kept.tenantId === tenantId ? kept.key : undefined;
}

demo().catch((error: unknown) => {
  process.stderr.write(
    `${error instanceof BadSetting || error instanceof StartFailure ? error.message : String((error as Error).stack)}\n`,
  );
  process.exit(1);
});
