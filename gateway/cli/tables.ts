// Which fields of a list a table shows, by operation; others show the first that have a value.
import { parse } from 'csv-parse/sync';
import type { Item } from './output.ts';

const columns: Record<string, readonly string[]> = {
  listAccounts: ['account_code', 'name', 'type', 'currency', 'parent_code', 'status', 'version'],
  getHierarchy: ['account_code', 'name', 'type', 'currency', 'status'],
  listTransactions: ['transaction_id', 'effective_at', 'kind', 'amount', 'currency', 'description', 'reference', 'status'],
  listHolds: ['hold_id', 'status', 'amount', 'remaining', 'currency', 'description', 'expires_at'],
  listBalanceHistory: ['created_at', 'sequence', 'side', 'amount', 'balance_after', 'transaction_id'],
  listDeliveries: ['id', 'event_type', 'status', 'status_code', 'attempts', 'created_at', 'next_retry_at'],
  listEvents: ['sequence', 'created', 'type', 'id', 'actor'],
  listApiKeys: ['id', 'name', 'last4', 'scopes', 'expires_at', 'revoked_at'],
  listTenants: ['slug', 'name', 'business_type', 'role', 'status', 'id'],
  listMembers: ['user_id', 'email', 'role', 'totp_enabled', 'created_at'],
  listJobs: ['id', 'kind', 'status', 'created_at', 'expires_at'],
};

/** The table's columns for an operation. */
export const columnsOf = (operationId: string): readonly string[] | undefined => columns[operationId];

/** A tree as a list, the depth as blanks before the first field; a list as it is. */
export function flatTree(items: Item[], depth = 0): Item[] {
  return items.flatMap((item) => {
    const { children, ...own } = item;
    if (!Array.isArray(children)) return [item];
    return [{ ...own, account_code: '  '.repeat(depth) + String(own['account_code']) }, ...flatTree(children as Item[], depth + 1)];
  });
}

// What a report's CSV has for programs.
const forPrograms = ['type', 'parent_code', 'depth', 'is_group', 'folded', 'computed', 'section', 'group', 'account_id'];

/** A report's CSV as a table shows it: each row a record, the code as deep as its account; columns without a value are left out. */
export function reportRows(csv: string): { rows: Item[]; columns: string[] } {
  const records = parse<Record<string, string>>(csv, { columns: true, bom: true });
  const rows = records.map((record): Item => {
    const { depth = '1', account_code: code } = record;
    return code === undefined ? record : { ...record, account_code: '  '.repeat(Math.max(0, Number(depth) - 1)) + code };
  });
  const names = Object.keys(rows[0] ?? {}).filter((name) => !forPrograms.includes(name));
  return { rows, columns: names.filter((name) => rows.some((row) => row[name] !== '')) };
}
