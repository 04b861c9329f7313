// The model of a tenant's chart of accounts and of all reads, written from the specification.
import type { LedgerModel } from './ledger-model.ts';
import { Learned, difference, valueOf, type Expected, type Refused } from './expectation.ts';
import { currencies, decimal, newAccount, type Account, type By, type Line, type Totals, type Transaction } from './records.ts';

const refused = (...faults: Refused[]): Expected => ({ refused: faults });
const unknownAccount = refused({ code: 'account_not_found' });
const types = ['asset', 'liability', 'equity', 'revenue', 'expense'];

/** Why an account does not accept this entry, or null. */
export function rejectionOf({ currency }: Line, account: Account | undefined, single: boolean): string | null {
  if (!account) return 'account_not_found';
  if (account.status === 'closed') return 'account_closed';
  if (account.is_group) return 'account_is_group';
  if (single && account.system) return 'account_is_system';
  return account.currency !== null && account.currency !== currency ? 'currency_not_allowed' : null;
}

/** Creates an account. */
export function open(ledger: LedgerModel, body: Record<string, any> & { account_code: string; type: string }, by: By): Expected {
  const { account_code, parent_code } = body;
  if (ledger.accounts.has(account_code)) return refused({ code: 'account_code_taken' });
  const parent = parent_code == null ? null : ledger.accounts.get(parent_code);
  const blame = { field: 'parent_code', value: parent_code };
  if (parent === undefined) return refused({ code: 'account_not_found', tag: 'account_not_found', ...blame });
  const fits = parent === null || (parent.is_group && parent.type === body.type && parent.status === 'active');
  if (!fits) return refused({ code: 'parent_invalid', tag: 'parent_invalid', ...blame });
  const account = newAccount(body);
  ledger.record(account, 'account.created', by);
  return { status: 201, data: { account } };
}

/** Changes an account; without a difference nothing happens, and there is no event. */
export function change(ledger: LedgerModel, code: string, { version, ...wanted }: Record<string, any>, by: By): Expected {
  const account = ledger.accounts.get(code);
  if (!account) return unknownAccount;
  if (account.system) return refused({ code: 'account_is_system' });
  if (version != null && version !== account.version) return refused({ code: 'version_conflict', tag: 'version_conflict', value: version });
  const names = ['name', 'parent_code', 'description', 'allow_negative', 'status', 'metadata'] as const;
  const changes = names.filter((name) => wanted[name] != null && difference(wanted[name], account[name]) !== null);
  if (changes.length === 0) return { status: 200, data: { account } };
  const faults = changes.flatMap((name) => misfits(ledger, account, name, wanted[name]));
  if (faults.length > 0) return refused(...faults);
  const values = Object.fromEntries(changes.map((name) => [name, wanted[name]]));
  const after: Account = { ...account, ...values, version: account.version + 1, updated_at: new Learned('time') };
  ledger.record(after, 'account.updated', by, { changes });
  return { status: 200, data: { account: after } };
}

function misfits(ledger: LedgerModel, account: Account, name: string, value: unknown): Refused[] {
  const code = account.account_code;
  const fault = (reason: string): Refused[] => [{ code: reason, field: name, tag: reason, value }];
  const totals = currencies.map((currency) => ledger.totalsOf(code, currency));
  const isShort = totals.some((each) => ledger.available(account, each) < 0n);
  if (name === 'allow_negative') return value === false && isShort ? fault('insufficient_funds') : [];
  if (name === 'parent_code') {
    const parent = ledger.accounts.get(value as string);
    if (!parent) return fault('account_not_found');
    const fits = parent.is_group && parent.type === account.type && parent.status === 'active';
    return fits && !isBelow(ledger, parent, code) ? [] : fault('parent_invalid');
  }
  if (name !== 'status') return [];
  const below = [...ledger.accounts.values()].some((each) => each.parent_code === code && each.status === 'active');
  const isUsed = totals.some((each) => ledger.net(account, each) !== 0n || each.pending.debit + each.pending.credit > 0n);
  if (value === 'closed') return below || isUsed ? fault('account_not_empty') : [];
  const parent = ledger.accounts.get(account.parent_code ?? '');
  return parent?.status === 'closed' ? fault('parent_invalid') : [];
}

function isBelow(ledger: LedgerModel, account: Account, code: string): boolean {
  for (let each: Account | undefined = account; each; each = ledger.accounts.get(each.parent_code ?? '')) {
    if (each.account_code === code) return true;
  }
  return false;
}

/** What chart set-up must answer; undefined: it creates accounts, which `takeChart` checks. */
export function setUp(ledger: LedgerModel, businessType: string): Expected | undefined {
  if (ledger.chart === businessType) return { status: 200, data: { business_type: businessType } };
  return ledger.chart === null ? undefined : refused({ code: 'chart_exists' });
}

/** Adds a template's accounts as the cluster returned them; returns what the specification forbids, or null. */
export function takeChart(ledger: LedgerModel, businessType: string, shown: Account[], by: By): string | null {
  for (const each of shown) {
    const before = ledger.accounts.get(each.account_code);
    if (before && !before.system) return `set-up took the code ${each.account_code}, which was taken`;
    const given = { ...each, id: before?.id ?? new Learned('acc'), updated_at: new Learned('time') };
    const made = { ...newAccount({ ...each }), system: each.system, normal_balance: each.normal_balance };
    const account = before ? { ...before, parent_code: each.parent_code, version: before.version + 1 } : made;
    const wrong = difference({ ...account, id: given.id, updated_at: given.updated_at }, each, each.account_code);
    if (wrong !== null) return wrong;
    const parent = each.parent_code === null ? undefined : ledger.accounts.get(each.parent_code);
    if (each.parent_code !== null && (!parent?.is_group || parent.type !== each.type)) {
      return `${each.account_code} is below ${each.parent_code}, which is no group of its type`;
    }
    const event = before ? 'account.updated' : 'account.created';
    const record = { ...account, id: given.id, updated_at: given.updated_at };
    ledger.record(record, event, by, before ? { changes: ['parent_code'] } : {});
  }
  ledger.chart = businessType;
  return missing(ledger, businessType);
}

function missing(ledger: LedgerModel, businessType: string): string | null {
  const system = { type: 'liability', system: true, allow_negative: true, is_group: false, status: 'active' };
  const hasFx = ['wallet', 'exchange', 'payment_processor'].includes(businessType);
  for (const currency of currencies) {
    for (const code of [`SUSPENSE-${currency}`, ...(hasFx ? [`FX-POSITION-${currency}`] : [])]) {
      const wrong = difference({ ...system, currency }, ledger.accounts.get(code), code);
      if (wrong !== null) return wrong;
    }
  }
  if (businessType === 'wallet' && ledger.accounts.size <= 25) return `a wallet's chart of ${ledger.accounts.size} accounts`;
  return difference({ type: 'equity', is_group: false }, ledger.accounts.get('OPENING-BALANCES'), 'OPENING-BALANCES');
}

export function account(ledger: LedgerModel, code: string): Expected {
  const found = ledger.accounts.get(code);
  return found ? { status: 200, data: { account: found } } : unknownAccount;
}

/** All matching accounts, newest first; answers are pages of it. */
export function accounts(ledger: LedgerModel, filter: { type?: string; status?: string; parent_code?: string }): Account[] {
  // A changed account keeps its position.
  const fits = (each: Account) => Object.entries(filter).every(([name, value]) => each[name as keyof typeof filter] === value);
  return [...ledger.accounts.values()].filter(fits).reverse();
}

/** The chart as a tree, each level sorted by code. */
export function hierarchy(ledger: LedgerModel, parent: string | null, balances: boolean): any[] {
  const here = [...ledger.accounts.values()].filter((each) => each.parent_code === parent);
  return inOrder(here).map((each) => {
    const children = hierarchy(ledger, each.account_code, balances);
    const node = { ...each, children, children_count: children.length };
    return balances ? { ...node, balances: totalsBelow(ledger, each) } : node;
  });
}

/** An answered tree, sorted the same way. */
export function inOrder<Node extends { account_code: string; children?: any[] }>(nodes: Node[]): Node[] {
  const order = (one: Node, two: Node) => (one.account_code < two.account_code ? -1 : 1);
  return nodes.map((node) => (node.children ? { ...node, children: inOrder(node.children) } : node)).sort(order);
}

function totalsBelow(ledger: LedgerModel, top: Account): object[] {
  const codes = [top.account_code];
  for (const code of codes) {
    for (const each of ledger.accounts.values()) if (each.parent_code === code) codes.push(each.account_code);
  }
  return currencies.flatMap((currency) => {
    const all = codes.map((code) => ledger.totalsOf(code, currency));
    if (all.every(({ version }) => version === 0)) return [];
    const debit = all.reduce((sum, each) => sum + each.debit, 0n);
    const credit = all.reduce((sum, each) => sum + each.credit, 0n);
    const balance = decimal(ledger.net(top, { ...all[0]!, debit, credit }));
    return [{ currency, debits: decimal(debit), credits: decimal(credit), balance }];
  });
}

// The account and currency whose balance the path names, or why there is none.
function holder(
  ledger: LedgerModel,
  code: string,
  currency: string | undefined,
): { refused: Refused[] } | { account: Account; currency: string } {
  const found = ledger.accounts.get(code);
  if (!found) return { refused: [{ code: 'account_not_found' }] };
  const own = currency ?? found.currency;
  const faults: Refused[] = [];
  if (found.is_group) faults.push({ code: 'account_is_group' });
  if (own === null) faults.push({ code: 'validation_failed', field: 'currency', tag: 'required' });
  else if (found.currency !== null && found.currency !== own) faults.push({ code: 'currency_not_allowed' });
  return faults.length > 0 || own === null ? { refused: faults } : { account: found, currency: own };
}

export function balance(ledger: LedgerModel, code: string, wanted?: string): Expected {
  const found = holder(ledger, code, wanted);
  if ('refused' in found) return found;
  const { account: named, currency } = found;
  const totals = ledger.totalsOf(code, currency);
  const untouched = totals.version === 0 ? { updated_at: null } : {};
  return { status: 200, data: { balance: { ...balanceOf(ledger, named, currency, totals), ...untouched } } };
}

/** A balance as answers and events show it, after these totals. */
export function balanceOf(ledger: LedgerModel, account: Account, currency: string, totals: Totals): Record<string, unknown> {
  const { debit, credit, pending, version } = totals;
  return {
    ...{ account_id: account.id, account_code: account.account_code, currency, version },
    ...{ balance: decimal(ledger.net(account, totals)), available: decimal(ledger.available(account, totals)) },
    ...{ debits: decimal(debit), credits: decimal(credit) },
    ...{ pending_debits: decimal(pending.debit), pending_credits: decimal(pending.credit) },
  };
}

/** Days, `YYYY-MM-DD`: the first included, and the first excluded. */
export interface Days {
  start_date?: string | undefined;
  end_date?: string | undefined;
}

function within({ start_date = '', end_date = '9' }: Days, { created_at }: Transaction): boolean {
  const day = created_at.known().slice(0, 10);
  return day >= start_date && day < end_date;
}

/** All entries of an account in a currency, newest first; or why there are none. */
export function history(ledger: LedgerModel, code: string, wanted: string, days: Days): { refused: Refused[] } | object[] {
  const found = holder(ledger, code, wanted);
  if ('refused' in found) return found;
  const some = ledger.transactions.filter((each) => within(days, each));
  const all = some.flatMap(({ transaction_id, sequence, entries, created_at }) =>
    entries
      .filter((entry) => entry.account_code === code && entry.currency === wanted)
      .map(({ side, amount, balance_after }) => ({ transaction_id, sequence, side, amount, balance_after, created_at })),
  );
  return all.reverse();
}

/** Newest first. */
export function transactions(
  ledger: LedgerModel,
  filter: {
    account_code?: string;
    currency?: string;
    hold_id?: string;
    reference?: string;
    idempotency_key?: string;
    kind?: string;
  } & Days,
): Transaction[] {
  const { account_code, currency, hold_id, start_date, end_date, ...own } = filter;
  const fits = (each: Transaction) =>
    within({ start_date, end_date }, each) &&
    Object.entries(own).every(([name, value]) => valueOf(each[name as keyof typeof own]) === value) &&
    (hold_id === undefined || each.origin?.hold_id.known() === hold_id) &&
    (account_code === undefined || each.entries.some((entry) => entry.account_code === account_code)) &&
    (currency === undefined || each.entries.some((entry) => entry.currency === currency));
  return ledger.transactions.filter(fits).reverse();
}

/** A type of account other than this one. */
export function anotherType(type: string): string {
  return types[(types.indexOf(type) + 1) % types.length]!;
}
