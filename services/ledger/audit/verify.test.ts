// What verify and rebuild report and repair, next to a running ledger and as commands.
import { spawnSync } from 'node:child_process';
import { runCommand, type Audit } from '../../../test/audit.ts';
import { openDamaged, tables, type Damaged } from '../../../test/damage.ts';
import { entries, newTenant, refusal } from '../../../test/ledger.ts';
import { toUuid } from '../../platform/ids.ts';
import { verify } from './verify.ts';

let audit: Audit;
let tenantId: string;
let tenant: string;
let damage: Damaged['damage'];
let putBack: Damaged['putBack'];

beforeAll(async () => {
  ({ audit, tenantId, tenant, damage, putBack } = await openDamaged());
});

afterAll(() => audit.end());

test('verify and rebuild --check find nothing in an intact ledger', async () => {
  expect(await audit.verified()).toEqual([]);
  expect(await audit.checked()).toEqual([]);
  const seen = await verify(audit.operator, {}, () => undefined);
  expect(seen).toMatchObject({ tenants: 2, transactions: 52, findings: 0 });
  expect(seen.events).toBeGreaterThan(120);
});

test('a finding names the row and the columns, and belongs to its tenant', async () => {
  await damage([
    `update balances set credits = credits + 5 where tenant_id = $1 and currency = 'NGN' and account_id = (
      select id from accounts where tenant_id = $1 and code = 'CUSTOMER-WALLETS-NGN')`,
    [tenant],
  ]);
  const lines = await audit.verified();
  expect(lines.every((line) => line.startsWith(`${tenantId}: `))).toBe(true);
  expect(lines.join('\n')).toMatch(/balances \(account_id acc_[0-9a-z]{26}, currency NGN\): credits is "110.05", by the log "110.00"/);
  expect(lines.join('\n')).toContain('all balances in NGN together are -0.05, not zero');
  expect(lines.join('\n')).toContain('the entries of CUSTOMER-WALLETS-NGN in NGN do not add up to its balance');
  expect(await audit.checked()).toEqual(lines.filter((line) => line.includes('by the log')));
  await putBack();
});

test('rebuild restores every projection, and only of the given tenant', async () => {
  const ruin = () =>
    damage(
      [`delete from balances where tenant_id = $1`, [tenant]],
      [`delete from entries where tenant_id = $1 and sequence % 2 = 0`, [tenant]],
      [`update transactions set reference = 'mine' where tenant_id = $1`, [tenant]],
      [`update accounts set name = 'mine', allow_negative = not allow_negative where tenant_id = $1`, [tenant]],
      [`update heads set sequence = 1, chart = null where tenant_id = $1`, [tenant]],
      [`delete from parts where tenant_id = $1`, [tenant]],
      [`update holds set status = 'voided' where tenant_id = $1`, [tenant]],
      [`update hold_entries set remaining = 0 where tenant_id = $1`, [tenant]],
      [`update definitions set version = 2 where tenant_id = $1`, [tenant]],
      [`update velocity set steps = '[]' where tenant_id = $1`, [tenant]],
      [`update books set version = 7 where tenant_id = $1`, [tenant]],
      [`update periods set reason = 'mine' where tenant_id = $1`, [tenant]],
      [`delete from transaction_metadata where tenant_id = $1`, [tenant]],
      [`delete from transaction_texts where tenant_id = $1`, [tenant]],
      [`update volumes set debits = 1 where tenant_id = $1`, [tenant]],
      [`delete from shifted_transactions where tenant_id = $1`, [tenant]],
      [`update shifted_entries set running_debits = 0 where tenant_id = $1`, [tenant]],
      [`update shifted_months set debits = debits + 1 where tenant_id = $1`, [tenant]],
      [`update accounts set name = 'theirs' where tenant_id <> $1 and code = 'till'`, [tenant]],
    );
  const unlike = async (where: string) => {
    const counts: string[] = [];
    for (const table of tables) {
      const { rows } = await audit.owner.query<{ n: string }>(
        `with kept as (select to_jsonb(k) - 'rebuilt' as row from kept.${table} k), now as (select to_jsonb(n) - 'rebuilt' as row from ${table} n)
          select count(*)::text as n from ((table kept except table now) union all (table now except table kept)) as d
          where row ->> 'tenant_id' ${where} $1`,
        [tenant],
      );
      counts.push(rows[0]!.n);
    }
    return counts;
  };
  const nothing = tables.map(() => '0');
  await ruin();
  const repairs = await audit.rebuilt(tenant);
  expect(repairs.every((line) => line.startsWith(`${tenantId}: repaired: `))).toBe(true);
  expect(repairs).toContainEqual(
    expect.stringMatching(/: heads: sequence is "1", by the log "[0-9]+"; chart is null, by the log "wallet"$/),
  );
  expect(repairs).toContainEqual(expect.stringMatching(/: accounts .* name is "mine", by the log "Till 1"/));
  expect(await audit.rebuilt(tenant)).toEqual([]);
  expect(await unlike('=')).toEqual(nothing);
  expect(await unlike('<>')).toEqual(tables.map((table) => (table === 'accounts' ? '2' : '0')));
  expect(await audit.rebuilt()).toEqual([expect.stringMatching(/repaired: accounts \(.*\): name is "theirs", by the log "Till 1"$/)]);
  expect(await unlike('<>')).toEqual(nothing);
  // A missing head is created again.
  await damage(['delete from heads where tenant_id = $1', [tenant]], ['delete from accounts where tenant_id = $1', [tenant]]);
  const [lost, ...others] = await audit.rebuilt();
  expect(lost).toBe(`${tenantId}: repaired: heads is missing`);
  expect(others.filter((line) => !/: repaired: accounts \(.*\) is missing$/.test(line))).toEqual([]);
  expect(others).not.toEqual([]);
  expect(await unlike('=')).toEqual(nothing);
  expect(await audit.rebuilt()).toEqual([]);
});

test('rows of a key whose index is not complete are no finding, and a rebuild keeps them', async () => {
  await damage(
    [`insert into transaction_metadata values ($1, 'other', 'x', 1)`, [tenant]],
    [`delete from transaction_metadata where key = 'order'`],
  );
  const missing = Array(4).fill(expect.stringMatching(/transaction_metadata \(sequence [0-9]+, key order\) is missing$/));
  expect([await audit.verified(tenant), await audit.rebuilt(tenant)]).toEqual([missing, missing]);
  expect([await audit.verified(tenant), await audit.checked(tenant)]).toEqual([[], []]);
  const { rows } = await audit.owner.query(`select distinct key from transaction_metadata where tenant_id = $1 order by 1`, [tenant]);
  expect(rows).toEqual([{ key: 'order' }, { key: 'other' }]);
  await putBack();
});

// Else the auditor, which begins anew, would add them a second time.
test('words and volumes of an index whose progress was lost are found, and a rebuild removes them', async () => {
  const progress = `(select jsonb_agg(to_jsonb(i)) from search_indexes i where tenant_id = $1 and name = '')`;
  const { rows } = await audit.operator.query<{ kept: unknown }>(`select ${progress} as kept`, [tenant]);
  await audit.change(tenant, `delete from search_indexes where tenant_id = $1 and name = ''`);
  const surplus = ['transaction_texts', 'volumes'].map((table) => expect.stringContaining(`${table} has `) as string);
  expect(await audit.verified(tenant)).toEqual(surplus);
  expect(await audit.rebuilt(tenant)).not.toEqual([]);
  expect(await audit.verified(tenant)).toEqual([]);
  await audit.change(
    tenant,
    `insert into search_indexes select * from jsonb_populate_recordset(null::search_indexes, '${JSON.stringify(rows[0]?.kept)}') where tenant_id = $1`,
  );
  await putBack();
});

test('state cached before a head was lost is not valid after it is restored', async () => {
  const { tenantId: other, tenant: its } = newTenant();
  const purse = { tenantId: other, accountCode: 'purse', name: 'n', type: 'liability', allowNegative: false };
  for (const account of [purse, { ...purse, accountCode: 'till', type: 'asset' }]) await audit.ledger.client.createAccount(account);
  const pay = (amount: string) =>
    audit.ledger.client.postTransaction({
      posting: { tenantId: other, entries: entries(`purse debit ${amount} NGN`, `till credit ${amount} NGN`) },
    });
  await audit.ledger.client.postTransaction({
    posting: { tenantId: other, entries: entries('till debit 5.00 NGN', 'purse credit 5.00 NGN') },
  });
  await audit.rebuilt(its);
  await damage(['update balances set debits = debits + 100, credits = credits + 100 where tenant_id = $1', [its]]);
  // Refused, so the ledger has cached the balances without an event.
  expect(await refusal(pay('9.00'))).toMatchObject({ reason: 'insufficient_funds' });
  await damage(['delete from heads where tenant_id = $1', [its]]);
  expect(await audit.rebuilt(its)).toContainEqual(`${other}: repaired: heads is missing`);
  await pay('1.00');
  expect(await audit.verified(its)).toEqual([]);
  await putBack();
});

test('rebuild does not change a tenant with a damaged log', async () => {
  await damage(
    [`update log set actor = 'nobody' where tenant_id = $1 and sequence = 2`, [tenant]],
    [`update accounts set name = 'mine' where tenant_id = $1 and code = 'till'`, [tenant]],
  );
  expect(await audit.rebuilt()).not.toEqual([]);
  const { rows } = await audit.owner.query(`select name from accounts where tenant_id = $1 and code = 'till'`, [tenant]);
  expect(rows).toEqual([{ name: 'mine' }]);
  await putBack();
});

test('rebuild does not change a tenant whose log has lost its end', async () => {
  const of = (sql: string) => audit.owner.query<{ n: string }>(sql, [tenant]).then(({ rows }) => Number(rows[0]?.n));
  const before = await of('select count(*) as n from transactions where tenant_id = $1');
  const last = await of('select max(sequence) as n from log where tenant_id = $1');
  await damage([`delete from log where tenant_id = $1 and sequence = ${last}`, [tenant]]);
  expect(await audit.rebuilt()).toEqual([expect.stringContaining(`the log ends at ${last - 1}, but ${last} was handed out`)]);
  expect(await of('select count(*) as n from transactions where tenant_id = $1')).toBe(before);
  expect(await of('select sequence as n from heads where tenant_id = $1')).toBe(last);
  await putBack();
});

test('an unknown table of tenants is refused', async () => {
  await audit.owner.query('create table strange (tenant_id uuid)');
  await expect(audit.verified()).rejects.toThrow('nothing derives strange from the log');
  await expect(audit.checked()).rejects.toThrow('nothing derives strange from the log');
  await audit.owner.query('drop table strange');
});

test('both run next to a ledger that posts, in one snapshot per tenant', async () => {
  const { tenantId: busy } = newTenant();
  for (const accountCode of ['a', 'b']) await audit.ledger.client.createAccount({ tenantId: busy, accountCode, name: 'n', type: 'asset' });
  const stop = new AbortController();
  const posting = (async () => {
    while (!stop.signal.aborted) {
      const posts = Array.from({ length: 5 }, () =>
        audit.ledger.client.postTransaction({ posting: { tenantId: busy, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } }),
      );
      await Promise.all(posts);
    }
  })();
  for (let turn = 0; turn < 3; turn++) {
    expect(await audit.verified()).toEqual([]);
    expect(await audit.checked()).toEqual([]);
    expect(await audit.rebuilt(toUuid('tenant', busy)!)).toEqual([]);
  }
  stop.abort();
  await posting;
  expect(await audit.verified()).toEqual([]);
});

describe('as a command', () => {
  const run = (...args: string[]) => runCommand(audit.ledger.database.ownerUrl, ...args);

  test('it prints a summary and ends with 0, or with 1 if something differs', async () => {
    await putBack();
    expect(run('verify')).toMatchObject({ status: 0, stderr: '' });
    expect(run('verify').stdout).toMatch(/^2 tenants, [0-9]+ events, 52 transactions verified: nothing differs\n$/);
    const one = run('rebuild', '--check', '--tenant', tenantId);
    expect(one).toMatchObject({ status: 0, stderr: '' });
    expect(one.stdout).toMatch(/^1 tenant derived from [0-9]+ events: nothing differs\n$/);
    expect(run('verify', '--tenant', tenantId).stdout).toMatch(/^1 tenant, /);
    await damage([`update heads set chart = 'other' where tenant_id = $1`, [tenant]]);
    for (const args of [['verify'], ['rebuild', '--check']]) {
      const { status, stdout } = run(...args);
      expect(status).toBe(1);
      expect(stdout).toContain(`${tenantId}: heads: chart is "other", by the log "wallet"\n`);
      expect(stdout).toMatch(/: 1 difference\n$/);
    }
    const repaired = run('rebuild', '--tenant', tenantId);
    expect(repaired).toMatchObject({ status: 0, stderr: '' });
    expect(repaired.stdout).toContain(`${tenantId}: repaired: heads: chart is "other", by the log "wallet"\n`);
    expect(repaired.stdout).toMatch(/\n1 tenant rebuilt from [0-9]+ events: 1 tenant repaired, nothing differs\n$/);
    expect(run('rebuild', '--tenant', tenantId).stdout).toMatch(/^1 tenant rebuilt from [0-9]+ events: nothing differs\n$/);
    expect(run('verify')).toMatchObject({ status: 0 });
  });

  test('it refuses bad arguments with a message', () => {
    expect(run('verify', '--check')).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining("'--check'") });
    expect(run('audit').status).toBe(2);
    expect(run('verify', '--tenant', 'acme').stderr).toMatch(/'--tenant <id>' argument 'acme' is invalid. It is not a tenant's id/);
    expect(run('verify', '--tenant', newTenant().tenantId)).toMatchObject({ status: 1, stdout: expect.stringContaining('has no log') });
    const { status, stderr } = spawnSync(process.execPath, ['services/ledger/cli.ts', 'verify'], { env: {}, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 3, stderr: 'MIGRATION_DATABASE_URL is not set\n' });
  });
});
