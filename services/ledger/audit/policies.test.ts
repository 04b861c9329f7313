// Changes of row-level security are found.
import { openAudit, type Audit } from '../../../test/audit.ts';
import { withClient } from '../../../deploy/local/databases.ts';

let audit: Audit;
let service: string;

beforeAll(async () => {
  audit = await openAudit();
  service = new URL(audit.ledger.database.serviceUrl).username;
});

afterAll(() => audit.end());

/** Runs statements, then `then`, and restores every policy. */
async function changed(statements: string[], then: () => Promise<void>): Promise<void> {
  const policies = async () => {
    const { rows } = await audit.owner.query<{ drop: string; create: string }>(
      `select format('drop policy %I on %I', policyname, tablename) as drop,
          format('create policy %I on %I as %s for %s to %s using (%s)', policyname, tablename, permissive, cmd, array_to_string(
            array(select case role when 'public' then role else quote_ident(role) end from unnest(roles) as role), ', '), qual)
            || coalesce(' with check (' || with_check || ')', '') as create
        from pg_policies where schemaname = 'public'`,
    );
    return rows;
  };
  const before = await policies();
  for (const statement of statements) await audit.owner.query(statement);
  try {
    await then();
  } finally {
    for (const { drop } of await policies()) await audit.owner.query(drop);
    for (const { create } of before) await audit.owner.query(create);
  }
}

const own = `tenant_id = nullif(current_setting('app.tenant', true), '')::uuid`;

test('policies as the migrations made them are no finding', async () => {
  expect(await audit.verified()).toEqual([]);
});

test.each([
  ['drop policy tenant on transactions', 'transactions has no policy tenant'],
  ['drop policy relay on relay_marks', 'relay_marks has no policy relay'],
  ['drop policy due on holds', 'holds has no policy due'],
  ['alter policy due on holds using (true)', 'holds: the policy due is not what it is elsewhere'],
  [`alter policy due on holds using (current_setting('app.due', true) is null)`, 'holds: the policy due is not what it is elsewhere'],
  [
    `drop policy due on holds; create policy due on holds using ((select current_setting('app.due', true)) = 'on')`,
    'holds: the policy due is not what it is elsewhere',
  ],
  ['create policy due on log for select using (true)', 'log has the policy due, which no migration made'],
  ['alter policy operator on entries to public', 'entries: the policy operator is not what it is elsewhere'],
  ['alter policy operator on entries to current_user, $service', 'entries: the policy operator is not what it is elsewhere'],
  [`alter policy tenant on accounts using (${own} and code <> 'x')`, 'accounts: the policy tenant is not what it is elsewhere'],
  ['alter policy tenant on entries with check (true)', 'entries: the policy tenant is not what it is elsewhere'],
  ['alter policy tenant on entries to pg_monitor', 'entries: the policy tenant is not what it is elsewhere'],
  ['create policy relay on entries using (true)', 'entries has the policy relay, which no migration made'],
  [
    'create policy hide on transactions as restrictive for select to $service using (false)',
    'transactions has the policy hide, which no migration made',
  ],
  [
    'create policy blind on balances as restrictive for select to current_user using (false)',
    'balances has the policy blind, which no migration made',
  ],
  ['create policy show on balances for select using (true)', 'balances has the policy show, which no migration made'],
  ['create policy show on entries for select to $service using (true)', 'entries has the policy show, which no migration made'],
])('%s: %s', async (statement, finding) => {
  await changed([statement.replace('$service', `"${service}"`)], async () => expect(await audit.verified()).toEqual([finding]));
  expect(await audit.verified()).toEqual([]);
});

test.each([
  ['the service', () => service, ['log has the policy show, which no migration made']],
  // The owner sees all rows anyway.
  ['the owner', () => new URL(audit.ledger.database.ownerUrl).username, []],
  // It writes everywhere, but not as a service.
  ['an administrator of data', () => `${service}_dba`, []],
])('a policy for a role of which %s is a member is found if it shows services more rows', async (_, member, expected) => {
  const [role, dba] = [`${service}_group`, `${service}_dba`];
  await withClient(audit.ledger.database.adminUrl, async (admin) => {
    await admin.query(`create role "${role}"; create role "${dba}"; grant pg_write_all_data to "${dba}"; grant "${role}" to "${member()}"`);
    try {
      await changed([`create policy show on log for select to "${role}" using (true)`], async () =>
        expect(await audit.verified()).toEqual(expected),
      );
    } finally {
      await admin.query(`drop role "${role}"; drop role "${dba}"`);
    }
  });
});

test.each([
  [
    'a policy is for a role that only reads',
    ['', 'as restrictive'].map((how, each) => `create policy read${each} on log ${how} for select to pg_monitor using (true)`),
  ],
  [
    'another migration changes all tables of a kind',
    ['relay_marks', 'relay_dead_letters'].map((table) => `alter policy tenant on ${table} using (${own}) with check (${own})`),
  ],
])('it is no finding if %s', async (_, statements) => {
  await changed(statements, async () => expect(await audit.verified()).toEqual([]));
});

test.each(['disable', 'no force'])('%s row level security is found', async (how) => {
  await audit.owner.query(`alter table entries ${how} row level security`);
  try {
    expect(await audit.verified()).toEqual(['row-level security of entries is not enabled and forced']);
  } finally {
    await audit.owner.query('alter table entries enable row level security, force row level security');
  }
});
