// Reads accounts: one, some by their codes, and pages of them.
import type { AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import { cutPage, uuidPosition, type CursorScope } from '../platform/cursor.ts';
import { readTenant, type Client, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { accountColumns, recordOf, type AccountRow } from './chart.ts';
import { positionOf, type Page } from './page.ts';

/** One account. Throws {@link Refusal}: `account_not_found`. */
export async function getAccount(pool: Connections, tenant: string, code: string): Promise<AccountRecord> {
  const [rows] = await readTenant<[AccountRow[]]>(pool, tenant, {
    name: 'get_account',
    text: `select ${accountColumns} from accounts a where a.tenant_id = $1 and a.code = $2`,
    values: [tenant, code],
  });
  if (!rows[0]) throw unknownAccount(code);
  return recordOf(rows[0]);
}

/** Which accounts are listed; null: all. */
export interface AccountFilter {
  type: string | null;
  status: string | null;
  parentCode: string | null;
}

/** A page of accounts, newest first (identifiers are ordered by time). Throws {@link Refusal} for a bad cursor. */
export async function listAccounts(
  pool: Connections,
  tenant: string,
  filter: AccountFilter,
  { limit, cursor }: Page,
): Promise<{ accounts: AccountRecord[]; nextCursor: string }> {
  const scope: CursorScope = ['accounts', tenant, filter];
  const before = positionOf(scope, cursor, uuidPosition) ?? 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  const { type, status, parentCode } = filter;
  const values = [tenant, before, type, status, limit + 1];
  const [rows] = await readTenant<[AccountRow[]]>(pool, tenant, {
    name: parentCode === null ? 'list_accounts' : 'list_accounts_below',
    // A parameter that may be null (`$6 is null or …`) could not use the index of parents.
    text: `select ${accountColumns} from accounts a
      where a.tenant_id = $1 and a.id < $2 and ($3::text is null or a.type = $3) and ($4::text is null or a.status = $4)
        ${parentCode === null ? '' : 'and a.parent_code = $6'}
      order by a.id desc limit $5`,
    values: parentCode === null ? values : [...values, parentCode],
  });
  const page = cutPage(rows, limit, scope, (row) => row.id);
  return { accounts: page.rows.map(recordOf), nextCursor: page.nextCursor };
}

/** The refusal of a request whose own path names an unknown account. */
export function unknownAccount(code: string): Refusal {
  return new Refusal('account_not_found', `account ${code} not found`);
}

/** Those of the accounts that exist, by code, for a caller whose SQL transaction sees the tenant's rows. */
export async function accountsByCode(client: Client, tenant: string, codes: string[]): Promise<Map<string, AccountRecord>> {
  const { rows } = await client.query<AccountRow>({
    name: 'accounts_by_code',
    // `offset 0`: each by its whole key. With `= any`, PostgreSQL 15 may read all accounts of a tenant.
    text: `select ${accountColumns} from unnest($2::text[]) as wanted (code),
      lateral (select * from accounts where tenant_id = $1 and code = wanted.code offset 0) a`,
    values: [tenant, codes],
  });
  return new Map(rows.map((row) => [row.code, recordOf(row)]));
}
