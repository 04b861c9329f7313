// The environment variables and secrets that each process needs.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root, servers } from '../deploy/local/plan.ts';
import { newSigningKey } from '../deploy/local/secrets.ts';
import { gatewayConfig } from '../gateway/config.ts';
import { identityConfig } from '../services/identity/config.ts';
import { auditorConfig } from '../services/ledger/auditor/config.ts';
import { ledgerConfig } from '../services/ledger/config.ts';
import { notifierConfig } from '../services/notifier/config.ts';
import { kafkaSettings } from '../services/platform/kafka-settings.ts';
import { Settings } from '../services/platform/settings.ts';
import { first } from './process-certificates.ts';
import { currentRun } from './run.ts';
import { imports, variablesIn } from './sources.ts';

/** The processes of the cluster. */
export const processes = ['gateway', ...servers] as const;
export type Process = (typeof processes)[number];

/** What a process does with its environment first; throws where it would not start. */
export const start: Record<Process, (settings: Settings) => unknown> = {
  gateway: gatewayConfig,
  identity: identityConfig,
  ledger: ledgerConfig,
  auditor: auditorConfig,
  notifier: (settings) => [notifierConfig(settings), kafkaSettings(settings)],
};

const directory = mkdtempSync(join(currentRun().directory, 'manifests-'));

/** What an operator puts into the secrets, by file name. */
const secrets: Record<string, string> = {
  'internal-token': 'internal',
  'database-url': 'postgres://service:password@postgresql:5432/database',
  'auditor-database-url': 'postgres://auditor:password@postgresql:5432/database',
  'migration-database-url': 'postgres://owner:password@postgresql:5432/database',
  'jwt-private-key': newSigningKey(),
  'checkpoint-private-key': newSigningKey(),
  'oidc-providers': JSON.stringify({ example: { issuer: 'https://id.example.com', client_id: 'ledger', client_secret: 'secret' } }),
  'mail-url': 'smtps://user:password@smtp.example.com',
  'identity-encryption-key': `1:${randomBytes(32).toString('base64')}`,
  'subject-encryption-key': `1:${randomBytes(32).toString('base64')}`,
  'webhook-encryption-key': `1:${randomBytes(32).toString('base64')}`,
  'kafka-sasl-password': 'password',
  'tls.crt': first.cert,
  'tls.key': first.key,
  'ca.crt': first.ca,
};
for (const [name, value] of Object.entries(secrets)) writeFileSync(join(directory, name), value);

/** Removes the secrets: for `afterAll`. */
export const forgetSecrets = (): void => rmSync(directory, { recursive: true, force: true });

/** The settings of an environment whose secrets lie in this test's directory. */
export function settingsOf(environment: Record<string, string>): Settings {
  const moved = Object.entries(environment).map(([name, value]) => [name, value.replace(/^\/(run\/secrets|etc\/ledger)(?=\/)/, directory)]);
  return new Settings(Object.fromEntries(moved));
}

/** The variables that a process reads: named in its main, what that loads to serve, its config, and what these import of the platform. */
export function variablesOf(process: Process): string[] {
  const main = mainOf(process);
  const folder = process === 'auditor' ? main.replace('.ts', '') : dirname(main);
  const own = [main, ...['serving.ts', 'config.ts'].map((file) => join(folder, file))];
  const platform = own.flatMap((file) => imports(file).filter((name) => name.startsWith('services/platform/')));
  return [...new Set([...own, ...platform, 'services/platform/settings.ts'])].flatMap(variablesIn);
}

/** The file with which a process starts. */
export function mainOf(process: Process): string {
  if (process === 'auditor') return 'services/ledger/auditor.ts';
  return process === 'gateway' ? 'gateway/main.ts' : `services/${process}/main.ts`;
}

/** Whose process a container runs, by its first argument. */
export function processOf(args: string[]): Process {
  const process = processes.find((each) => args[0] === mainOf(each));
  if (!process || !existsSync(join(root, args[0] ?? ''))) throw new Error(`there is no process ${args.join(' ')}`);
  return process;
}

/** The variables of an environment that a process does not read. */
export const unread = (process: Process, environment: Record<string, string>): string[] =>
  Object.keys(environment).filter((name) => ![name, name.replace(/_FILE$/, '')].some((each) => variablesOf(process).includes(each)));
