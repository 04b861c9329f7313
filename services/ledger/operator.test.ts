// What both `verify` and `rebuild --check` do beside comparing the projections.
import { spawnSync } from 'node:child_process';
import pg from 'pg';
import { entries, newTenant, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { openOperator } from './operator.ts';
import { rebuild } from './rebuild.ts';
import { verify } from './verify.ts';

let ledger: RunningLedger;
let owner: pg.Client;
let operator: pg.Client;

beforeAll(async () => {
  ledger = await startLedger();
  owner = new pg.Client({ connectionString: ledger.database.ownerUrl });
  await owner.connect();
  operator = await openOperator(ledger.database.ownerUrl);
});

afterAll(async () => {
  await operator.end();
  await owner.end();
  await ledger.end();
});

/** A tenant with a log of three events. */
async function live(): Promise<ReturnType<typeof newTenant>> {
  const made = newTenant();
  const { tenantId } = made;
  for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  await ledger.client.postTransaction({ posting: { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } });
  return made;
}

/** Runs statements on one tenant's rows, `$1`. */
async function change(tenant: string, ...statements: string[]): Promise<void> {
  await owner.query(`select set_config('app.tenants', $1, false)`, [`{${tenant}}`]);
  for (const statement of statements) await owner.query(statement, [tenant]);
}

/** What `verify` and `rebuild --check` say. */
async function said(only?: string): Promise<{ verified: string[]; checked: string[] }> {
  const [verified, checked]: [string[], string[]] = [[], []];
  await verify(operator, only, (line) => verified.push(line));
  await rebuild(operator, { tenant: only, check: true }, (line) => checked.push(line));
  return { verified, checked };
}

const everything = ['log', 'balances', 'entries', 'transactions', 'accounts', 'heads'].map(
  (name) => `delete from ${name} where tenant_id = $1`,
);

describe('how far the log was published', () => {
  test('is at or below the head of each tenant', async () => {
    const { tenant, tenantId } = await live();
    expect(await said(tenant)).toEqual({ verified: [], checked: [] });
    await change(tenant, 'update relay_marks set sequence = 3 where tenant_id = $1');
    expect(await said(tenant)).toEqual({ verified: [], checked: [] });
    await change(tenant, 'update relay_marks set sequence = 4 where tenant_id = $1');
    const beyond = `${tenantId}: relay_marks is at 4, beyond the head at 3: what comes between would not be published`;
    expect(await said(tenant)).toEqual({ verified: [beyond], checked: [beyond] });
  });

  test('is known of each tenant that has a head', async () => {
    const { tenant, tenantId } = await live();
    await change(tenant, 'delete from relay_marks where tenant_id = $1');
    const missing = `${tenantId}: relay_marks is missing: nothing looks for events that are not published`;
    expect(await said(tenant)).toEqual({ verified: [missing], checked: [missing] });
  });

  test('is all that is left of a tenant, and he is found by it', async () => {
    const { tenant, tenantId } = await live();
    await change(tenant, 'update relay_marks set sequence = 3 where tenant_id = $1', ...everything);
    const lines = [`${tenantId}: has no log`, `${tenantId}: relay_marks is at 3, and there is no head`];
    const { verified, checked } = await said();
    expect(verified).toEqual(expect.arrayContaining(lines));
    expect(checked).toEqual(expect.arrayContaining(lines));
    const rebuilt: string[] = [];
    await rebuild(operator, { tenant: undefined, check: false }, (line) => rebuilt.push(line));
    expect(rebuilt).toContain(`${tenantId}: has no log`);
  });
});

describe('a role that row-level security binds', () => {
  const run = (url: string, ...args: string[]) =>
    spawnSync(process.execPath, ['services/ledger/cli.ts', ...args], {
      env: { PATH: process.env['PATH'], MIGRATION_DATABASE_URL: url },
      encoding: 'utf8',
    });

  test.each([[['verify']], [['rebuild', '--check']], [['rebuild']], [['redrive']]])(
    'is told so by %j, rather than that nothing differs',
    (args) => {
      const role = new URL(ledger.database.serviceUrl).username;
      const tables = 'accounts, balances, entries, heads, log, relay_dead_letters, relay_marks, transactions';
      expect(run(ledger.database.serviceUrl, ...args)).toMatchObject({
        status: 1,
        stdout: '',
        stderr:
          `MIGRATION_DATABASE_URL is of the role ${role}, which does not see every tenant's ${tables}: ` +
          'give the role that ran migrate, or one with BYPASSRLS\n',
      });
    },
  );

  test('is an owner whose policy is lost, too, and not the administrator', async () => {
    await (await openOperator(ledger.database.adminUrl)).end();
    await owner.query('alter policy operator on log rename to other');
    await expect(openOperator(ledger.database.ownerUrl)).rejects.toThrow("does not see every tenant's log: give");
    await owner.query('alter policy other on log rename to operator');
    await (await openOperator(ledger.database.ownerUrl)).end();
  });
});
