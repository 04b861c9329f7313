// Changes of row-level security are found.
import pg from 'pg';
import { startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { openOperator } from './operator.ts';
import { verify } from './verify.ts';

let ledger: RunningLedger;
let owner: pg.Client;
let operator: pg.Client;
let service: string;

beforeAll(async () => {
  ledger = await startLedger();
  service = new URL(ledger.database.serviceUrl).username;
  owner = new pg.Client({ connectionString: ledger.database.ownerUrl });
  await owner.connect();
  operator = await openOperator(ledger.database.ownerUrl);
});

afterAll(async () => {
  await operator.end();
  await owner.end();
  await ledger.end();
});

/** Runs statements, then `then`, and restores every policy. */
async function changed(statements: string[], then: () => Promise<void>): Promise<void> {
  const policies = async () => {
    const { rows } = await owner.query<{ drop: string; create: string }>(
      `select format('drop policy %I on %I', policyname, tablename) as drop,
          format('create policy %I on %I as %s for %s to %s using (%s)', policyname, tablename, permissive, cmd, array_to_string(
            array(select case role when 'public' then role else quote_ident(role) end from unnest(roles) as role), ', '), qual)
            || coalesce(' with check (' || with_check || ')', '') as create
        from pg_policies where schemaname = 'public'`,
    );
    return rows;
  };
  const before = await policies();
  for (const statement of statements) await owner.query(statement);
  try {
    await then();
  } finally {
    for (const { drop } of await policies()) await owner.query(drop);
    for (const { create } of before) await owner.query(create);
  }
}

async function findings(): Promise<string[]> {
  const lines: string[] = [];
  await verify(operator, {}, (line) => lines.push(line));
  return lines;
}

const own = `tenant_id = nullif(current_setting('app.tenant', true), '')::uuid`;

test('policies as the migrations made them are no finding', async () => {
  expect(await findings()).toEqual([]);
});

test.each([
  ['drop policy tenant on transactions', 'transactions has no policy tenant'],
  ['drop policy relay on relay_marks', 'relay_marks has no policy relay'],
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
  await changed([statement.replace('$service', `"${service}"`)], async () => expect(await findings()).toEqual([finding]));
  expect(await findings()).toEqual([]);
});

test.each([
  ['the service', () => service, ['log has the policy show, which no migration made']],
  // The owner sees all rows anyway.
  ['the owner', () => new URL(ledger.database.ownerUrl).username, []],
  // It writes everywhere, but not as a service.
  ['an administrator of data', () => `${service}_dba`, []],
])('a policy for a role of which %s is a member is found if it shows services more rows', async (_, member, expected) => {
  const admin = new pg.Client({ connectionString: ledger.database.adminUrl });
  await admin.connect();
  const [role, dba] = [`${service}_group`, `${service}_dba`];
  try {
    await admin.query(`create role "${role}"; create role "${dba}"; grant pg_write_all_data to "${dba}"; grant "${role}" to "${member()}"`);
    await changed([`create policy show on log for select to "${role}" using (true)`], async () =>
      expect(await findings()).toEqual(expected),
    );
  } finally {
    await admin.query(`drop role "${role}"; drop role "${dba}"`);
    await admin.end();
  }
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
  await changed(statements, async () => expect(await findings()).toEqual([]));
});

test.each(['disable', 'no force'])('%s row level security is found', async (how) => {
  await owner.query(`alter table entries ${how} row level security`);
  try {
    expect(await findings()).toEqual(['row-level security of entries is not enabled and forced']);
  } finally {
    await owner.query('alter table entries enable row level security, force row level security');
  }
});
