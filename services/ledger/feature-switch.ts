// Whether features may be used that a ledger of a version before, still running, would ignore.
import { setTimeout as pause } from 'node:timers/promises';
import { Code } from '@connectrpc/connect';
import type { SubmitRequest } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { refuse } from '../platform/errors.ts';
import type { Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { invalid } from './fields.ts';

/** Rows of the table `enabled`, in the order of their versions. Nothing deletes one: what was posted with a feature stays. */
export const features = ['payments', 'books', 'proof'] as const;

/** Holds, limits and other payments; effective times, periods and other settings of the books; personal data, redaction, imports of logs and freezes. */
export type Feature = (typeof features)[number];

/** How often a ledger looks for the rows until all are there, milliseconds. */
export const switchPollMs = 2_000;

/** Whether a feature is enabled, as far as this process knows. */
export type IsEnabled = (feature: Feature) => boolean;

/** The features that are enabled. */
export interface FeatureSwitch {
  isOn: IsEnabled;
  close: () => Promise<void>;
}

/** Reads the switch, and then again until all features are on. Throws what PostgreSQL answers to the first read. */
export async function openFeatureSwitch(pool: Pool, logger: Logger, pollMs = switchPollMs): Promise<FeatureSwitch> {
  const read = async () => {
    const { rows } = await pool.query<{ feature: string }>('select feature from enabled');
    return new Set(rows.map(({ feature }) => feature));
  };
  const closed = new AbortController();
  let on = await read();
  const poll = async () => {
    while (features.some((feature) => !on.has(feature))) {
      await pause(pollMs, undefined, { signal: closed.signal, ref: false });
      const before = on;
      on = await read().catch((error: unknown) => {
        logger.warn({ err: error }, 'the enabled features could not be read');
        return before;
      });
      for (const feature of on) if (!before.has(feature)) logger.info(`${feature} are enabled`);
    }
  };
  const polling = poll().catch(() => undefined);
  return {
    isOn: (feature) => on.has(feature),
    close: () => {
      closed.abort();
      return polling;
    },
  };
}

/** What a feature adds to the calls that change something. */
interface Additions {
  /** Calls that ledgers before do not have. */
  calls: readonly string[];
  /** Commands that they do not have. */
  commands: readonly string[];
  /** Fields that they do not know, by message, with their names in REST. */
  fields: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

const newTerms = { require: 'require', validUntilMs: 'valid_until', overrideReason: 'override_reason' };
const newOfAccounts = { limits: 'limits', blocked: 'blocked' };
const ofPayments: Additions = {
  calls: ['getHold', 'listHolds', 'getUsage', 'putDefinition', 'deleteDefinition', 'getDefinition', 'listDefinitions'],
  commands: ['hold', 'capture', 'void'],
  fields: {
    'ledger.v1.Posting': { ...newTerms, exchange: 'exchange', dryRun: 'dry_run' },
    'ledger.v1.Entry': { require: 'require' },
    'ledger.v1.Reversal': { ...newTerms, reference: 'reference', metadata: 'metadata', amount: 'amount', entries: 'entries' },
    'ledger.v1.SubmitRequest': { atomic: 'atomic', dryRun: 'dry_run' },
    'ledger.v1.CreateAccountRequest': newOfAccounts,
    'ledger.v1.NewAccount': newOfAccounts,
    'ledger.v1.UpdateAccountRequest': newOfAccounts,
  },
};

const time = { effectiveMs: 'effective_at' };
const timeOfReversal = { ...time, effectiveAsOriginal: 'effective_at' };
const additions: Record<Feature, Additions> = {
  payments: ofPayments,
  // Reads of books answer what there is: without the feature, defaults.
  books: {
    calls: ['updateBooks', 'closePeriod', 'reopenPeriod'],
    commands: [],
    fields: {
      'ledger.v1.Posting': time,
      'ledger.v1.Capture': time,
      'ledger.v1.Reversal': timeOfReversal,
      'ledger.v1.ReverseTransactionRequest': timeOfReversal,
    },
  },
  proof: {
    calls: ['redactTransaction', 'eraseSubject', 'importLog'],
    commands: [],
    fields: { 'ledger.v1.Posting': { personal: 'personal' } },
  },
};

interface Message {
  $typeName: string;
}

const isSet = (value: unknown) => value !== undefined && value !== '' && value !== false && !(Array.isArray(value) && value.length === 0);

/** Throws `validation_failed` for the first field of a message, or of the accounts and entries in it, whose feature is not enabled. */
export function refuseNewFields(message: Message, isEnabled: IsEnabled): void {
  for (const feature of features) if (!isEnabled(feature)) refuseFieldsOf(feature, message, '');
}

function refuseFieldsOf(feature: Feature, message: Message, path: string): void {
  const fields = message as unknown as Record<string, unknown>;
  for (const [field, name] of Object.entries(additions[feature].fields[message.$typeName] ?? {})) {
    if (!isSet(fields[field])) continue;
    throw invalid(path + name, 'unknown', '', `${path}${name} is not known here until ${feature} are enabled`);
  }
  for (const list of ['entries', 'accounts']) {
    const items = (fields[list] ?? []) as Message[];
    items.forEach((item, index) => refuseFieldsOf(feature, item, `${path}${list}[${index}].`));
  }
}

/**
 * Throws for a call whose feature is not enabled: UNIMPLEMENTED for one that ledgers of the version before do not have, or `validation_failed` for a
 * field.
 */
export function refuseNewCalls(call: string, request: object, isEnabled: IsEnabled): void {
  const commands = call === 'submit' ? (request as SubmitRequest).commands.map(({ command }) => String(command.case)) : [];
  for (const feature of features) {
    if (isEnabled(feature)) continue;
    const { calls, commands: added } = additions[feature];
    if (calls.includes(call) || commands.some((command) => added.includes(command)))
      throw refuse(Code.Unimplemented, { reason: 'route_not_found', message: `not available until ${feature} are enabled` });
  }
  // Postings and reversals are checked one by one: a call has those of several tenants.
  if (!call.startsWith('postTransaction')) refuseNewFields(request as Message, isEnabled);
}
