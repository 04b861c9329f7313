// The auditor's settings.
import type { KeyObject } from 'node:crypto';
import { BadSetting, commonSettings, type CommonSettings, type Settings } from '../../platform/settings.ts';
import { readWitnesses, type Witness } from '../proof/witness-list.ts';

/** What the auditor reads from its environment. */
export interface AuditorConfig extends CommonSettings {
  /** Of the ledger's database, with the auditor's role. */
  databaseUrl: string;
  /** Of a standby, with the same role: reports and exports are read there. */
  readDatabaseUrl: string | undefined;
  /** Connections for calls. */
  readConnections: number;
  /** Jobs at a time, each with a connection of its own. */
  jobConcurrency: number;
  /** Each tenant is walked whole at least so often, milliseconds. */
  verifyMs: number;
  /** Of a log that is imported. */
  maxImportBytes: number;
  checkpoints: CheckpointConfig;
}

/** How checkpoints are signed, kept and witnessed. */
export interface CheckpointConfig {
  /** The first part of the origin of each log: `<origin>/<tenant_id>`. */
  origin: string;
  /** Ed25519: the first signs, the others are retired. */
  signingKeys: [KeyObject, ...KeyObject[]];
  /** Between checkpoints of a log whose head moves, milliseconds. */
  everyMs: number;
  /** Keeps each checkpoint as a file that is never overwritten. */
  directory: string;
  witnesses: readonly Witness[];
  /** Cosignatures that a checkpoint should have. */
  quorum: number;
}

/** Reads and checks the settings. Throws BadSetting. */
export function auditorConfig(settings: Settings): AuditorConfig {
  return {
    ...commonSettings(settings, 50054),
    databaseUrl: settings.databaseUrl('DATABASE_URL'),
    readDatabaseUrl: settings.optional('READ_DATABASE_URL') === undefined ? undefined : settings.databaseUrl('READ_DATABASE_URL'),
    readConnections: settings.integer('READ_CONNECTIONS', { min: 1, max: 100, fallback: 8 }),
    jobConcurrency: settings.integer('JOB_CONCURRENCY', { min: 1, max: 100, fallback: 4 }),
    verifyMs: Math.ceil(settings.decimal('VERIFY_HOURS', { max: 10_000, fallback: 24 }) * 3_600_000),
    maxImportBytes: settings.integer('IMPORT_MAX_GIB', { min: 1, max: 100_000, fallback: 16 }) * 2 ** 30,
    checkpoints: checkpointConfig(settings),
  };
}

function checkpointConfig(settings: Settings): CheckpointConfig {
  const witnesses = readWitnesses(settings.optional('WITNESSES') ?? '');
  if (typeof witnesses === 'string') throw new BadSetting('WITNESSES', witnesses);
  return {
    origin: originOf(settings.text('PROOF_ORIGIN')),
    signingKeys: settings.signingKeys('CHECKPOINT_PRIVATE_KEY'),
    everyMs: Math.ceil(settings.decimal('CHECKPOINT_SECONDS', { max: 86_400, fallback: 60 }) * 1_000),
    directory: settings.text('CHECKPOINT_DIR'),
    witnesses,
    quorum: settings.integer('WITNESS_QUORUM', { min: 0, max: witnesses.length, fallback: witnesses.length }),
  };
}

// It is part of key names, which have no spaces and no plus.
function originOf(text: string): string {
  if (/^[A-Za-z0-9._~:-]+(\/[A-Za-z0-9._~-]+)*$/.test(text) && text.length <= 128) return text;
  throw new BadSetting(
    'PROOF_ORIGIN',
    `must be like ledger.example.com, without https:// and a slash at its end, not ${JSON.stringify(text)}`,
  );
}
