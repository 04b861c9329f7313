// A frozen tenant is repaired, verified and let go: the operator's command, and the event that it leaves.
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { openAudit, runCommand, type Audit } from '../../../test/audit.ts';
import { holdCalls, spend } from '../../../test/hold-commands.ts';
import { openLog } from '../../platform/telemetry.ts';
import { freezeTenant } from '../auditor/freeze.ts';

let audit: Audit;
let auditor: RunningAuditor;
const { one, done, tenantWith } = holdCalls(() => audit.ledger.client);

beforeAll(async () => {
  audit = await openAudit();
  auditor = await startAuditor(audit.ledger.database);
});
afterAll(async () => {
  await auditor.end();
  await audit.end();
});

const run = (...args: string[]) => {
  const { status, stdout, stderr } = runCommand(audit.ledger.database.ownerUrl, ...args);
  return { status, lines: `${stdout}${stderr}`.trim().split('\n') };
};

test('a tenant with differences stays frozen, and a repaired one goes on where it was', async () => {
  const { tenantId, tenant } = await tenantWith('100.00');
  const unfreeze = (...more: string[]) => run('unfreeze', '--tenant', tenantId, '--reason', 'restored by hand', ...more);
  expect(unfreeze()).toEqual({ status: 3, lines: ['the tenant is not frozen'] });
  expect(run('unfreeze', '--tenant', tenantId)).toMatchObject({
    status: 2,
    lines: [expect.stringContaining("'--reason <text>'"), expect.anything()],
  });
  expect(run('unfreeze', '--tenant', tenantId, '--reason', ' ')).toEqual({ status: 2, lines: ['--reason must have 1 to 1000 characters'] });
  expect(run('verify', '--reason', 'x').lines[0]).toContain('--reason');

  await audit.change(tenant, `update balances set debits = debits + 1 where tenant_id = $1 and debits > 0`);
  await freezeTenant(auditor.pool, openLog('test', 'silent'), tenant, 'a balance differs');
  const { frozen } = (await audit.ledger.client.getBooks({ tenantId })).books!;
  const refused = unfreeze();
  expect([refused.status, refused.lines.at(-1)]).toEqual([1, 'the tenant stays frozen']);
  expect(refused.lines[0]).toMatch(/balances .* debits is "100.01", by the log "100.00"/);
  expect((await one(tenantId, spend('1.00'))).refusal?.reason).toBe('books_frozen');

  expect(run('rebuild', '--tenant', tenantId).status).toBe(0);
  expect((await one(tenantId, spend('1.00'))).refusal?.reason).toBe('books_frozen');
  const ended = unfreeze('--rewound');
  expect(ended).toEqual({ status: 0, lines: ['verified, nothing differs: the tenant can be changed again, by event 6'] });
  const { books } = await audit.ledger.client.getBooks({ tenantId });
  expect(books).toMatchObject({ status: 'active' });
  expect(books?.frozen).toBeUndefined();
  expect((await done(tenantId, spend('1.00'))).transaction).toMatchObject({ sequence: 7n });
  const { events } = await audit.ledger.client.listEvents({ tenantId, afterSequence: 5n, limit: 1 });
  expect(events[0]).toMatchObject({
    ...{ type: 'books.unfrozen', sequence: 6n, actor: 'operator', requestId: '' },
    data: {
      value: { frozenMs: frozen!.atMs, frozenSequence: 5n, frozenReason: 'a balance differs', reason: 'restored by hand', rewound: true },
    },
  });
  expect(await audit.verified(tenant)).toEqual([]);
  expect(unfreeze()).toEqual({ status: 3, lines: ['the tenant is not frozen'] });
});
