// The end of a year: closing transactions, which bring revenue and expense to zero against retained earnings.
import { newId, tenantId, toUuid } from '../platform/ids.ts';
import type { Client } from '../platform/postgres.ts';
import { accountsByCode } from './account-reads.ts';
import { Refusal, opposite, type Entry, type Side } from './accounting.ts';
import type { TenantState } from './account-cache.ts';
import { defaultBooks } from './books-rules.ts';
import { checkRetained } from './books-update.ts';
import { Changes } from './changes.ts';
import type { AuditContext } from './chart.ts';
import { fingerprint } from './fingerprint.ts';
import type { Head } from './log.ts';
import type { ValidatedPosting } from './mapping.ts';
import { totalsAt } from './totals.ts';
import * as queries from './writer-queries.ts';

/** The most balances that one closing brings to zero. */
export const maxBalances = 20_000;
const maxEntries = 200;
/** Closing transactions written by one call: as many entries as the writer's largest batches. */
const closingsAtOnce = 5;
/** The largest amount of an entry, minor units. */
const maxAmount = 999_999_999_999_999n;

/** A year that ends. */
export interface YearEnd {
  head: Head;
  nowMs: number;
  context: AuditContext;
  periodId: string;
  /** The day in words. */
  through: string;
  /** Its last millisecond, since the Unix epoch. */
  atMs: number;
  retainedCode: string;
}

/** A balance that is to be zero: debits less credits, minor units. */
interface OpenBalance {
  code: string;
  currency: string;
  net: bigint;
}

/**
 * Posts the closing transactions of a year, decided like any posting and given to `write` in parts, and returns their TypeIDs. Blocks and limits don't refuse them. Throws
 * {@link Refusal}: `report_too_large`; `account_not_found`, `account_is_group` or `account_closed` for the account of retained earnings;
 * `account_closed` for one that has a balance to close; and `currency_not_allowed`.
 */
export async function postClosings(client: Client, year: YearEnd, write: (changes: Changes) => Promise<unknown>): Promise<string[]> {
  const { head, nowMs, retainedCode } = year;
  const open = await openBalances(client, year);
  if (open.length === 0) return [];
  checkRetained(retainedCode, (await accountsByCode(client, head.tenant, [retainedCode])).get(retainedCode));
  const codes = [...new Set([retainedCode, ...open.map(({ code }) => code)])];
  const found = await queries.readAccounts(
    client,
    codes.map((code) => [head.tenant, code]),
  );
  const wrong = found.find(({ differences }) => differences.length > 0);
  if (wrong) throw new Refusal('internal', queries.whyInconsistent(wrong));
  const accounts = new Map(found.map(({ code, state }) => [code, state]));
  const state: TenantState = { head, accounts, rules: null, books: defaultBooks };
  const closings = [...Map.groupBy(open, ({ currency }) => currency).values()].flatMap((each) => closingEntries(each, retainedCode));
  const ids: string[] = [];
  for (let from = 0; from < closings.length; from += closingsAtOnce) {
    const changes = new Changes();
    for (const entries of closings.slice(from, from + closingsAtOnce)) {
      ids.push(changes.post(state, closingOf(year, entries, ids.length + 1), null, nowMs).transactionId);
    }
    await write(changes);
  }
  return ids;
}

/** Balances of revenue and expense that are not zero at the end of the year, by currency. */
async function openBalances(client: Client, { head, atMs }: YearEnd): Promise<OpenBalance[]> {
  const { rows } = await client.query<{ id: string; code: string }>({
    name: 'accounts_of_earnings',
    text: `select id, code from accounts where tenant_id = $1 and type in ('revenue', 'expense') and not is_group`,
    values: [head.tenant],
  });
  const codes = new Map(rows.map(({ id, code }) => [id, code]));
  const bound = { effectiveMs: atMs, sequence: head.sequence };
  const [totals = new Map<string, never>()] = await totalsAt(client, head.tenant, [bound], [...codes.keys()]);
  const open = [...totals].flatMap(([key, { debits, credits }]): OpenBalance[] => {
    const [id = '', currency = ''] = key.split(' ');
    return debits === credits ? [] : [{ code: codes.get(id) as string, currency, net: debits - credits }];
  });
  if (open.length > maxBalances) {
    const blame = { field: 'year_end', tag: 'report_too_large', value: String(open.length) };
    throw new Refusal('report_too_large', `revenue and expense have more than ${maxBalances} balances`, blame);
  }
  return open.sort((a, b) => (`${a.currency} ${a.code}` < `${b.currency} ${b.code}` ? -1 : 1));
}

/** Entries of the closing transactions of one currency: each balanced by an entry on retained earnings, at most 200 together. */
export function closingEntries(open: OpenBalance[], retainedCode: string): Entry[][] {
  const closings: Entry[][] = [];
  let entries: Entry[] = [];
  let net = 0n;
  const currency = open[0]?.currency ?? '';
  const lines = (code: string, of: bigint, field: string): Entry[] => {
    const side: Side = of > 0n ? 'debit' : 'credit';
    return parts(of < 0n ? -of : of).map((amount) => ({ code, amount, side, currency, counter: false, field }));
  };
  const end = () => {
    closings.push([...entries, ...lines(retainedCode, -net, 'retained_earnings_code')]);
    [entries, net] = [[], 0n];
  };
  for (const balance of open) {
    for (const line of lines(balance.code, balance.net, 'year_end')) {
      const entry = { ...line, side: opposite(line.side) };
      const after = net + (entry.side === 'debit' ? entry.amount : -entry.amount);
      if (entries.length + 1 + parts(after < 0n ? -after : after).length > maxEntries) end();
      entries.push(entry);
      net += entry.side === 'debit' ? entry.amount : -entry.amount;
    }
  }
  if (entries.length > 0) end();
  return closings;
}

// A balance may have more digits than an entry.
function parts(amount: bigint): bigint[] {
  const all: bigint[] = [];
  for (let rest = amount; rest > 0n; rest -= maxAmount) all.push(rest > maxAmount ? maxAmount : rest);
  return all;
}

function closingOf({ head, context, periodId, through, atMs }: YearEnd, entries: Entry[], number: number): ValidatedPosting {
  const transactionId = newId('txn');
  const closing: ValidatedPosting = {
    kind: 'closing',
    tenantId: tenantId(head.tenant),
    tenant: head.tenant,
    transactionId,
    transaction: toUuid('txn', transactionId) as string,
    idempotencyKey: `closing-${periodId}-${number}`,
    fingerprint: Buffer.alloc(0),
    description: `Year end ${through}`,
    actor: context.actor,
    requestId: context.requestId,
    traceparent: context.traceparent ?? null,
    reference: null,
    entries,
    metadata: '{}',
    target: null,
    timeoutMs: 0,
    retry: false,
    bytes: 0,
    validUntilMs: null,
    dryRun: false,
    override: true,
    overrideReason: null,
    effectiveAt: atMs,
    origin: null,
    terms: null,
    options: null,
  };
  closing.fingerprint = fingerprint(closing, '{}');
  return closing;
}
