// Blocks and limits of accounts: checked as they are sent, stored as JSON text, and as the rules of double entry take them.
import { create } from '@bufbuild/protobuf';
import { AccountLimitSchema, type AccountLimit as LimitMessage, type AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import { signedMinor, toDecimal } from '../platform/money.ts';
import { Refusal, type AccountRules } from './accounting.ts';
import { checkedCurrency, invalid } from './fields.ts';

/** Both as an account's record has them. */
export type RulesOfRecord = Pick<AccountRecord, 'limits' | 'blocked'>;

/** Both as columns of `accounts`; null where there are none, as in rows of the version before. */
export interface RuleColumns {
  limits: string | null;
  blocked: string | null;
}

/** Checks limits. Throws {@link Refusal} naming the field below `at`. */
export function checkedLimits(sent: LimitMessage[], at = ''): LimitMessage[] {
  return sent.map((each, index) => {
    const field = `${at}limits[${index}]`;
    const currency = checkedCurrency(`${field}.currency`, each.currency);
    if (sent.findIndex((other) => other.currency === currency) !== index) {
      throw invalid(`${field}.currency`, 'unique', currency, `${field}.currency must not be repeated: ${currency}`);
    }
    const amount = (name: string, text: string | undefined) => {
      if (text === undefined) return undefined;
      const minor = signedMinor(text);
      if (minor !== null) return toDecimal(minor);
      const message = `${field}.${name} must be a signed decimal string with at most 13 digits before and 2 after the point`;
      throw invalid(`${field}.${name}`, 'decimal', text, message);
    };
    const minAvailable = amount('min_available', each.minAvailable);
    const maxBalance = amount('max_balance', each.maxBalance);
    return create(AccountLimitSchema, {
      currency,
      ...(minAvailable !== undefined && { minAvailable }),
      ...(maxBalance !== undefined && { maxBalance }),
    });
  });
}

/** Checks blocked sides; repeated ones are folded. Throws {@link Refusal} naming the field below `at`. */
export function checkedBlocked(sent: string[], at = ''): string[] {
  sent.forEach((side, index) => {
    if (side === 'debit' || side === 'credit') return;
    throw invalid(`${at}blocked[${index}]`, 'oneof', side, `${at}blocked[${index}] must be one of debit, credit`);
  });
  return ['debit', 'credit'].filter((side) => sent.includes(side));
}

/** Refuses what an account can't have: a group takes no entries, and an account holds its own currency only. */
export function rulesMustFit(
  account: { accountCode: string; isGroup: boolean; currency?: string | undefined },
  { limits, blocked }: { [Name in keyof RulesOfRecord]?: RulesOfRecord[Name] | undefined },
  at = '',
): void {
  const { accountCode: code, currency } = account;
  if (account.isGroup && ((limits?.length ?? 0) > 0 || (blocked?.length ?? 0) > 0)) {
    const blame = { field: `${at}${(limits?.length ?? 0) > 0 ? 'limits' : 'blocked'}`, tag: 'account_is_group', value: code };
    throw new Refusal('account_is_group', `account ${code} is a group and takes no entries`, blame);
  }
  const index = limits?.findIndex((limit) => currency !== undefined && limit.currency !== currency) ?? -1;
  if (index < 0) return;
  const value = limits?.[index]?.currency ?? '';
  const blame = { field: `${at}limits[${index}].currency`, tag: 'currency_not_allowed', value };
  throw new Refusal('currency_not_allowed', `account ${code} holds ${currency} only, not ${value}`, blame);
}

/** Both as columns. */
export function ruleColumns({ limits, blocked }: RulesOfRecord): RuleColumns {
  const shown = limits.map(({ currency, minAvailable = null, maxBalance = null }) => ({
    currency,
    min_available: minAvailable,
    max_balance: maxBalance,
  }));
  return { limits: limits.length === 0 ? null : JSON.stringify(shown), blocked: blocked.length === 0 ? null : JSON.stringify(blocked) };
}

/** Both of a row. */
export function rulesOfRow({ limits, blocked }: RuleColumns): RulesOfRecord {
  const stored = JSON.parse(limits ?? '[]') as { currency: string; min_available: string | null; max_balance: string | null }[];
  return {
    limits: stored.map(({ currency, min_available, max_balance }) =>
      create(AccountLimitSchema, {
        currency,
        ...(min_available !== null && { minAvailable: min_available }),
        ...(max_balance !== null && { maxBalance: max_balance }),
      }),
    ),
    blocked: JSON.parse(blocked ?? '[]') as string[],
  };
}

/** Both as the rules take them. */
export function accountRules({ limits, blocked }: RulesOfRecord): AccountRules | null {
  if (limits.length === 0 && blocked.length === 0) return null;
  const minor = (text: string | undefined) => (text === undefined ? null : signedMinor(text));
  const bounds = limits.map(
    ({ currency, minAvailable, maxBalance }) => [currency, { minAvailable: minor(minAvailable), maxBalance: minor(maxBalance) }] as const,
  );
  return { blocked, limits: new Map(bounds) };
}
