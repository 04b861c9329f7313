// The baseline: how many postings PostgreSQL itself can write on this machine, without rules, hash chain, row-level security or protocol.
// The rows are the ledger's, on its schema, set-based in batches of 200. And the bare commit: one row, one transaction.
import { randomBytes } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { v7 } from 'uuid';
import { TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { newId } from '../../services/platform/ids.ts';
import { toMinor } from '../../services/platform/money.ts';
import { freshDatabase, type FreshDatabase } from '../cluster.ts';
import { currency, postingOf, transfer, wallet } from './posting.ts';
import { percentile } from './figures.ts';

const batchSize = 200;
const accountsPerTenant = 1000;
const maxConnections = 4;

/** A database of its own on the run's server. */
export class Baseline {
  private readonly single: pg.Client;
  private readonly clients: pg.Client[];
  private readonly database: FreshDatabase;
  private readonly tenants: TenantRows[];

  private constructor(database: FreshDatabase, single: pg.Client, clients: pg.Client[], tenants: TenantRows[]) {
    this.database = database;
    this.single = single;
    this.clients = clients;
    this.tenants = tenants;
  }

  /** Makes a database with the ledger's schema and a tenant with 1,000 accounts for each connection. */
  static async open(): Promise<Baseline> {
    const database = await freshDatabase('ledger', { migrated: true });
    const clients: pg.Client[] = [];
    const tenants: TenantRows[] = [];
    for (let index = 0; index < maxConnections; index++) {
      const client = await connect(database.adminUrl);
      clients.push(client);
      tenants.push(await newTenant(client));
    }
    const single = await connect(database.adminUrl);
    await single.query('create table bare (id bigint primary key, note text not null)');
    return new Baseline(database, single, clients, tenants);
  }

  /** Postings per second over so many connections, each with a tenant of its own. */
  async measure(connections: number, seconds: number): Promise<{ postings: number; perSecond: number }> {
    const started = performance.now();
    const until = started + seconds * 1000;
    const written = this.clients.slice(0, connections).map((client, index) => writeBatches(client, this.tenants[index]!, until));
    const postings = (await Promise.all(written)).reduce((sum, each) => sum + each, 0);
    return { postings, perSecond: postings / ((performance.now() - started) / 1000) };
  }

  /** One insert with its commit after the other on one connection; latencies in milliseconds. */
  async bareCommit(seconds: number): Promise<{ commits: number; perSecond: number; p50: number; p99: number }> {
    const latencies: number[] = [];
    const { rows } = await this.single.query<{ last: string }>('select coalesce(max(id), 0)::text as last from bare');
    let id = Number(rows[0]?.last);
    for (const until = performance.now() + seconds * 1000; performance.now() < until;) {
      const started = performance.now();
      const values = [++id, 'Transfer between wallets'];
      await this.single.query({ name: 'bare', text: 'insert into bare (id, note) values ($1, $2)', values });
      latencies.push(performance.now() - started);
    }
    const commits = latencies.length;
    return { commits, perSecond: commits / seconds, p50: percentile(latencies, 50), p99: percentile(latencies, 99) };
  }

  async end(): Promise<void> {
    await Promise.all([this.single, ...this.clients].map((client) => client.end()));
    await this.database.drop();
  }
}

// Index plans from the start: what the planner chooses for small tables gets slower with every posting.
const settings = [
  'plan_cache_mode=force_generic_plan',
  'enable_seqscan=off',
  'enable_hashjoin=off',
  'enable_mergejoin=off',
  'enable_bitmapscan=off',
  'jit=off',
];

async function connect(url: string): Promise<pg.Client> {
  const options = settings.map((setting) => `-c ${setting}`).join(' ');
  const client = new pg.Client({ connectionString: url, options, pipeline: true });
  await client.connect();
  return client;
}

interface TenantRows {
  tenant: string;
  sequence: number;
  /** Account ids, and their balances in minor units. */
  accounts: string[];
  balances: bigint[];
  /** Made in advance, so that this process uses little CPU. */
  payloads: string[];
  hashes: string[];
  fingerprints: string[];
}

async function newTenant(client: pg.Client): Promise<TenantRows> {
  const tenant = v7();
  const accounts = Array.from({ length: accountsPerTenant }, () => v7());
  const hex = (bytes: Uint8Array) => `"\\\\x${Buffer.from(bytes).toString('hex')}"`;
  const many = (make: () => string) => Array.from({ length: 500 }, make);
  await client.query(`insert into heads values ($1, 0, $2, now(), null, 0)`, [tenant, Buffer.alloc(32)]);
  await client.query(
    `insert into accounts select $1, id, 'WALLET-' || lpad(n::text, 4, '0'), 'Wallet', 'liability', 'credit', $3, null, false, null, false,
       'active', false, '{}', 1, now(), now() from unnest($2::uuid[]) with ordinality as new (id, n)`,
    [tenant, accounts, currency],
  );
  await client.query(`insert into balances select $1, id, $3, 0, 1000000000, 0, 0, 1, now() from unnest($2::uuid[]) as new (id)`, [
    tenant,
    accounts,
    currency,
  ]);
  return {
    tenant,
    sequence: 0,
    accounts,
    balances: accounts.map(() => 1_000_000_000n),
    payloads: many(() => hex(payload())),
    hashes: many(() => hex(randomBytes(32))),
    fingerprints: many(() => hex(randomBytes(33))),
  };
}

/** An event of the ledger's usual length. */
function payload(): Uint8Array {
  const { from, to, amount } = transfer(accountsPerTenant);
  const { idempotencyKey = '', description = '', reference = '', metadata = '' } = postingOf('', 'yard-01-1', 0, accountsPerTenant);
  const [debited, credited] = [newId('acc'), newId('acc')];
  const totals = { previousBalance: '10000123.45', balance: '10000123.45', debits: '2345.67', credits: '10002469.12' };
  const pending = { pendingDebits: '0.00', pendingCredits: '0.00', available: '10000123.45', version: 321n };
  const event = create(TransactionPostedSchema, {
    transactionId: newId('txn'),
    kind: 'double',
    idempotencyKey,
    fingerprint: randomBytes(33),
    description,
    reference,
    metadata,
    entries: [
      { accountId: debited, accountCode: wallet(from), amount, side: 'debit', currency, balanceAfter: '10000123.45' },
      { accountId: credited, accountCode: wallet(to), amount, side: 'credit', currency, balanceAfter: '10000123.45' },
    ],
    balances: [
      { accountId: debited, accountCode: wallet(from), currency, ...totals, ...pending },
      { accountId: credited, accountCode: wallet(to), currency, ...totals, ...pending },
    ],
  });
  return toBinary(TransactionPostedSchema, event);
}

async function writeBatches(client: pg.Client, rows: TenantRows, until: number): Promise<number> {
  let written = 0;
  let next = statements(rows);
  while (performance.now() < until) {
    // One round trip; the next batch is prepared meanwhile.
    const answers = Promise.all(next.map((statement) => client.query(statement)));
    next = statements(rows);
    await answers;
    written += batchSize;
  }
  return written;
}

type Row = (string | number | bigint)[];

/** The rows as PostgreSQL's arrays, one for each column; pg would quote and escape element by element. */
function columns(rows: Row[]): string[] {
  return rows[0]!.map((_, column) => `{${rows.map((row) => row[column]).join(',')}}`);
}

function statements(rows: TenantRows): pg.QueryConfig[] {
  const { tenant, accounts, balances } = rows;
  const pick = (from: string[]) => from[Math.floor(Math.random() * from.length)]!;
  const [log, transactions, entries]: [Row[], Row[], Row[]] = [[], [], []];
  const changed = new Map<number, { debits: bigint; credits: bigint; postings: number }>();
  for (let count = 0; count < batchSize; count++) {
    const sequence = ++rows.sequence;
    const id = `yard-01-1-${String(sequence).padStart(9, '0')}`;
    log.push([sequence, v7(), pick(rows.payloads), pick(rows.hashes)]);
    transactions.push([sequence, v7(), `bench-${id}`, pick(rows.fingerprints), `INV-${id}`]);
    const { from, to, amount } = transfer(accountsPerTenant);
    const minor = toMinor(amount)!;
    for (const [position, account] of [from - 1, to - 1].entries()) {
      const [debit, credit] = position === 0 ? [minor, 0n] : [0n, minor];
      balances[account] = balances[account]! + credit - debit;
      const change = changed.get(account) ?? { debits: 0n, credits: 0n, postings: 0 };
      changed.set(account, { debits: change.debits + debit, credits: change.credits + credit, postings: change.postings + 1 });
      entries.push([accounts[account]!, sequence, position, position === 0 ? 'debit' : 'credit', minor, balances[account]]);
    }
  }
  const changes = [...changed].map(([account, { debits, credits, postings }]) => [accounts[account]!, debits, credits, postings]);
  return [
    { text: 'begin' },
    {
      name: 'log',
      text: `insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, payload, hash)
        select $1, s, e, 'transaction.posted', clock_timestamp(), 'benchmark', 'req-yard-01-1-000000001', p, h
        from unnest($2::bigint[], $3::uuid[], $4::bytea[], $5::bytea[]) as new (s, e, p, h)`,
      values: [tenant, ...columns(log)],
    },
    {
      name: 'transactions',
      text: `insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
        select $1, s, i, k, f, r, null, clock_timestamp()
        from unnest($2::bigint[], $3::uuid[], $4::text[], $5::bytea[], $6::text[]) as new (s, i, k, f, r)`,
      values: [tenant, ...columns(transactions)],
    },
    {
      name: 'entries',
      text: `insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
        select $1, a, '${currency}', s, p, d, m, b
        from unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::text[], $6::bigint[], $7::numeric[]) as new (a, s, p, d, m, b)`,
      values: [tenant, ...columns(entries)],
    },
    {
      name: 'balances',
      // offset 0 keeps the planner from reading all balances of the tenant.
      text: `update balances b set debits = debits + d, credits = credits + c, version = version + n, updated_at = clock_timestamp()
        from (select $1::uuid as t, * from unnest($2::uuid[], $3::numeric[], $4::numeric[], $5::bigint[]) as new (a, d, c, n) offset 0) as new
        where b.tenant_id = t and b.account_id = a and b.currency = '${currency}'`,
      values: [tenant, ...columns(changes)],
    },
    {
      name: 'head',
      text: `update heads set sequence = $2, hash = decode($3, 'hex'), last_at = clock_timestamp() where tenant_id = $1`,
      values: [tenant, rows.sequence, 'ab'.repeat(32)],
    },
    { text: 'commit' },
  ];
}
