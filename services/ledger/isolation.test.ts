// No SQL of the service's role sees or changes another tenant's rows, tested table by table.
import { spawnSync } from 'node:child_process';
import pg from 'pg';
import { auditorInserts } from '../../test/full-ledger.ts';
import { entries, newTenant, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { openProxy } from '../../test/proxy.ts';
import { bareEnvironment } from '../../test/run.ts';
import { migrate } from '../platform/migration.ts';
import { inTransaction, openPool, readTenant, setTenants, type Pool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import { openLog } from '../platform/telemetry.ts';
import { appendOnly, auditorTables, kept, migrationNames, ownerTables } from './schema.ts';

let ledger: RunningLedger;
let admin: pg.Client;
/** One connection of the service's role, so that every use of it follows another's. */
let one: Pool;
const [mine, theirs, third] = [newTenant(), newTenant(), newTenant()];
// The relay's tables have one more policy, by which it finds work.
const relayTables = ['relay_marks', 'relay_dead_letters'];
const holdTables = ['holds', 'hold_entries', 'parts'];
const tables = [
  ...['heads', 'log', 'accounts', 'transactions', 'entries', 'balances', ...holdTables, 'definitions', 'velocity'],
  ...relayTables,
  ...auditorTables,
  'deleted_tenants',
  ...['filters', 'books', 'periods', 'shifted_transactions', 'shifted_entries', 'shifted_months', 'transaction_metadata'],
  ...['freezes', 'redactions', 'subject_transactions', 'erased_subjects'],
];
/** The auditor's loops look for work in these. */
const loopTables = ['heads', 'books', 'search_indexes', 'freezes', 'verifications', 'trees', 'checkpoints'];
const logger = openLog('test', 'silent');

/** A row in each table that nothing below fills. */
const inserts = [
  `insert into relay_dead_letters (tenant_id, sequence, part, event_id, type, reason) values ($1, 1, 0, $1, 'account.created', 'x')`,
  `insert into holds (tenant_id, sequence, id, idempotency_key, fingerprint, status, expires_at, created_at)
    values ($1, 1, $1, 'k', decode(repeat('00', 33), 'hex'), 'pending', now(), now())`,
  `insert into hold_entries values ($1, 1, 0, $1, 'NGN', 'debit', 1, 0, 1)`,
  `insert into parts values ($1, $1, 1, 1)`,
  `insert into definitions values ($1, 'limit', 'x', 1, '{}')`,
  `insert into velocity values ($1, 'x', 'a', '[]')`,
  `insert into books (tenant_id, version, record, indexed_since, updated_at) values ($1, 1, '{}', '{}', now())`,
  `insert into periods values ($1, 1, $1, 'close', '2026-01-31', false, false, '{}', '', 'k', now())`,
  `insert into shifted_transactions values ($1, 1, now())`,
  `insert into shifted_entries values ($1, $1, 'NGN', 1, now(), 1, 0, 1, 0)`,
  `insert into shifted_months values ($1, $1, 'NGN', '2026-01-01', 1, 0, 1)`,
  `insert into filters values ($1, 'mine', 'kind=single')`,
  `insert into transaction_metadata values ($1, 'order', '42', 1)`,
  `insert into redactions values ($1, 1, decode(repeat('00', 32), 'hex'))`,
  `insert into subject_transactions values ($1, $1, 1)`,
  `insert into erased_subjects values ($1, $1, 1)`,
  `insert into deleted_tenants values ($1, 1, decode(repeat('00', 32), 'hex'), now())`,
];

/** Indexes by which loops find due holds and jobs of all tenants; and one of words, each with its tenant. */
const otherFirst: Record<string, string> = { holds_due: 'expires_at', jobs_expired: 'expires_at', transaction_texts_words: 'words' };
const readOnly = [...appendOnly, ...auditorTables, ...ownerTables];

beforeAll(async () => {
  ledger = await startLedger();
  admin = new pg.Client({ connectionString: ledger.database.adminUrl });
  await admin.connect();
  one = openPool(ledger.database.serviceUrl, { name: 'one', max: 1, logger });
  for (const { tenantId, tenant } of [mine, theirs, third]) {
    for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
    await ledger.client.postTransaction({ posting: { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') } });
    await inTransaction(one, [tenant], async (client) => {
      for (const insert of inserts) await client.query(insert, [tenant]);
    });
  }
  // A role that is no superuser is bound as well.
  await admin.query(`select set_config('app.tenants', $1, false)`, [`{${mine.tenant},${theirs.tenant},${third.tenant}}`]);
  for (const { tenant } of [mine, theirs, third]) for (const insert of auditorInserts) await admin.query(insert, [tenant]);
});

afterAll(async () => {
  await one.end();
  await admin.end();
  await ledger.end();
});

const as = <Result>(tenants: string[], work: (client: pg.PoolClient) => Promise<Result>) => inTransaction(one, tenants, work);
const refused = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: pg.DatabaseError) => error.code,
  );
const rls = '42501';

async function columnsOf(table: string): Promise<string[]> {
  const { rows } = await admin.query<{ name: string }>(
    'select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum',
    [table],
  );
  return rows.map((row) => row.name);
}

const tenantsSeen = async (client: pg.PoolClient, table: string) => {
  const { rows } = await client.query<{ tenant_id: string }>(`select distinct tenant_id from ${table} order by tenant_id`);
  return rows.map((row) => row.tenant_id);
};

test('these are all the tables of tenants', async () => {
  const { rows } = await admin.query<{ name: string }>(
    `select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'tenant_id' order by 1`,
  );
  expect(rows.map((row) => row.name)).toEqual([...tables].sort());
});

describe.each(tables)('%s', (table) => {
  test('shows the rows of the set tenants only', async () => {
    expect(await as([mine.tenant], (client) => tenantsSeen(client, table))).toEqual([mine.tenant]);
    const two = [mine.tenant, third.tenant].sort();
    expect(await as(two, (client) => tenantsSeen(client, table))).toEqual(two);
    expect(await as([newTenant().tenant], (client) => tenantsSeen(client, table))).toEqual([]);
    expect(await as([], (client) => tenantsSeen(client, table))).toEqual([]);
    const [asked] = await readTenant(one, mine.tenant, { text: `select * from ${table} where tenant_id = $1`, values: [theirs.tenant] });
    expect(asked).toEqual([]);
  });

  test('shows nothing on a connection after its transaction for a tenant, also after a failure', async () => {
    const outside = async () => (await one.query(`select * from ${table}`)).rows;
    await as([theirs.tenant], (client) => tenantsSeen(client, table));
    expect(await outside()).toEqual([]);
    expect(await refused(as([theirs.tenant], (client) => client.query('select 1 / 0')))).toBe('22012');
    expect(await outside()).toEqual([]);
    await readTenant(one, theirs.tenant, { text: `select 1`, values: [] });
    expect(await outside()).toEqual([]);
    await as([theirs.tenant], async (client) => {
      await client.query('savepoint s');
      await client.query({ ...setTenants([mine.tenant]) });
      expect(await tenantsSeen(client, table)).toEqual([mine.tenant]);
      await client.query('rollback to s');
      expect(await tenantsSeen(client, table)).toEqual([theirs.tenant]);
    });
    expect(await outside()).toEqual([]);
  });

  test('accepts no row of another tenant, with any conflict clause', async () => {
    const columns = await columnsOf(table);
    const theirRow = await admin.query<Record<string, unknown>>(`select to_jsonb(t) as row from ${table} t where tenant_id = $1 limit 1`, [
      theirs.tenant,
    ]);
    const insert = `insert into ${table} select * from jsonb_populate_record(null::${table}, $1::jsonb)`;
    const row = theirRow.rows[0]?.['row'] as Record<string, unknown>;
    const fresh = { ...row, tenant_id: newTenant().tenant };
    for (const tenants of [[mine.tenant], [mine.tenant, third.tenant], []]) {
      for (const conflict of ['', ' on conflict do nothing']) {
        for (const each of [row, fresh]) {
          expect(await refused(as(tenants, (client) => client.query(insert + conflict, [JSON.stringify(each)])))).toBe(rls);
        }
      }
      const { rows } = await admin.query<{ key: string }>(
        `select string_agg(attname, ', ') as key from pg_index join pg_attribute on attrelid = indrelid and attnum = any(indkey)
          where indrelid = $1::regclass and indisprimary`,
        [table],
      );
      const update = ` on conflict (${rows[0]!.key}) do update set ${columns[1]!} = excluded.${columns[1]!}`;
      expect(await refused(as(tenants, (client) => client.query(insert + update, [JSON.stringify(row)])))).toBe(rls);
    }
  });

  test('changes and deletes no row of another tenant, and moves none to another', async () => {
    const columns = await columnsOf(table);
    const count = (client: pg.PoolClient, sql: string, values: unknown[] = []) =>
      client.query(sql, values).then((answer) => answer.rowCount);
    const before = await admin.query(`select * from ${table} where tenant_id = $1`, [theirs.tenant]);
    const touch = `update ${table} set ${columns[1]!} = ${columns[1]!}`;
    for (const tenants of [[mine.tenant], [mine.tenant, third.tenant], []]) {
      for (const where of [' where tenant_id = $1', ` where tenant_id = $1 and true or tenant_id = $1`]) {
        const update = as(tenants, (client) => count(client, touch + where, [theirs.tenant]));
        const remove = as(tenants, (client) => count(client, `delete from ${table}${where}`, [theirs.tenant]));
        expect(readOnly.includes(table) ? await refused(update) : await update).toBe(readOnly.includes(table) ? rls : 0);
        const stays = readOnly.includes(table) || kept.includes(table);
        expect(stays ? await refused(remove) : await remove).toBe(stays ? rls : 0);
      }
    }
    if (!readOnly.includes(table)) {
      const give = as([mine.tenant], (client) => client.query(`update ${table} set tenant_id = $1`, [newTenant().tenant]));
      expect(await refused(give)).toBe(rls);
    }
    expect((await admin.query(`select * from ${table} where tenant_id = $1`, [theirs.tenant])).rows).toEqual(before.rows);
  });

  test('is bound by row-level security also for its owner, and every key and index begins with the tenant', async () => {
    const { rows } = await admin.query(
      `select relrowsecurity as enabled, relforcerowsecurity as forced, (select count(*)::int from pg_policy where polrelid = c.oid) as policies
        from pg_class c where oid = $1::regclass`,
      [table],
    );
    expect(rows[0]).toEqual({
      enabled: true,
      forced: true,
      policies: 2 + [...relayTables, 'holds', 'jobs', ...loopTables, 'freezes'].filter((name) => name === table).length,
    });
    const keys = await admin.query<{ name: string; first: string }>(
      `select indexrelid::regclass::text as name, attname as first from pg_index join pg_attribute on attrelid = indrelid and attnum = indkey[0]
        where indrelid = $1::regclass
      union all
      select conname, attname from pg_constraint join pg_attribute on attrelid = conrelid and attnum = conkey[1]
        where conrelid = $1::regclass and contype in ('p', 'u', 'f')
      union all
      select conname || ' refers to', attname from pg_constraint join pg_attribute on attrelid = confrelid and attnum = confkey[1]
        where conrelid = $1::regclass and contype = 'f'`,
      [table],
    );
    expect(keys.rows.length).toBeGreaterThan(0);
    for (const { name, first } of keys.rows) {
      expect([name, first]).toEqual([name, otherFirst[name] ?? 'tenant_id']);
    }
  });
});

test('the setting of the expiry loop shows it every tenant’s holds and freezes, which it can’t change, and no other table', async () => {
  const due = <Result>(tenants: string[], work: (client: pg.PoolClient) => Promise<Result>) =>
    as(tenants, async (client) => {
      await client.query(`select set_config('app.due', 'on', true)`);
      return work(client);
    });
  const all = [mine.tenant, theirs.tenant, third.tenant].sort();
  expect(await due([], (client) => tenantsSeen(client, 'holds'))).toEqual(all);
  for (const table of tables.filter((name) => name !== 'holds' && name !== 'freezes')) {
    expect([table, await due([mine.tenant], (client) => tenantsSeen(client, table))]).toEqual([table, [mine.tenant]]);
  }
  const expire = `update holds set status = 'expired'`;
  expect(await due([], (client) => client.query(expire).then(({ rowCount }) => rowCount))).toBe(0);
  const insert = `insert into holds select * from jsonb_populate_record(null::holds, (select to_jsonb(h) from holds h where tenant_id = $1))`;
  expect(await refused(due([mine.tenant], (client) => client.query(insert, [theirs.tenant])))).toBe(rls);
});

test('the service may delete nothing but dead letters, filters, limits and what they have counted', async () => {
  const { rows } = await admin.query<{ name: string; update: boolean; delete: boolean }>(
    `select t as name, has_table_privilege($2, t, 'update') as update, has_table_privilege($2, t, 'delete') as delete from unnest($1::text[]) as t`,
    [tables, decodeURIComponent(new URL(ledger.database.serviceUrl).username)],
  );
  const names = (what: 'update' | 'delete') => rows.filter((each) => each[what]).map(({ name }) => name);
  const updated = [
    'accounts',
    'balances',
    'books',
    'definitions',
    'filters',
    'heads',
    'hold_entries',
    'holds',
    'relay_dead_letters',
    'relay_marks',
    'shifted_months',
    'velocity',
  ];
  expect(names('update').sort()).toEqual(updated);
  expect(names('delete')).toEqual(['definitions', 'velocity', 'relay_dead_letters', 'filters']);
});

test('a foreign key reaches no row of another tenant', async () => {
  const { rows } = await admin.query<{ id: string }>(`select id from accounts where tenant_id = $1 and code = 'a'`, [theirs.tenant]);
  await admin.query(`update accounts set is_group = true, code = 'only-theirs' where tenant_id = $1 and code = 'a'`, [theirs.tenant]);
  const below = `update accounts set parent_code = 'only-theirs' where code = 'a'`;
  expect(await refused(as([mine.tenant], (client) => client.query(below)))).toBe('23503');
  expect(await refused(as([mine.tenant, third.tenant], (client) => client.query(below)))).toBe('23503');
  const balance = `insert into balances (tenant_id, account_id, currency, debits, credits, pending_debits, pending_credits, version, updated_at)
    values ($1, $2, 'GBP', 0, 0, 0, 0, 1, now())`;
  expect(await refused(as([mine.tenant], (client) => client.query(balance, [mine.tenant, rows[0]!.id])))).toBe('23503');
  // Also with both tenants set, because the tenant is part of the key.
  expect(await refused(as([mine.tenant, theirs.tenant], (client) => client.query(balance, [mine.tenant, rows[0]!.id])))).toBe('23503');
});

test('a setting that is no list of tenants shows nothing or fails', async () => {
  for (const text of ['', '{}', '{NULL}']) {
    const client = await one.connect();
    await client.query('begin');
    await client.query(`select set_config('app.tenants', $1, true)`, [text]);
    expect((await client.query('select from heads')).rowCount).toBe(0);
    await client.query('rollback');
    client.release();
  }
  expect(await refused(as(['*'], (client) => client.query('select from heads')))).toBe('22P02');
});

test('the owner sees every tenant’s rows and changes only those of the set tenants', async () => {
  const owner = new pg.Client({ connectionString: ledger.database.ownerUrl });
  await owner.connect();
  expect((await owner.query('select from heads')).rowCount).toBe(3);
  expect((await owner.query(`update accounts set name = 'x'`)).rowCount).toBe(0);
  expect((await owner.query('delete from entries')).rowCount).toBe(0);
  await owner.end();
});

describe('the service does not start', () => {
  const started = async (
    url: string,
    names: readonly string[] = migrationNames,
    pool = openPool(url, { name: 'start', max: 1, logger }),
  ) => {
    const outcome = await checkDatabase(pool, names).then(
      () => 'started',
      (error: unknown) => (error as Error).message,
    );
    await pool.end();
    return outcome;
  };

  test('as superuser, as the owner or a member of its role, or with BYPASSRLS', async () => {
    const { adminUrl, ownerUrl, serviceUrl } = ledger.database;
    expect(await started(serviceUrl)).toBe('started');
    const { rows } = await admin.query<{ super: boolean }>('select rolsuper as super from pg_roles where rolname = current_user');
    if (rows[0]!.super) expect(await started(adminUrl)).toMatch(/^DATABASE_URL: role .* is a superuser/);
    expect(await started(ownerUrl)).toMatch(/^DATABASE_URL: role .* owns the tables/);
    const as = (name: string) => {
      const url = new URL(serviceUrl);
      [url.username, url.password] = [name, 'secret'];
      return url.href;
    };
    const [owner, member, bypassing] = [new URL(ownerUrl).username, `member_${mine.tenant}`, `bypassing_${mine.tenant}`];
    try {
      await admin.query(`create role "${member}" login password 'secret' in role "${owner}"`);
      expect(await started(as(member))).toMatch(/owns the tables/);
      // Only a superuser, or who has it himself, may give it.
      if (!rows[0]!.super) return;
      await admin.query(`create role "${bypassing}" login bypassrls password 'secret'`);
      expect(await started(as(bypassing))).toMatch(/has BYPASSRLS/);
    } finally {
      for (const role of [member, bypassing]) await admin.query(`drop role if exists "${role}"`);
    }
  });

  test('in a schema that its role may not use', async () => {
    const { serviceUrl } = ledger.database;
    const role = `"${new URL(serviceUrl).username}"`;
    await admin.query(`revoke usage on schema public from public, ${role}`);
    const outcome = await started(serviceUrl);
    await admin.query(`grant usage on schema public to public, ${role}`);
    expect(outcome).toContain(`may not use schema public: as the schema's owner, grant usage on schema public to ${role}`);
    expect(await started(serviceUrl)).toBe('started');
  });

  test('on a schema older than its code, and says so in one line', async () => {
    expect(await started(ledger.database.serviceUrl, [...migrationNames, '9999-later'])).toBe(
      'DATABASE_URL: the schema lacks 9999-later: run migrate first',
    );
    const { status, stderr } = spawnSync(process.execPath, ['services/ledger/main.ts'], {
      env: { ...bareEnvironment, DATABASE_URL: ledger.database.ownerUrl, INTERNAL_TOKEN: 't', PORT: '0' },
      encoding: 'utf8',
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(/^DATABASE_URL: role .* owns the tables.*\n$/);
  });

  test('through a pooler that loses the settings of its connections', async () => {
    const { serviceUrl } = ledger.database;
    const lost = /^DATABASE_URL: the connection has lost statement_timeout, .*: connect to PostgreSQL itself, or set them/;
    expect(await started(serviceUrl, migrationNames, new pg.Pool({ connectionString: serviceUrl, max: 1 }))).toMatch(lost);
    const others = new URL(serviceUrl);
    others.searchParams.set('options', '-c work_mem=8MB');
    expect(await started(others.href)).toMatch(lost);
  });

  test('unless it finds the schema when it asks again, where a connection is lost while it asks', async () => {
    const url = new URL(ledger.database.serviceUrl);
    const proxy = await openProxy(Number(url.port));
    [url.hostname, url.port] = ['127.0.0.1', String(proxy.port)];
    let cuts = 0;
    proxy.watch = (chunk) => (chunk.includes('from mikro_orm_migrations') && cuts++ === 0 ? 'cut' : 'pass');
    expect(await started(url.href)).toBe('started');
    expect(cuts).toBe(2);
    await proxy.close();
  });

  test('on a server that is older than it takes', async () => {
    const url = new URL(ledger.database.serviceUrl);
    const proxy = await openProxy(Number(url.port));
    [url.hostname, url.port] = ['127.0.0.1', String(proxy.port)];
    // The version, which is six digits long, in a row.
    proxy.translate = (chunk) => Buffer.from(chunk.toString('latin1').replace(/(?<=\0\0\0\x06)1\d{5}/, '140022'), 'latin1');
    expect(await started(url.href)).toBe('DATABASE_URL: PostgreSQL 14 is too old: it must be 15 or newer');
    await proxy.close();
  });

  test('on a database whose encoding does not have every letter, and such a one is not migrated', async () => {
    const name = `latin_${mine.tenant}`;
    const { ownerUrl, serviceUrl } = ledger.database;
    const [owner, service] = [ownerUrl, serviceUrl].map((each) => Object.assign(new URL(each), { pathname: `/${name}` }).href) as [
      string,
      string,
    ];
    const says = `the database's encoding is LATIN1: it must be UTF8 (create database ... encoding 'UTF8' template template0)`;
    await admin.query(`create database "${name}" encoding 'LATIN1' locale 'C' template template0 owner "${new URL(ownerUrl).username}"`);
    try {
      expect(await started(service)).toBe(`DATABASE_URL: ${says}`);
      const schema = { names: migrationNames, migrations: () => Promise.reject(new Error('migrated')), appendOnly: [] };
      await expect(migrate(owner, service, schema)).rejects.toThrow(`MIGRATION_DATABASE_URL: ${says}`);
    } finally {
      await admin.query(`drop database "${name}"`);
    }
  });
});
