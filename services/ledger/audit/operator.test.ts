// What `verify` and `rebuild --check` check besides the projections.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withClient } from '../../../deploy/local/databases.ts';
import type { TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { openAudit, runCommand as run, type Audit } from '../../../test/audit.ts';
import { entries, newTenant } from '../../../test/ledger.ts';
import { currentRun } from '../../../test/run.ts';
import { securedTables } from './projections.ts';
import { openOperator } from './operator.ts';
import { rebuild } from './rebuild.ts';
import { verify } from './verify.ts';

let audit: Audit;
let ledger: Audit['ledger'];
let change: Audit['change'];
let forge: Audit['forge'];

beforeAll(async () => {
  audit = await openAudit();
  ({ ledger, change, forge } = audit);
});

afterAll(() => audit.end());

/** A tenant with a log of three events. */
async function live(): Promise<ReturnType<typeof newTenant>> {
  const made = newTenant();
  const { tenantId } = made;
  for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  await ledger.client.postTransaction({ posting: { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } });
  return made;
}

/** The findings of `verify` and `rebuild --check`. */
async function findingsOf(only?: string): Promise<{ verified: string[]; checked: string[] }> {
  return { verified: await audit.verified(only), checked: await audit.checked(only) };
}

const everything = ['log', 'balances', 'entries', 'transactions', 'accounts', 'heads'].map(
  (name) => `delete from ${name} where tenant_id = $1`,
);

describe('the published offset', () => {
  const setTo = (sequence: number, openUntil = 'open_until') =>
    `update relay_marks set sequence = ${sequence}, open_until = ${openUntil} where tenant_id = $1`;
  const missing = 'delete from relay_marks where tenant_id = $1';

  test.each<[string, string[], string[]]>([
    ['the start is right', [], []],
    ['the head is right', [setTo(3)], []],
    ['the head is right when it is closed', [setTo(3, 'null')], []],
    ['beyond the head is wrong', [setTo(4)], ['relay_marks is at 4, beyond the head at 3: what comes between would not be published']],
    ['nowhere is wrong', [missing], ['relay_marks is missing: nothing looks for events that are not published']],
    [
      'before the head is wrong when it is closed',
      [missing, 'insert into relay_marks (tenant_id, sequence) values ($1, 2)'],
      ['relay_marks is closed at 2, before the head at 3: nothing looks for what comes between until a ledger starts'],
    ],
  ])('at %s', async (_, statements, findings) => {
    const { tenant, tenantId } = await live();
    await change(tenant, ...statements);
    const lines = findings.map((finding) => `${tenantId}: ${finding}`);
    expect(await findingsOf(tenant)).toEqual({ verified: lines, checked: lines });
    await change(tenant, missing, ...everything);
  });

  test('restarts at 0 when rebuild restores a missing one', async () => {
    const { tenant, tenantId } = await live();
    const rebuilt = () => audit.rebuilt(tenant);
    await change(tenant, 'update relay_marks set sequence = 4 where tenant_id = $1');
    expect(await rebuilt()).toEqual([`${tenantId}: the log ends at 3, but 4 was handed out, posted or published`]);
    await change(tenant, 'delete from relay_marks where tenant_id = $1');
    expect(await rebuilt()).toEqual([`${tenantId}: repaired: relay_marks is missing: all events are published again`]);
    const { rows } = await audit.owner.query<{ sequence: bigint; minutes: number }>(
      `select sequence, extract(epoch from open_until - clock_timestamp())::float8 / 60 as minutes from relay_marks where tenant_id = $1`,
      [tenant],
    );
    expect(rows).toEqual([{ sequence: 0n, minutes: expect.closeTo(10, 0) }]);
    expect(await findingsOf(tenant)).toEqual({ verified: [], checked: [] });
    // An existing one is not changed.
    await change(tenant, 'update relay_marks set sequence = 2 where tenant_id = $1');
    expect(await rebuilt()).toEqual([]);
    expect((await audit.owner.query('select sequence from relay_marks where tenant_id = $1', [tenant])).rows).toEqual([{ sequence: 2n }]);
  });

  test('is enough to find a tenant of which nothing else is left', async () => {
    const { tenant, tenantId } = await live();
    await change(tenant, 'update relay_marks set sequence = 3 where tenant_id = $1', ...everything);
    const lines = [`${tenantId}: has no log`, `${tenantId}: relay_marks is at 3, and there is no head`];
    const { verified, checked } = await findingsOf();
    expect(verified).toEqual(expect.arrayContaining(lines));
    expect(checked).toEqual(expect.arrayContaining(lines));
    expect(await audit.rebuilt()).toContain(`${tenantId}: has no log`);
  });
});

describe('a log with a value that no table can contain', () => {
  const forged = (edit: (message: TransactionPosted) => void) => (one: { tenant: string }) => forge(one.tenant, edit);

  test.each<[string, (one: { tenant: string }) => Promise<void>, RegExp[]]>([
    [
      'an unknown currency',
      forged(({ entries, balances }) => [...entries, ...balances].forEach((each) => (each.currency = 'XAU'))),
      [
        /entries \(account_id \S+, currency XAU, sequence 3, position 0\) is missing/,
        /balances \(account_id \S+, currency XAU\) is missing/,
      ],
    ],
    [
      'a negative amount',
      forged(({ entries }) => (entries[0]!.amount = '-1.00')),
      [/event 3 has an entry that is not greater than zero/, /entries \(.* position 0\): amount is "1.00", by the log "-1.00"/],
    ],
    [
      'an amount beyond a bigint',
      forged(({ entries }) => (entries[0]!.amount = `${'9'.repeat(20)}.00`)),
      [/can't hold .*out of range for type bigint/],
    ],
    ['a NUL in a text', forged((message) => (message.reference = 'a\0')), [/can't hold .*unsupported Unicode escape/]],
    [
      'a time outside the calendar',
      ({ tenant }) => change(tenant, `update log set created_at = 'infinity' where tenant_id = $1 and sequence = 3`),
      [/the tables can't hold what the log says: Infinity ms after 1970 is no time/],
    ],
  ])('%s is reported for its tenant, and the others are checked', async (_what, damage, expected) => {
    const [one, other] = [await live(), await live()];
    await damage(one);
    await change(other.tenant, `update accounts set name = 'x' where tenant_id = $1 and code = 'a'`);
    const { verified, checked } = await findingsOf();
    for (const lines of [verified, checked]) {
      const own = lines.filter((line) => line.startsWith(one.tenantId)).join('\n');
      for (const line of expected) expect(own).toMatch(line);
      expect(lines).toContainEqual(expect.stringMatching(new RegExp(`^${other.tenantId}: accounts .* name is "x"`)));
    }
    const rebuilt = (await audit.rebuilt(one.tenant)).join();
    expect(rebuilt).toMatch(/^tenant_.*(can't hold|has an entry|event 3)/);
    expect(rebuilt).not.toContain('repaired');
    expect(run(ledger.database.ownerUrl, 'verify').status).toBe(1);
    for (const { tenant } of [one, other]) await change(tenant, 'delete from relay_marks where tenant_id = $1', ...everything);
  });
});

test('a missing head is not restored from a faulty log', async () => {
  const { tenant, tenantId } = await live();
  await change(tenant, 'delete from relay_marks where tenant_id = $1', 'delete from log where tenant_id = $1 and sequence = 1');
  await change(tenant, 'delete from balances where tenant_id = $1', 'delete from accounts where tenant_id = $1');
  await change(tenant, 'delete from heads where tenant_id = $1');
  const lines = await audit.rebuilt(tenant);
  expect(lines[0]).toBe(`${tenantId}: event 2 follows event 0`);
  expect(lines.join()).not.toContain('repaired');
  expect((await audit.owner.query('select sequence from heads where tenant_id = $1', [tenant])).rows).toEqual([]);
  await change(tenant, ...everything);
});

test('verify only reads, so that it runs on a standby', async () => {
  const [one, forged] = [await live(), await live()];
  const { adminUrl, name, ownerUrl } = ledger.database;
  // For new connections.
  const say = (what: string) =>
    withClient(adminUrl, async (client) => {
      await client.query('set default_transaction_read_only = off');
      await client.query(`alter database "${name}" ${what}`);
    });
  const verified = async ({ tenantId }: { tenantId: string }) => {
    await say('set default_transaction_read_only = on');
    const result = run(ownerUrl, 'verify', '--tenant', tenantId);
    await say('reset default_transaction_read_only');
    return result;
  };
  expect(await verified(one)).toMatchObject({ status: 0, stdout: expect.stringMatching(/nothing differs\n$/), stderr: '' });
  await change(one.tenant, `update entries set amount = 700 where tenant_id = $1 and position = 1`);
  await forge(forged.tenant, ({ entries }) => entries.forEach((each) => (each.currency = 'XAU')));
  expect(await verified(one)).toMatchObject({
    status: 1,
    stdout: expect.stringMatching(/position 1\): amount is "7.00", by the log "1.00"\n/),
  });
  expect(await verified(forged)).toMatchObject({ status: 1, stdout: expect.stringMatching(/currency XAU.* position 0\) is missing\n/) });
  for (const { tenant } of [one, forged]) await change(tenant, 'delete from relay_marks where tenant_id = $1', ...everything);
});

describe('a role that row-level security binds', () => {
  test.each([[['verify']], [['rebuild', '--check']], [['rebuild']], [['heads']], [['redrive']], [['discard']]])(
    'is refused by %j',
    (args) => {
      const role = new URL(ledger.database.serviceUrl).username;
      const tables = [...securedTables].sort().join(', ');
      expect(run(ledger.database.serviceUrl, ...args)).toMatchObject({
        status: 3,
        stdout: '',
        stderr:
          `MIGRATION_DATABASE_URL is of the role ${role}, which does not see every tenant's ${tables}: ` +
          `give ${new URL(ledger.database.ownerUrl).username}, the role of the policy operator\n`,
      });
    },
  );

  test('may be an owner whose policy is missing, but not the administrator', async () => {
    await (await openOperator(ledger.database.adminUrl)).end();
    await audit.owner.query('alter policy operator on log rename to other');
    await expect(openOperator(ledger.database.ownerUrl)).rejects.toThrow(
      "does not see every tenant's log: the policy operator, which lets a role, is missing",
    );
    await audit.owner.query('alter policy other on log rename to operator');
    // As after a restore with another owner.
    const [own, other] = [ledger.database.ownerUrl, ledger.database.serviceUrl].map((url) => new URL(url).username) as [string, string];
    await audit.owner.query(`alter policy operator on log to "${other}"`);
    await expect(openOperator(ledger.database.ownerUrl)).rejects.toThrow(
      `every tenant's log: give ${other}, the role of the policy operator`,
    );
    await audit.owner.query(`alter policy operator on log to "${own}"`);
    await (await openOperator(ledger.database.ownerUrl)).end();
  });
});

test('the commands work with any settings of the database', async () => {
  const { tenant } = await live();
  const { adminUrl, name } = ledger.database;
  const alter = (...changes: string[]) =>
    withClient(adminUrl, async (client) => {
      for (const change of changes) await client.query(`alter database "${name}" ${change}`);
    });
  await alter('set search_path = app', `set default_transaction_isolation = 'repeatable read'`);
  const own = await openOperator(ledger.database.ownerUrl);
  try {
    const { rows } = await own.query<{ level: string }>(`select current_setting('transaction_isolation') as level`);
    expect(rows).toEqual([{ level: 'read committed' }]);
    expect(await verify(own, { only: tenant }, () => undefined)).toMatchObject({ transactions: 1, findings: 0 });
    expect(await rebuild(own, { tenant, check: true }, () => undefined)).toMatchObject({ tenants: 1, findings: 0 });
  } finally {
    await own.end();
    await alter('reset search_path', 'reset default_transaction_isolation');
  }
});

test('kept heads reveal a log without its end, a log made anew and a missing tenant', async () => {
  const [one, other, gone] = [await live(), await live(), await live()];
  const file = join(mkdtempSync(join(currentRun().directory, 'heads-')), 'kept');
  const { ownerUrl } = ledger.database;
  const { stdout: kept, status } = run(ownerUrl, 'heads');
  expect(status).toBe(0);
  for (const { tenantId } of [one, other, gone]) expect(kept).toMatch(new RegExp(`^${tenantId} 3 [0-9a-f]{64}$`, 'm'));
  expect(run(ownerUrl, 'heads', '--tenant', one.tenantId).stdout).toBe(
    `${kept.split('\n').find((line) => line.startsWith(one.tenantId))!}\n`,
  );
  await ledger.client.postTransaction({ posting: { tenantId: one.tenantId, entries: entries('a debit 2.00 NGN', 'b credit 2.00 NGN') } });
  // Of two times.
  const banner = '\n> ledger@1.0.0 ledger\n> node services/ledger/cli.ts heads\n\n';
  writeFileSync(file, `${kept}${banner}${run(ownerUrl, 'heads').stdout}`);
  // Other tests leave tenants with findings.
  const reported = (...args: string[]) =>
    run(ownerUrl, 'verify', ...args)
      .stdout.match(/^tenant_.*/gm)
      ?.filter((line) => [one, other, gone].some(({ tenantId }) => line.startsWith(tenantId))) ?? [];
  expect(reported('--heads', file)).toEqual([]);

  const back = ['log', 'transactions', 'entries'].map((table) => `delete from ${table} where tenant_id = $1 and sequence > 3`);
  await change(
    one.tenant,
    ...back,
    `update heads set sequence = 3, hash = (select hash from log where tenant_id = $1 and sequence = 3) where tenant_id = $1`,
  );
  await change(one.tenant, 'update relay_marks set sequence = 3 where tenant_id = $1');
  await forge(other.tenant, (message) => (message.description = 'forged'));
  for (const { tenant } of [one, other]) await audit.rebuilt(tenant);
  await change(gone.tenant, ...everything, 'delete from relay_marks where tenant_id = $1');
  expect(reported()).toEqual([]);
  expect(reported('--heads', file).sort()).toEqual(
    [
      `${one.tenantId}: event 4, of which the hash was kept, is missing: the log ends at 3`,
      `${other.tenantId}: event 3 does not have the hash that was kept: it, or one before it, was made anew`,
      `${gone.tenantId}: heads were kept of this tenant, and nothing is left of it`,
    ].sort(),
  );
  // With one tenant, the kept heads of others are not missed.
  expect(run(ownerUrl, 'verify', '--heads', file, '--tenant', one.tenantId)).toMatchObject({
    status: 1,
    stdout: expect.stringMatching(/^tenant_.*\n.*, 2 kept heads verified: 1 difference\n$/),
  });

  for (const [text, what] of [
    [`${kept}tenant_x 1 00`, "is none of `heads`: <tenant's id> <sequence> <hash>"],
    [`${kept}${kept.replaceAll(/[0-9a-f]{64}/g, '0'.repeat(64))}`, 'has another hash of event 3 than a line before it'],
    [banner, 'it has no line of a head'],
  ] as const) {
    writeFileSync(file, text);
    const refused = run(ownerUrl, 'verify', '--heads', file);
    expect(refused).toMatchObject({ status: 2, stdout: '', stderr: expect.stringMatching(/^--heads \S+: (line \d+|it) /) });
    expect(refused.stderr).toContain(what);
  }
  expect(run(ownerUrl, 'verify', '--heads', '/nowhere')).toMatchObject({ status: 2, stderr: expect.stringContaining('ENOENT') });
  for (const { tenant } of [one, other]) await change(tenant, 'delete from relay_marks where tenant_id = $1', ...everything);
});

test('a table that has lost its primary key is reported by name', async () => {
  const { rows } = await audit.owner.query<{ key: string }>(
    `select pg_get_constraintdef(oid) as key from pg_constraint where conname = 'entries_pkey'`,
  );
  await audit.owner.query('alter table entries drop constraint entries_pkey');
  const refused = [['verify'], ['rebuild', '--check']].map((args) => run(ledger.database.ownerUrl, ...args));
  await audit.owner.query(`alter table entries add constraint entries_pkey ${rows[0]!.key}`);
  const stderr = 'entries: no table of tenants with a primary key: restore the schema\n';
  for (const each of refused) expect(each).toMatchObject({ status: 3, stdout: '', stderr });
});
