// Verification of trees and checkpoints, and their repair.
import { openAudit, type Audit } from '../../../test/audit.ts';
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { entries, newTenant } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { toId } from '../../platform/ids.ts';

let audit: Audit;
let auditor: RunningAuditor;
const { tenantId, tenant } = newTenant();
const events = 600;

beforeAll(async () => {
  audit = await openAudit();
  const { client } = audit.ledger;
  for (const accountCode of ['a', 'b']) await client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const posting = { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') };
  for (let posted = 2; posted < events; posted += 46)
    await Promise.all(Array.from({ length: Math.min(46, events - posted) }, () => client.postTransaction({ posting })));
  auditor = await startAuditor(audit.ledger.database, { signEveryMs: 50 });
  await signed();
  await auditor.end();
});
afterAll(() => audit.end());

const owned = async <Row extends object>(text: string) => {
  await audit.change(tenant);
  return (await audit.owner.query<Row>(text, [tenant])).rows;
};
/** Waits until the whole log is in the tree and signed. */
const signed = () =>
  until(
    () => owned<{ size: string }>(`select max(size)::text as size from checkpoints where tenant_id = $1`),
    ([row]) => row?.size === String(events),
  );
/** Waits until the tree has the whole log. */
const followed = () =>
  until(
    () => owned<{ size: string }>(`select size::text from trees where tenant_id = $1`),
    ([row]) => row?.size === String(events),
  );

test.each([
  ['set a tile', `update tiles set hashes = set_byte(hashes, 40, 7) where tenant_id = $1`, 'tile 1/0 of the tree differs from the log'],
  [
    'shorten a tile',
    `update tiles set hashes = substring(hashes for 32) where tenant_id = $1`,
    'tile 1/0 of the tree differs from the log',
  ],
  ['delete a tile', `delete from tiles where tenant_id = $1`, 'tile 1/0 of the tree differs from the log'],
  [
    'add a tile',
    `insert into tiles select tenant_id, 2, 0, hashes from tiles where tenant_id = $1`,
    `the tree of ${events} events has 2 tiles, not 1`,
  ],
  [
    'change the hash of the tree',
    `update trees set hash = set_byte(hash, 0, (get_byte(hash, 0) + 1) % 256) where tenant_id = $1`,
    `the tree ends at event ${events} with another hash than the log has there`,
  ],
  [
    'move the tree',
    `update trees set size = 900 where tenant_id = $1`,
    'the tree ends at event 900 with another hash than the log has there',
  ],
  ['delete the tree', `delete from trees where tenant_id = $1`, 'the tree of 0 events has 1 tiles, not 0'],
  ['move the origin', `update trees set origin = 2 where tenant_id = $1`, 'the tree has the origin 2, and no event has rewound the log'],
])('%s: it is found, made again, and proves as before', async (_, damage, finding) => {
  await audit.change(tenant, damage);
  const found = `${toId('tenant', tenant)}: ${finding}`;
  expect(await audit.verified(tenant)).toContain(found);
  expect(await audit.checked(tenant)).toContain(found);
  expect(await audit.rebuilt(tenant)).toContain(found.replace(': ', ': repaired: '));
  const again = await startAuditor(audit.ledger.database, { signEveryMs: 50 });
  await followed();
  await again.end();
  expect(await audit.verified(tenant)).toEqual([]);
});

test('a checkpoint that differs from the log is found, and no rebuild hides it', async () => {
  const prefixed = (from: string, to: string) => `update checkpoints set note = replace(note, '${from}', '${to}') where tenant_id = $1`;
  const size = [`\n${events}\n`, `\n9${events}\n`] as const;
  await audit.change(tenant, prefixed(...size));
  expect(await audit.verified(tenant)).toEqual([`${toId('tenant', tenant)}: the checkpoint of ${events} events has a note of another one`]);
  await audit.change(tenant, prefixed(size[1], size[0]));
  await audit.change(tenant, `update checkpoints set root = set_byte(root, 0, (get_byte(root, 0) + 1) % 256) where tenant_id = $1`);
  const found = `${toId('tenant', tenant)}: the checkpoint of ${events} events has another root than the log`;
  expect([await audit.verified(tenant), await audit.checked(tenant)]).toEqual([[found], [found]]);
  expect(await audit.rebuilt(tenant)).toContain(found);
  expect(await audit.verified(tenant)).toEqual([found]);
});
