// What the operator's commands report: findings, and differences between stored and replayed rows in words.
import { toId, type Prefix } from '../../platform/ids.ts';
import { toDecimal } from '../../platform/money.ts';
import type { Projection } from './projections.ts';

const maxReported = 100;

/** Counts all findings and reports the first, so that a damaged table does not fill the terminal. */
export class Findings {
  count = 0;
  private readonly report: (line: string) => void;

  constructor(report: (line: string) => void) {
    this.report = report;
  }

  add(line: string): void {
    this.count += 1;
    if (this.count <= maxReported) this.report(line);
    if (this.count === maxReported + 1) this.report('and more findings, which are not listed');
  }
}

/** A row that is stored otherwise than it was replayed, every value as text; null where there is no such row. */
export interface Difference {
  replayed: Record<string, string | null> | null;
  stored: Record<string, string | null> | null;
}

/** The columns of {@link Difference}. As text, because a JSON number beyond 2^53 would lose digits. */
export const differenceColumns = ['replayed', 'stored']
  .map((side) => `(select jsonb_object_agg(key, value) from jsonb_each_text(to_jsonb(${side}))) as ${side}`)
  .join(', ');

/** A difference in words: the row by its key, and every column that differs. */
export function describeDifference(table: Projection, { replayed, stored }: Difference): string {
  const shown = (column: string, row: Record<string, string | null> | null) => display(table.name, column, row?.[column]);
  const key = table.key
    .filter((column) => column !== 'tenant_id')
    .map((column) => `${column} ${String(shown(column, replayed ?? stored))}`)
    .join(', ');
  const where = `${table.name}${key === '' ? '' : ` (${key})`}`;
  if (!stored) return `${where} is missing`;
  if (!replayed) return `${where} has no event`;
  const columns = table.columns.filter((column) => stored[column] !== replayed[column]);
  const quoted = columns.map((column) => [column, JSON.stringify(shown(column, stored)), JSON.stringify(shown(column, replayed))]);
  return `${where}: ${quoted.map(([column, is, should]) => `${column} is ${is}, by the log ${should}`).join('; ')}`;
}

const amounts = ['amount', 'balance_after', 'debits', 'credits', 'pending_debits', 'pending_credits', 'captured', 'remaining'];
/** Tables whose `id` has another prefix than a transaction's; those of definitions are stored with it. */
const prefixes: Record<string, Prefix> = { accounts: 'acc', holds: 'hold', periods: 'period' };

/** A value as REST shows it: ids with their prefix, amounts with two decimals. */
function display(table: string, column: string, value: string | null | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (amounts.includes(column)) return decimalOf(value);
  if (column === 'account_id') return toId('acc', value);
  return (column === 'id' && table !== 'definitions') || column === 'reverses' ? toId(prefixes[table] ?? 'txn', value) : value;
}

/** Minor units as a decimal; any other text as it is. */
export function decimalOf(value: string): string {
  return /^-?[0-9]+$/.test(value) ? toDecimal(BigInt(value)) : value;
}

/** `1 tenant`, `2 tenants`. */
export function pluralize(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
