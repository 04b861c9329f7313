// The auditor's settings.
import { commonSettings, type CommonSettings, type Settings } from '../../platform/settings.ts';

/** What the auditor reads from its environment. */
export interface AuditorConfig extends CommonSettings {
  /** Of the ledger's database, with the auditor's role. */
  databaseUrl: string;
  /** Connections for calls. */
  readConnections: number;
  /** Jobs at a time, each with a connection of its own. */
  jobConcurrency: number;
}

/** Reads and checks the settings. Throws BadSetting. */
export function auditorConfig(settings: Settings): AuditorConfig {
  return {
    ...commonSettings(settings, 50054),
    databaseUrl: settings.databaseUrl('DATABASE_URL'),
    readConnections: settings.integer('READ_CONNECTIONS', { min: 1, max: 100, fallback: 8 }),
    jobConcurrency: settings.integer('JOB_CONCURRENCY', { min: 1, max: 100, fallback: 4 }),
  };
}
