// Commands on holds over gRPC, for tests: a purse that may not be below zero, a shop, fees and a bank.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { HoldRecord } from '../proto/gen/ledger/v1/events_pb.js';
import type { CaptureSchema, CommandResult, CommandSchema, HoldSchema, PostingSchema } from '../proto/gen/ledger/v1/ledger_pb.js';
import { entries, newTenant, type LedgerClient } from './ledger.ts';

export type Command = MessageInitShape<typeof CommandSchema>;

export const posting = (...lines: string[]): Command => ({ command: { case: 'posting', value: { entries: entries(...lines) } } });
/** Out of the purse. */
export const spend = (amount: string, more: MessageInitShape<typeof PostingSchema> = {}): Command => ({
  command: { case: 'posting', value: { entries: entries(`purse debit ${amount} NGN`, `shop credit ${amount} NGN`), ...more } },
});
export const hold = (amount: string, more: MessageInitShape<typeof HoldSchema> = {}): Command => ({
  command: { case: 'hold', value: { entries: entries(`purse debit ${amount} NGN`, `shop credit ${amount} NGN`), ...more } },
});
export const capture = (holdId: string, more: MessageInitShape<typeof CaptureSchema> = {}): Command => ({
  command: { case: 'capture', value: { holdId, ...more } },
});
export const release = (holdId: string, description = ''): Command => ({ command: { case: 'void', value: { holdId, description } } });
export const reverse = (transactionId: string): Command => ({ command: { case: 'reversal', value: { transactionId } } });

/** Balance, available, pending debits and credits, and version. */
export type ShownBalance = [net: string, available: string, pendingDebits: string, pendingCredits: string, version: bigint];

export interface HoldCalls {
  submit: (tenantId: string, commands: Command[], more?: object) => Promise<CommandResult[]>;
  one: (tenantId: string, command: Command, more?: object) => Promise<CommandResult>;
  /** The result of a command; throws if it was refused. */
  done: (tenantId: string, command: Command, more?: object) => Promise<CommandResult>;
  made: (tenantId: string, command: Command) => Promise<HoldRecord>;
  holdOf: (tenantId: string, holdId: string) => Promise<HoldRecord>;
  /** A tenant whose purse has so much. */
  tenantWith: (amount: string) => Promise<{ tenantId: string; tenant: string }>;
  balanceOf: (tenantId: string, accountCode: string) => Promise<ShownBalance>;
}

/** Calls of a ledger, which `client` returns. */
export function holdCalls(client: () => LedgerClient): HoldCalls {
  const submit: HoldCalls['submit'] = async (tenantId, commands, more = {}) =>
    (await client().submit({ tenantId, commands, actor: 'k', ...more })).results;
  const one: HoldCalls['one'] = async (tenantId, command, more = {}) => (await submit(tenantId, [command], more))[0]!;
  const done: HoldCalls['done'] = async (tenantId, command, more = {}) => {
    const result = await one(tenantId, command, more);
    if (result.refusal) throw new Error(JSON.stringify(result.refusal));
    return result;
  };
  return {
    submit,
    one,
    done,
    made: async (tenantId, command) => (await done(tenantId, command)).hold!,
    holdOf: async (tenantId, holdId) => (await client().getHold({ tenantId, holdId })).hold!,
    tenantWith: async (amount) => {
      const { tenantId, tenant } = newTenant();
      for (const accountCode of ['purse', 'shop', 'fees', 'bank']) {
        const type = accountCode === 'bank' ? 'asset' : 'liability';
        await client().createAccount({ tenantId, accountCode, name: accountCode, type, allowNegative: accountCode !== 'purse' });
      }
      if (amount !== '0.00') await done(tenantId, posting(`bank debit ${amount} NGN`, `purse credit ${amount} NGN`));
      return { tenantId, tenant };
    },
    balanceOf: async (tenantId, accountCode) => {
      const { balance } = await client().getBalance({ tenantId, accountCode, currency: 'NGN' });
      const { balance: net, available, pendingDebits, pendingCredits, version } = balance!;
      return [net, available, pendingDebits, pendingCredits, version];
    },
  };
}

/** Reason, field and value of a refused command. */
export function refusedWith({ refusal: refused }: CommandResult): string[] {
  return [refused!.reason, refused!.field, refused!.value];
}

/** What of a hold changes: its status, how often it was captured, and what is captured and remains of each line. */
export const shown = ({ status, captures, entries: lines }: HoldRecord): (string | number)[] => [
  status,
  captures,
  ...lines.map(({ captured, remaining }) => `${captured} ${remaining}`),
];
