// Changes of a tenant's books, each an event under its head.
import { create, toBinary } from '@bufbuild/protobuf';
import { BooksUpdatedSchema, type AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Books } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { inTransaction, type Client, type Connections } from '../platform/postgres.ts';
import { accountsByCode } from './account-reads.ts';
import { Refusal, type Reason } from './accounting.ts';
import { writeEvents } from './accounts.ts';
import { booksOf, defaultSettings, storeBooks, storedBooks, textOf, watchedBooks, type BooksSettings } from './books.ts';
import { nextPosition, type AuditContext } from './chart.ts';
import { invalid } from './fields.ts';
import { append, lockHead } from './log.ts';
import { declaredSince } from './metadata-indexes.ts';

/** A change of settings; undefined fields stay. */
export type BooksChange = { [Field in keyof BooksSettings]?: BooksSettings[Field] | undefined };

/**
 * Changes settings; without effect there is no event. `version`: changes only this one. Throws {@link Refusal}: `version_conflict`,
 * `validation_failed` with the tag `immutable` for the time zone while a period is closed, and `account_not_found`, `account_is_group`,
 * `account_is_system` or `account_closed` naming the field.
 */
export function updateBooks(
  pool: Connections,
  tenant: string,
  change: BooksChange,
  version: bigint | undefined,
  context: AuditContext,
): Promise<Books> {
  return inTransaction(pool, [tenant], async (client) => {
    // A tenant gets a head only with an event.
    const isNew = textOf(changed(defaultSettings, change)) !== textOf(defaultSettings);
    const locked = (await lockHead(client, tenant, false)) ?? (isNew ? await lockHead(client, tenant, true) : null);
    const before = await storedBooks(client, tenant);
    if (version !== undefined && version !== before.version) {
      throw refusalOf('version_conflict', `the books have version ${before.version}, not ${version}`, 'version', version.toString());
    }
    const settings = changed(before.settings, change);
    if (!locked || textOf(settings) === textOf(before.settings)) return booksOf(before, await watchedBooks(client, tenant));
    if (settings.timezone !== before.settings.timezone && before.closedThrough !== null) {
      throw invalid('timezone', 'immutable', settings.timezone, 'timezone can’t be changed while a period is closed');
    }
    await checkAccounts(client, tenant, change);
    const { head, nowMs } = locked;
    const { sequence, createdMs } = nextPosition(head, nowMs);
    const indexedSince = declaredSince(before.indexedSince, settings.indexed_metadata, sequence);
    const after = { ...before, settings, version: before.version + 1n, updatedMs: createdMs, indexedSince };
    await storeBooks(client, tenant, after);
    const payload = toBinary(BooksUpdatedSchema, create(BooksUpdatedSchema, { record: textOf(settings) }));
    await writeEvents(client, [append(head, { type: 'books.updated', ...context, payload }, nowMs)], head, nowMs);
    return booksOf(after, await watchedBooks(client, tenant));
  });
}

/** Refuses an account that can't take what was earned: it must be an open equity account, no group. */
export function checkRetained(code: string, account: AccountRecord | undefined): void {
  const field = 'retained_earnings_code';
  checkAccount(field, code, account);
  if (account?.isGroup) throw refusalOf('account_is_group', `account ${code} is a group, which takes no postings`, field, code);
  if (account?.status === 'closed') throw refusalOf('account_closed', `account ${code} is closed`, field, code);
  if (account?.type === 'equity') return;
  throw refusalOf('account_not_found', `there is no equity account ${code}: its type is ${account?.type ?? ''}`, field, code);
}

async function checkAccounts(client: Client, tenant: string, change: BooksChange): Promise<void> {
  const { retained_earnings_code: retained, cash_accounts: cash = [] } = change;
  const codes = [...new Set([...(retained === undefined ? [] : [retained]), ...cash])];
  if (codes.length === 0) return;
  const accounts = await accountsByCode(client, tenant, codes);
  if (retained !== undefined) checkRetained(retained, accounts.get(retained));
  cash.forEach((code, index) => checkAccount(`cash_accounts[${index}]`, code, accounts.get(code)));
}

function checkAccount(field: string, code: string, account: AccountRecord | undefined): void {
  if (!account) throw refusalOf('account_not_found', `account ${code} not found`, field, code);
  if (account.system) throw refusalOf('account_is_system', `account ${code} is a system account`, field, code);
}

function changed(settings: BooksSettings, change: BooksChange): BooksSettings {
  return { ...settings, ...Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) };
}

function refusalOf(reason: Reason, message: string, field: string, value: string): Refusal {
  return new Refusal(reason, message, { field, tag: reason, value });
}
