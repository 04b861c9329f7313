// The notifier's settings, read once.
import type { EncryptionKeys } from '../platform/secret-encryption.ts';
import { BadSetting, commonSettings, isProduction, type CommonSettings, type Settings } from '../platform/settings.ts';
import type { Quotas } from './limits.ts';

/** What the notifier reads from its environment. */
export interface NotifierConfig extends CommonSettings {
  databaseUrl: string;
  /** Encrypt webhook secrets with the first, decrypt with all. */
  encryptionKeys: EncryptionKeys;
  /** http and private addresses are admitted. */
  insecureTargets: boolean;
  /** Seconds from the beginning of an attempt to that of the next one. */
  retryDelays: number[];
  /** One whole attempt, milliseconds. */
  timeoutMs: number;
  quotas: Quotas;
  retentionDays: number;
  /** Deliveries in flight in this process. */
  concurrency: number;
  /** Deliveries in flight to one tenant's endpoint, over all processes. */
  endpointConcurrency: number;
  /** Connections for calls; deliveries have five of their own. */
  connections: number;
}

/** Reads and checks the settings. Throws BadSetting. */
export function notifierConfig(settings: Settings): NotifierConfig {
  const insecureTargets = settings.oneOf('WEBHOOK_ALLOW_INSECURE_TARGETS', ['true', 'false'], 'false') === 'true';
  if (insecureTargets && isProduction(settings)) {
    throw new BadSetting('WEBHOOK_ALLOW_INSECURE_TARGETS', 'must not be true where NODE_ENV is production');
  }
  const quota = (name: string, fallback: number) => settings.integer(name, { min: 1, max: 100_000, fallback });
  return {
    ...commonSettings(settings, 50053),
    databaseUrl: settings.databaseUrl('DATABASE_URL'),
    encryptionKeys: settings.encryptionKeys('WEBHOOK_ENCRYPTION_KEY'),
    insecureTargets,
    retryDelays: retryDelays(settings.text('WEBHOOK_RETRY_DELAYS', '60,120')),
    timeoutMs: 1000 * seconds('WEBHOOK_TIMEOUT', settings.text('WEBHOOK_TIMEOUT', '30'), 0.1, 300),
    quotas: {
      'webhook-config': quota('WEBHOOK_CONFIG_PER_MINUTE', 10),
      retries: quota('WEBHOOK_RETRIES_PER_HOUR', 5),
      tests: quota('WEBHOOK_TESTS_PER_HOUR', 20),
    },
    retentionDays: settings.integer('DELIVERY_RETENTION_DAYS', { min: 1, max: 36_500, fallback: 90 }),
    concurrency: settings.integer('WEBHOOK_CONCURRENCY', { min: 1, max: 10_000, fallback: 256 }),
    endpointConcurrency: settings.integer('WEBHOOK_ENDPOINT_CONCURRENCY', { min: 1, max: 1_000, fallback: 32 }),
    connections: settings.integer('NOTIFIER_CONNECTIONS', { min: 1, max: 100, fallback: 6 }),
  };
}

function retryDelays(text: string): number[] {
  const delays = text.split(',').map((item) => seconds('WEBHOOK_RETRY_DELAYS', item.trim(), 0, 86_400));
  if (delays.length > 20) throw new BadSetting('WEBHOOK_RETRY_DELAYS', 'has more than 20 items');
  return delays;
}

function seconds(name: string, text: string, min: number, max: number): number {
  const number = /^[0-9]{1,6}(\.[0-9]{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (!(number >= min && number <= max)) {
    throw new BadSetting(name, `must be seconds from ${min} to ${max}, not ${JSON.stringify(text)}`);
  }
  return number;
}
