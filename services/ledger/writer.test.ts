import { readdirSync, readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { whileLogHeadsLocked } from '../../test/table-locks.ts';
import { by, openWriters, postingTimeoutMs, posted, reasonOf, tally, transfer, type Writers } from '../../test/writers.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { updateAccount } from './accounts.ts';
import type { Outcome } from './queue.ts';
import { validatePosting } from './mapping.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

test('crossing postings over two replicas do not deadlock, and the sums are exact', async () => {
  const [first, second] = [await writers.tenantWith('a', 'b'), await writers.tenantWith('a', 'b')];
  const replicas = [writers.open({ isPatient: true }), writers.open({ isPatient: true })];
  const outcomes = await Promise.all(
    Array.from({ length: 400 }, (_, turn) => {
      const [from, to] = turn % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
      const tenant = turn % 4 < 2 ? first : second;
      return replicas[turn % 3 === 0 ? 0 : 1]!.post(transfer(tenant, from, to, turn % 2 === 0 ? '3.00' : '1.00'));
    }),
  );
  expect(tally(outcomes)).toEqual({ posted: 400 });
  for (const tenant of [first, second]) {
    expect(await writers.balance(tenant, 'b')).toBe('20000');
    expect(await writers.balance(tenant, 'a')).toBe('-20000');
  }
});

test('refusals within a batch do not affect their neighbours', async () => {
  const tenant = await writers.tenantWith('a', 'b', 'purse');
  const writer = writers.open();
  const postings = [
    transfer(tenant, 'a', 'purse', '5.00'),
    transfer(tenant, 'purse', 'b', '9.00'),
    transfer(tenant, 'a', 'nobody', '1.00'),
    transfer(tenant, 'purse', 'b', '5.00'),
    transfer(tenant, 'purse', 'b', '0.01'),
  ];
  const outcomes = await Promise.all(postings.map((posting) => writer.post(posting)));
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'insufficient_funds', 'account_not_found', 'posted', 'insufficient_funds']);
  expect(await writers.balance(tenant, 'purse')).toBe('0');
});

test('a schema change that invalidates a prepared statement fails no posting', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  // Without a cache every batch takes the locking path, on one of two connections.
  const writer = writers.open({ maxCachedAccounts: 0 });
  for (let turn = 0; turn < 4; turn++) expect(reasonOf(await writer.post(transfer(tenant, 'a', 'b', '1.00')))).toBe('posted');
  await writers.owner.query('alter table heads alter column chart type text');
  try {
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => writer.post(transfer(tenant, 'a', 'b', '1.00'))));
    expect(tally(outcomes)).toEqual({ posted: 4 });
  } finally {
    await writers.owner.query('alter table heads alter column chart type chart_name');
  }
});

test('a head locked by another session delays or refuses its own tenant’s postings only', async () => {
  const [locked, free] = [await writers.tenantWith('a', 'b'), await writers.tenantWith('a', 'b')];
  const writer = writers.open();
  await writers.owner.query('begin');
  await writers.owner.query('select from heads where tenant_id = $1 for update', [toUuid('tenant', locked)]);
  const stuck = writer.post(transfer(locked, 'a', 'b', '1.00'));
  const others = await Promise.all(Array.from({ length: 20 }, () => writer.post(transfer(free, 'a', 'b', '1.00'))));
  expect(tally(others)).toEqual({ posted: 20 });
  expect(reasonOf(await writer.post(transfer(locked, 'a', 'b', '1.00'), { failFastOnLock: true }))).toBe('lock_conflict');
  expect(reasonOf(await stuck)).toBe('unavailable');
  expect(reasonOf(await writer.post(transfer(locked, 'a', 'b', '1.00'), { failFastOnLock: true }))).toBe('lock_conflict');
  const waiting = writer.post(transfer(locked, 'a', 'b', '1.00'));
  // Not a commit, whose fsync might take longer than the lock time-out.
  await writers.owner.query('rollback');
  expect(reasonOf(await waiting)).toBe('posted');
  expect(await writers.transactionsOf(locked)).toBe(1);
});

test('while a table is locked, a posting that needs it waits alone, and the others of its batch are posted', async () => {
  const tenants = await Promise.all(Array.from({ length: 20 }, () => writers.tenantWith('a', 'b')));
  const writer = writers.open({ pipelines: 1 });
  await Promise.all(tenants.map((tenant) => writer.post(transfer(tenant, 'a', 'b', '1.00'))));
  const entries = [{ accountCode: 'a', amount: '7.00', side: 'debit', currency: 'EUR' }];
  await writers.owner.query('begin');
  // As `create index` locks it: no account can be created, such as the suspense account of a first single entry.
  await writers.owner.query('lock table accounts in share mode');
  try {
    const outcomes = await Promise.all(
      tenants.map((tenant, index) =>
        writer.post(
          index === 7 ? validatePosting(create(PostingSchema, { tenantId: tenant, entries })) : transfer(tenant, 'a', 'b', '1.00'),
        ),
      ),
    );
    expect(tally(outcomes)).toEqual({ posted: 19, unavailable: 1 });
    expect(reasonOf(outcomes[7] as Outcome)).toBe('unavailable');
  } finally {
    await writers.owner.query('commit');
  }
});

test('postings wait for a schema change of the heads table, cached or not', async () => {
  const tenants = await Promise.all(Array.from({ length: 7 }, () => writers.tenantWith('a', 'b')));
  const writer = writers.open({ pipelines: 1, isPatient: true });
  for (const tenant of tenants.slice(0, 4)) posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  const entries = [{ accountCode: 'a', amount: '7.00', side: 'debit', currency: 'EUR' }];
  const outcomes = await whileLogHeadsLocked(writers.adminUrl, () => {
    const postings = tenants.flatMap((tenant) => [
      transfer(tenant, 'a', 'b', '1.00'),
      // Its suspense account is created first.
      validatePosting(create(PostingSchema, { tenantId: tenant, entries, timeoutMs: postingTimeoutMs })),
    ]);
    return Promise.all(postings.map((posting) => writer.post(posting)));
  });
  expect(tally(outcomes)).toEqual({ posted: 14 });
  for (const [index, tenant] of tenants.entries()) expect(await writers.transactionsOf(tenant)).toBe(index < 4 ? 3 : 2);
});

test('the largest legal posting is posted: 200 entries and full metadata', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const entries = Array.from({ length: 200 }, (_, index) => ({
    accountCode: index % 2 === 0 ? 'a' : 'b',
    amount: '9999999999999.99',
    side: index % 2 === 0 ? 'debit' : 'credit',
    currency: 'NGN',
  }));
  const metadata = JSON.stringify({ note: 'n'.repeat(16_384 - 11) });
  const description = 'd'.repeat(1000);
  const posting = validatePosting(create(PostingSchema, { tenantId: tenant, entries, metadata, description, reference: 'r'.repeat(255) }));
  const { transaction } = posted(await writers.open().post(posting));
  expect(transaction.entries).toHaveLength(200);
  expect(transaction.metadata).toBe(metadata);
  expect(transaction.amount).toBe('999999999999999.00');
});

test('the first single entry in a currency creates its suspense account, as an event of its own', async () => {
  const tenant = await writers.tenantWith('a');
  const entries = [{ accountCode: 'a', amount: '7.00', side: 'debit', currency: 'EUR' }];
  const posting = validatePosting(create(PostingSchema, { tenantId: tenant, entries }));
  const { transaction } = posted(await writers.open().post(posting));
  expect(transaction.sequence).toBe(3n);
  expect(transaction.entries.map((entry) => [entry.accountCode, entry.side, entry.counter])).toEqual([
    ['a', 'debit', false],
    ['SUSPENSE-EUR', 'credit', true],
  ]);
});

test('a refused first single entry creates no suspense account', async () => {
  const tenant = await writers.tenantWith('purse');
  const entries = [{ accountCode: 'purse', amount: '7.00', side: 'credit', currency: 'GBP' }];
  expect(reasonOf(await writers.open().post(validatePosting(create(PostingSchema, { tenantId: tenant, entries }))))).toBe(
    'insufficient_funds',
  );
  const { rows } = await writers.owner.query('select from accounts where tenant_id = $1', [toUuid('tenant', tenant)]);
  expect(rows).toHaveLength(1);
});

test('a posting to an unknown tenant is refused and creates nothing', async () => {
  const tenant = newId('tenant');
  expect(reasonOf(await writers.open().post(transfer(tenant, 'a', 'b', '1.00')))).toBe('account_not_found');
  const { rows } = await writers.owner.query('select from heads where tenant_id = $1', [toUuid('tenant', tenant)]);
  expect(rows).toHaveLength(0);
});

test('two replicas that post to one tenant alternately see each other’s balances', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const [one, two] = [writers.open(), writers.open()];
  for (let turn = 0; turn < 5; turn++) {
    expect(reasonOf(await one.post(transfer(tenant, 'a', 'purse', '1.00')))).toBe('posted');
    expect(reasonOf(await two.post(transfer(tenant, 'purse', 'a', '1.00')))).toBe('posted');
    expect(reasonOf(await two.post(transfer(tenant, 'purse', 'a', '1.00')))).toBe('insufficient_funds');
  }
});

test('balances changed by a rebuild are read again, not overwritten from the cache', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const writer = writers.open();
  posted(await writer.post(transfer(tenant, 'a', 'purse', '1.00')));
  await writers.owner.query(
    `with changed as (update balances set debits = debits + 500, credits = credits + 500 where tenant_id = $1)
     update heads set rebuilt = rebuilt + 1 where tenant_id = $1`,
    [toUuid('tenant', tenant)],
  );
  const { transaction } = posted(await writer.post(transfer(tenant, 'purse', 'a', '1.00')));
  expect(transaction.entries.map((entry) => entry.balanceAfter)).toEqual(['0.00', '0.00']);
  const { rows } = await writers.owner.query('select debits::int, credits::int from balances where tenant_id = $1', [
    toUuid('tenant', tenant),
  ]);
  expect(rows).toEqual([
    { debits: 600, credits: 600 },
    { debits: 600, credits: 600 },
  ]);
});

test('an account closed by another replica takes no further posting', async () => {
  const tenant = await writers.tenantWith('a', 'b', 'c');
  const writer = writers.open();
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  await updateAccount(writers.pool, toUuid('tenant', tenant) as string, 'c', { status: 'closed' }, by);
  expect(reasonOf(await writer.post(transfer(tenant, 'a', 'c', '1.00')))).toBe('account_closed');
});

test('a full disk refuses a posting at once, and it is posted when there is space again', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open();
  // The first batch of a tenant takes the locking path, the next ones are one call.
  for (const idempotencyKey of ['the first', 'the next']) {
    await writers.owner.query(`create function full_disk() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
      create trigger full_disk before insert on transactions for each row execute function full_disk()`);
    try {
      // The refusal does not wait for this minute.
      const outcome = await writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey, timeoutMs: 60_000 }));
      expect(outcome).toMatchObject({ refusal: { reason: 'unavailable', message: expect.stringContaining('disk is full') } });
    } finally {
      await writers.owner.query('drop function full_disk cascade');
    }
    expect(reasonOf(await writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey })))).toBe('posted');
  }
  expect(await writers.balance(tenant, 'b')).toBe('200');
});

test('the head, and its table before it, are the only explicit locks in the SQL of the ledger’s write path', () => {
  // A posting waits for the relay's locks one statement at most. A deleted tenant takes none. Filters, redactions, rows of the
  // auditor, proofs, rebuilds and an operator's replay are not on its path.
  const others = [
    'relay-claims.ts',
    'dead-letters.ts',
    'outbox/replay.ts',
    'tenant-deletion.ts',
    'delete-tenant.ts',
    'filters.ts',
    'redaction.ts',
  ];
  const files = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' }).filter(
    (file) => /(?<!\.test)\.ts$/.test(file) && !/^(audit(or)?|proof)\//.test(file) && !others.some((each) => file.endsWith(each)),
  );
  const locks = files.flatMap((file) => {
    const text = readFileSync(`${import.meta.dirname}/${file}`, 'utf8').replace(/^\s*(\/\/|\*|\/\*).*$/gm, '');
    // `table` may be left out: a statement that begins with `lock`, whose name follows.
    const lock = /.*(for\s+(no\s+key\s+)?update|for\s+(key\s+)?share|advisory|(^|['"`;]|\b(begin|then|else|loop))\s*lock\s+[\w"$]).*/gim;
    return [...text.matchAll(lock)].map((match) => match[0].trim());
  });
  expect(locks.length).toBeGreaterThan(0);
  for (const lock of locks) expect(lock).toMatch(/(\$\{selectHead\}|from heads) where tenant_id|lock table heads in row exclusive mode/);
});
