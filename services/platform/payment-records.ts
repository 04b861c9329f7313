// Records of payments as REST answers and webhook bodies have them: a hold, a changed balance, and what a transaction came from.
import type { BalanceUpdated, ExchangeOrigin, HoldRecord, Origin } from '../../proto/gen/ledger/v1/events_pb.js';
import { toDecimal, toMinor } from './money.ts';

/** `origin` of a transaction or hold; null: it came from nothing else. Throws for an exchange without its rate. */
export function originRecord(origin: Origin | undefined): object | null {
  if (!origin) return null;
  const { holdId = null, exchange, override } = origin;
  return {
    hold_id: holdId,
    template: null,
    schedule_id: null,
    occurrence: null,
    exchange: exchange ? exchangeRecord(exchange) : null,
    override: override ? { reason: override.reason, broken: override.broken } : null,
  };
}

function exchangeRecord(exchange: ExchangeOrigin): object {
  const { rate, referenceRate = null, rounding, convertedDebit, convertedCredit, spread, residue } = exchange;
  if (!rate) throw new Error('an exchange without its rate');
  return {
    rate: { base: rate.base, quote: rate.quote, value: rate.value },
    reference_rate: referenceRate,
    rounding,
    converted_debit: convertedDebit,
    converted_credit: convertedCredit,
    spread,
    residue,
  };
}

/** A hold except its metadata, which is text. What a dry run does not have is null. */
export function holdRecord(hold: HoldRecord): Record<string, unknown> {
  const { entries } = hold;
  const [first] = entries;
  const currency = first && entries.every((entry) => entry.currency === first.currency) ? first.currency : null;
  const debits = entries.reduce((sum, entry) => sum + (entry.side === 'debit' ? (toMinor(entry.amount) ?? 0n) : 0n), 0n);
  return {
    hold_id: hold.holdId || null,
    status: hold.status,
    idempotency_key: hold.idempotencyKey || null,
    description: hold.description,
    reference: hold.reference ?? null,
    currency,
    amount: currency === null ? null : toDecimal(debits),
    entries: entries.map(({ accountId, accountCode, side, currency: of, amount, captured, remaining }) => ({
      account_id: accountId,
      account_code: accountCode,
      side,
      currency: of,
      amount,
      captured,
      remaining,
    })),
    expires_at: optionalTime(hold.expiresMs),
    captures: hold.captures,
    created_at: isoTime(hold.createdMs),
    ended_at: optionalTime(hold.endedMs),
    sequence: hold.sequence === 0n ? null : Number(hold.sequence),
    origin: originRecord(hold.origin),
  };
}

/** `data` of `balance.updated`; null: it lacks the balance. */
export function balanceUpdateRecord({ balance: changed, transactionId, holdId }: BalanceUpdated, sequence: number): object | null {
  if (!changed) return null;
  const { accountId, accountCode, currency, balance, previousBalance, debits, credits, pendingDebits, pendingCredits } = changed;
  return {
    account_id: accountId,
    account_code: accountCode,
    currency,
    balance,
    previous_balance: previousBalance,
    debits,
    credits,
    pending_debits: pendingDebits,
    pending_credits: pendingCredits,
    available: changed.available,
    version: Number(changed.version),
    transaction_id: transactionId === '' ? null : transactionId,
    hold_id: holdId ?? null,
    sequence,
  };
}

function isoTime(ms: bigint): string {
  return new Date(Number(ms)).toISOString();
}

function optionalTime(ms: bigint | undefined): string | null {
  return ms === undefined ? null : isoTime(ms);
}
