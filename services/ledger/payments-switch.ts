// Whether holds, limits and the other payments may be used: a ledger of the version before, still running, would ignore them.
import { setTimeout as pause } from 'node:timers/promises';
import { Code } from '@connectrpc/connect';
import type { SubmitRequest } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { refuse } from '../platform/errors.ts';
import type { Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { invalid } from './fields.ts';

/** The row of the table `enabled`. Nothing deletes it: what was posted with payments stays. */
export const feature = 'payments';

/** How often a ledger looks for the row until it is there, milliseconds. */
export const switchPollMs = 2_000;

/** Whether payments are enabled, as far as this process knows. */
export interface PaymentsSwitch {
  isOn: () => boolean;
  close: () => Promise<void>;
}

/** Reads the switch, and then again until it is on. Throws what PostgreSQL answers to the first read. */
export async function openPaymentsSwitch(pool: Pool, logger: Logger, pollMs = switchPollMs): Promise<PaymentsSwitch> {
  const read = async () => ((await pool.query('select from enabled where feature = $1', [feature])).rowCount ?? 0) > 0;
  const closed = new AbortController();
  let on = await read();
  const poll = async () => {
    while (!on) {
      await pause(pollMs, undefined, { signal: closed.signal, ref: false });
      on = await read().catch((error: unknown) => {
        logger.warn({ err: error }, 'the switch of payments could not be read');
        return false;
      });
      if (on) logger.info('payments are enabled');
    }
  };
  const polling = poll().catch(() => undefined);
  return {
    isOn: () => on,
    close: () => {
      closed.abort();
      return polling;
    },
  };
}

/** Calls that ledgers of the version before do not have. */
const newCalls: ReadonlySet<string> = new Set([
  ...['getHold', 'listHolds', 'getUsage'],
  ...['putDefinition', 'deleteDefinition', 'getDefinition', 'listDefinitions'],
]);

const newTerms = { require: 'require', validUntilMs: 'valid_until', overrideReason: 'override_reason' };
const newOfAccounts = { limits: 'limits', blocked: 'blocked' };

/** Fields that they do not know, by message, with their names in REST. */
const newFields: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'ledger.v1.Posting': { ...newTerms, exchange: 'exchange', dryRun: 'dry_run' },
  'ledger.v1.Entry': { require: 'require' },
  'ledger.v1.Reversal': { ...newTerms, reference: 'reference', metadata: 'metadata', amount: 'amount', entries: 'entries' },
  'ledger.v1.SubmitRequest': { atomic: 'atomic', dryRun: 'dry_run' },
  'ledger.v1.CreateAccountRequest': newOfAccounts,
  'ledger.v1.NewAccount': newOfAccounts,
  'ledger.v1.UpdateAccountRequest': newOfAccounts,
};

interface Message {
  $typeName: string;
}

const isSet = (value: unknown) => value !== undefined && value !== '' && value !== false && !(Array.isArray(value) && value.length === 0);

/** Throws `validation_failed` for the first field of a message, or of the accounts and entries in it, that belongs to payments. */
export function refuseNewFields(message: Message, path = ''): void {
  const fields = message as unknown as Record<string, unknown>;
  for (const [field, name] of Object.entries(newFields[message.$typeName] ?? {})) {
    if (!isSet(fields[field])) continue;
    throw invalid(path + name, 'unknown', '', `${path}${name} is not known here until payments are enabled`);
  }
  for (const list of ['entries', 'accounts']) {
    const items = (fields[list] ?? []) as Message[];
    items.forEach((item, index) => refuseNewFields(item, `${path}${list}[${index}].`));
  }
}

/** Throws for a call that uses payments: UNIMPLEMENTED for one that ledgers of the version before do not have, or `validation_failed`. */
export function refuseNewCalls(call: string, request: object): void {
  const kinds = call === 'submit' ? (request as SubmitRequest).commands.map(({ command }) => command.case) : [];
  if (newCalls.has(call) || kinds.some((kind) => kind !== 'posting' && kind !== 'reversal' && kind !== undefined))
    throw refuse(Code.Unimplemented, { reason: 'route_not_found', message: 'not available until payments are enabled' });
  // Postings are checked one by one: a call has those of several tenants.
  if (!call.startsWith('postTransaction')) refuseNewFields(request as Message);
}
