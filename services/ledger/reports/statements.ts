// Account statements and the general ledger: entries between two times, with opening, running and closing balances.
import type { Client } from '../../platform/postgres.ts';
import type { Snapshot } from '../auditor/snapshot.ts';
import { net, type Side } from '../accounting.ts';
import { unknownAccount } from '../account-reads.ts';
import { currencyOf } from '../balances.ts';
import { entriesInOrder, type DatedEntry, type LineRange } from '../effective-lines.ts';
import { placesOf, totalsAt, type Bound, type Total } from '../totals.ts';
import { readChart, tooLarge, type ReportBounds } from './accounts-report.ts';
import type { Heading } from './heading.ts';
import { mustHold } from './identities.ts';
import type { Chart, PlacedAccount } from './lines.ts';
import type { PageStart, Pages } from './pages.ts';
import type { Parameters, Statement, StatementLine, StatementsReport } from './report.ts';

/** Makes an account statement or the general ledger. Throws {@link Refusal} `account_not_found`, `account_is_group`, and those of currencies. */
export async function makeStatements(snapshot: Snapshot, heading: Heading, bounds: ReportBounds, pages: Pages): Promise<StatementsReport> {
  const { parameters, asRecorded, timeZone } = heading;
  const reader = new StatementReader(snapshot, parameters, bounds, pages);
  const accounts =
    parameters.report === 'account-statement'
      ? [await oneAccount(snapshot, parameters)]
      : await accountsBelow(snapshot, parameters.accountCodes);
  const wanted = await reader.withTotals(accounts);
  return {
    ...{ kind: 'statements', parameters, asRecorded, timeZone },
    statements: reader.statements(wanted),
    nextCursor: () => reader.nextCursor,
  };
}

/** An account whose entries are read. */
interface Account {
  /** UUID. */
  id: string;
  code: string;
  name: string;
  type: string;
  normalBalance: Side;
  /** The only one that is wanted; null: all that it has entries in. */
  currency: string | null;
  /** Shown also without any amount. */
  isAlways: boolean;
}

/** One statement before its lines are read. */
interface Wanted {
  account: Account;
  currency: string;
  opening: Total;
  closing: Total;
}

const nothing: Total = { debits: 0n, credits: 0n };

async function oneAccount({ client, tenant }: Snapshot, { accountCodes, currency }: Parameters): Promise<Account> {
  const [code = ''] = accountCodes;
  const { rows } = await client.query<Account & { normal_balance: Side; is_group: boolean }>(
    'select id, code, name, type, normal_balance, currency, is_group from accounts where tenant_id = $1 and code = $2',
    [tenant, code],
  );
  const row = rows[0];
  if (!row) throw unknownAccount(code);
  return { ...row, normalBalance: row.normal_balance, currency: currencyOf(code, row, currency ?? ''), isAlways: true };
}

/** The accounts of these codes, of groups all below; without codes all, in the order of the chart. */
async function accountsBelow({ client, tenant }: Snapshot, codes: string[]): Promise<Account[]> {
  const chart = await readChart(client, tenant);
  const byCode = new Map([...chart.values()].map((account) => [account.code, account]));
  const roots = new Set(
    codes.map((code) => {
      const account = byCode.get(code);
      if (!account) throw unknownAccount(code);
      return account.id;
    }),
  );
  const wanted = [...chart.values()].filter((account) => !account.isGroup && (roots.size === 0 || isBelow(chart, account, roots)));
  const { rows } = await client.query<{ id: string; normal_balance: Side }>(
    'select id, normal_balance from accounts where tenant_id = $1',
    [tenant],
  );
  const sides = new Map(rows.map((row) => [row.id, row.normal_balance]));
  return wanted.map(({ id, code, name, type }) => ({
    id,
    code,
    name,
    type,
    normalBalance: sides.get(id) as Side,
    currency: null,
    isAlways: false,
  }));
}

/** Whether an account is one of these, or in a group of these. */
export function isBelow(chart: Chart, account: PlacedAccount, roots: ReadonlySet<string>): boolean {
  for (let at: PlacedAccount | undefined = account; at; at = chart.get(at.parent ?? '')) if (roots.has(at.id)) return true;
  return false;
}

/** What is recorded before a report's period and until its end: effective times, or places in the log in posted order. Null: from the beginning. */
export async function edgesOf(client: Client, tenant: string, parameters: Parameters): Promise<{ before: Bound | null; until: Bound }> {
  const { order, fromMs, toMs, knownSequence } = parameters;
  if (order === 'effective') {
    const at = (effectiveMs: number): Bound => ({ effectiveMs, sequence: knownSequence });
    return { before: fromMs === null ? null : at(fromMs - 1), until: at(toMs) };
  }
  const { places } = await placesOf(client, tenant, fromMs === null ? [toMs] : [toMs, fromMs - 1]);
  const at = (place: bigint): Bound => ({ effectiveMs: Infinity, sequence: place < knownSequence ? place : knownSequence });
  return { before: places[1] === undefined ? null : at(places[1]), until: at(places[0] as bigint) };
}

/** Reads statements one after the other, as many lines as the page has. */
class StatementReader {
  nextCursor = '';
  private readonly snapshot: Snapshot;
  private readonly parameters: Parameters;
  private readonly bounds: ReportBounds;
  private readonly pages: Pages;
  private lines = 0;

  constructor(snapshot: Snapshot, parameters: Parameters, bounds: ReportBounds, pages: Pages) {
    this.snapshot = snapshot;
    this.parameters = parameters;
    this.bounds = bounds;
    this.pages = pages;
  }

  /** The statements of accounts: those that have moved until the end. */
  async withTotals(accounts: Account[]): Promise<Wanted[]> {
    const { client, tenant } = this.snapshot;
    const { before, until } = await edgesOf(client, tenant, this.parameters);
    const ids = this.parameters.accountCodes.length === 0 ? undefined : accounts.map(({ id }) => id);
    const totals = await totalsAt(client, tenant, before === null ? [until] : [until, before], ids);
    const currencies = Map.groupBy(
      totals.flatMap((each) => [...each.keys()]).map((key) => key.split(' ')),
      ([id]) => id,
    );
    return accounts.flatMap((account) => {
      const moved = new Set(currencies.get(account.id)?.map(([, currency = '']) => currency));
      const only = account.currency ?? this.parameters.currency;
      const own = only === null ? [...moved].sort() : account.isAlways || moved.has(only) ? [only] : [];
      return own.map((currency): Wanted => {
        const key = `${account.id} ${currency}`;
        return { account, currency, opening: totals[1]?.get(key) ?? nothing, closing: totals[0]?.get(key) ?? nothing };
      });
    });
  }

  async *statements(wanted: Wanted[]): AsyncGenerator<Statement> {
    const { start } = this.pages;
    const first = wanted.findIndex(
      ({ account, currency }) => account.id === start?.statement?.account && currency === start.statement.currency,
    );
    for (const [index, each] of wanted.slice(Math.max(first, 0)).entries()) {
      const { account, currency, opening, closing } = each;
      if (this.isFull) {
        this.endPage({ statement: { account: account.id, currency }, after: null, running: 0n });
        return;
      }
      const debits = closing.debits - opening.debits;
      const credits = closing.credits - opening.credits;
      const hasLines = debits !== 0n || credits !== 0n;
      // One without lines counts as one, so that pages end.
      if (!hasLines) this.count();
      yield {
        ...{ accountCode: account.code, name: account.name, type: account.type, currency },
        ...{ openingBalance: net(account, opening), closingBalance: net(account, closing), debits, credits },
        lines: hasLines ? this.linesOf(each, index === 0 && first >= 0 ? start : null) : [],
      };
      if (this.nextCursor !== '') return;
    }
  }

  private async *linesOf(wanted: Wanted, start: PageStart | null): AsyncGenerator<StatementLine> {
    const { account, currency, opening, closing } = wanted;
    const { client, tenant } = this.snapshot;
    const { order, limit } = this.parameters;
    let after = start?.after ?? null;
    let running = after === null ? net(account, opening) : (start as PageStart).running;
    const range: LineRange = { ...rangeOf(this.parameters), after: after ?? undefined, account: { id: account.id, currency } };
    if (limit !== null) range.pageSize = limit - this.lines + 1;
    for await (const each of entriesInOrder(client, tenant, range)) {
      if (this.isFull) {
        this.endPage({ statement: { account: account.id, currency }, after, running });
        return;
      }
      const { sequence, effectiveMs, position, entry } = each;
      const amount = minorOf(entry.amount);
      running += entry.side === account.normalBalance ? amount : -amount;
      if (order === 'posted')
        mustHold(running === minorOf(entry.balanceAfter), `the balance of ${account.code} is not that of entry ${sequence}`);
      this.count();
      after = { effectiveMs, sequence, position };
      yield lineOf(each, amount, running);
    }
    mustHold(running === net(account, closing), `opening and lines of ${account.code} (${currency}) are not its closing`);
  }

  private get isFull(): boolean {
    return this.parameters.limit !== null && this.lines >= this.parameters.limit;
  }

  private count(): void {
    this.lines += 1;
    if (this.lines > this.bounds.maxLines) throw tooLarge(`has more than ${this.bounds.maxLines} lines`);
  }

  private endPage(start: PageStart): void {
    this.nextCursor = this.pages.cursorAt(this.parameters, start);
  }
}

/** The entries or transactions of a report's period. */
export function rangeOf({ order, fromMs, toMs, knownSequence }: Parameters): LineRange {
  return { order, fromMs: fromMs ?? 0, toMs, sequence: knownSequence };
}

function lineOf({ event, sequence, effectiveMs, createdMs, entry }: DatedEntry, amount: bigint, runningBalance: bigint): StatementLine {
  const { transactionId, description, reference = null } = event;
  return { transactionId, sequence, effectiveMs, createdMs, description, reference, side: entry.side as Side, amount, runningBalance };
}

/** Minor units of an amount or a balance of an event, which has always two fraction digits. */
export function minorOf(decimal: string): bigint {
  return BigInt(decimal.replace('.', ''));
}
