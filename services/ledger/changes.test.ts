// What the postings of a batch change.
import { fromBinary } from '@bufbuild/protobuf';
import { AccountCreatedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { debit, double, posted } from '../../test/posting-requests.ts';
import { newId, newUuid, tenantUuid, toId } from '../platform/ids.ts';
import type { TenantState } from './account-cache.ts';
import { Changes } from './changes.ts';
import { chainHash, genesisHash } from './log.ts';
import { decodePosted } from './mapping.ts';

function stateOf(tenant: string): TenantState {
  const account = (code: string) => {
    const uuid = newUuid();
    const flags = { isGroup: false, allowNegative: true, closed: false, system: false };
    return [
      code,
      { account: { id: toId('acc', uuid), uuid, code, normalBalance: 'debit' as const, currency: null, ...flags }, balances: new Map() },
    ] as const;
  };
  const head = { tenant: tenantUuid(tenant) as string, sequence: 7n, hash: genesisHash, lastMs: 0, chart: null, rebuilt: 0n };
  return { head, accounts: new Map([account('CASH'), account('SALES')]) };
}

test('each event is chained to the one before it of its tenant, however tenants, new accounts and postings are mixed', () => {
  const [one, other] = [newId('tenant'), newId('tenant')];
  const states = new Map([one, other].map((tenant) => [tenant, stateOf(tenant)]));
  const postings = [
    { ...double, tenantId: one },
    { tenantId: other, entries: [debit] },
    { tenantId: one, entries: [debit] },
    { ...double, tenantId: other },
    { tenantId: other, entries: [debit] },
  ].map((init) => posted(init));
  const changes = new Changes();
  const post = (posting: (typeof postings)[number]) => changes.post(states.get(posting.tenantId)!, posting, null, 1_700_000_000_000);
  const transactions = postings.map(post);

  const { log } = changes;
  expect(log.map(({ type }) => type.split('.')[0])).toEqual([
    ...['transaction', 'account', 'transaction', 'account', 'transaction'],
    ...['transaction', 'transaction'],
  ]);
  for (const tenant of [one, other]) {
    const { head } = states.get(tenant)!;
    const rows = log.filter((row) => row.tenant === head.tenant);
    expect(rows.map(({ sequence }) => sequence)).toEqual(rows.map((_, index) => 8n + BigInt(index)));
    for (const [index, row] of rows.entries()) expect(row.hash).toEqual(chainHash(rows[index - 1]?.hash ?? genesisHash, row));
    expect(head).toMatchObject({ sequence: rows.at(-1)!.sequence, hash: rows.at(-1)!.hash });
  }
  for (const [index, { posting, row }] of changes.posted.entries()) {
    expect(posting).toBe(postings[index]);
    expect(log[row]!.sequence).toBe(transactions[index]!.sequence);
    expect(decodePosted(log[row]!.payload).transactionId).toBe(posting.transactionId);
  }
  const changed = new Map(changes.balances.map((each) => [`${each.tenant} ${each.account.code}`, each]));
  expect(changed.size).toBe(changes.balances.length);
  expect(changes.balances.map(({ account }) => account.code)).toEqual(['CASH', 'SALES', 'CASH', 'SUSPENSE-NGN', 'SUSPENSE-NGN', 'SALES']);
  for (const tenant of [one, other]) {
    const { head, accounts } = states.get(tenant)!;
    for (const [code, { account, balances }] of accounts) {
      const after = balances.get('NGN')!;
      expect(changed.get(`${head.tenant} ${code}`)).toEqual({
        ...{ tenant: head.tenant, account, currency: 'NGN', from: 0n, after, atMs: 1_700_000_000_000 },
      });
      expect(after.version).toBe({ CASH: tenant === one ? 2n : 3n, SALES: 1n, 'SUSPENSE-NGN': tenant === one ? 1n : 2n }[code]);
    }
  }
  const made = log.filter(({ type }) => type === 'account.created').map(({ payload }) => fromBinary(AccountCreatedSchema, payload));
  expect(made.map(({ account }) => account?.accountCode)).toEqual(['SUSPENSE-NGN', 'SUSPENSE-NGN']);
});
