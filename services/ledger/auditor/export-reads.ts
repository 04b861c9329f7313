// What exports read: records of a tenant in order, page by page, up to one position of its log.
import type { AccountRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../../proto/gen/ledger/v1/ledger_pb.js';
import { epochMs, readTenant, type Client, type Connections } from '../../platform/postgres.ts';
import { net, type Side } from '../accounting.ts';
import { accountColumns, recordOf as accountOf, type AccountRow } from '../chart.ts';
import { eventColumns, type EventRow } from '../events.ts';
import { genesisHash } from '../log.ts';
import { matchingSequences, recordOf, type TransactionRow } from '../reads.ts';
import { totalsAt } from '../totals.ts';
import type { TransactionFilter } from '../transaction-search.ts';
import { inSnapshot } from './snapshot.ts';

// Rows of the log have some 60 KiB at most.
const pageRows = 200;
const accountRows = 500;
// Positions that are searched at once.
const maxWidth = 1n << 20n;
// Of one page.
const statementMs = 10_000;

/** Whose records are read, and how far. */
export interface ExportScope {
  connections: Connections;
  /** UUID. */
  tenant: string;
  /** Positions of the log: after the first, up to the second. */
  after: bigint;
  through: bigint;
  /** Which transactions; undefined: all. */
  filter?: TransactionFilter | undefined;
}

/** A row of the log. `payload_hash`: that of the payload that was posted, where a redaction has put another in its place. */
type ExportedRow = EventRow & { payload_hash: Buffer | null };

/** An event with the hash of the one before. */
export interface ExportedEvent {
  row: ExportedRow;
  previousHash: Buffer;
}

/** Events, oldest first. */
export async function* readEvents({ connections, tenant, after, through }: ExportScope): AsyncGenerator<ExportedEvent[]> {
  for (let from = after; from < through;) {
    const [rows] = await readTenant<[ExportedRow[]]>(connections, tenant, {
      name: 'export_events',
      // Including the one before, for its hash.
      text: `select ${eventColumns}, payload_hash from log left join redactions using (tenant_id, sequence)
        where tenant_id = $1 and sequence >= $2 and sequence <= $3 order by sequence limit ${pageRows + 1}`,
      values: [tenant, from, through],
    });
    const own = rows.filter((row) => row.sequence > from);
    const first = rows.length - own.length;
    yield own.map((row, index) => ({ row, previousHash: rows[first + index - 1]?.hash ?? genesisHash }));
    from = own.at(-1)?.sequence ?? through;
  }
}

/** The signed checkpoint of a log of this size, if there is one. */
export async function readCheckpoint(connections: Connections, tenant: string, size: bigint): Promise<string | undefined> {
  const [rows] = await readTenant<[{ note: string }[]]>(connections, tenant, {
    name: 'export_checkpoint',
    text: 'select note from checkpoints where tenant_id = $1 and size = $2 order by origin desc limit 1',
    values: [tenant, size],
  });
  return rows[0]?.note;
}

/** Transactions, oldest first, as they were at `through`: what reversed them later is left out. */
export async function* readTransactions(scope: ExportScope): AsyncGenerator<Transaction[]> {
  const { connections, tenant, through } = scope;
  for await (const sequences of scope.filter === undefined ? allPositions(scope) : matchingPositions(scope, scope.filter)) {
    const [rows] = await readTenant<[TransactionRow[]]>(connections, tenant, {
      name: 'export_transactions',
      text: `select t.sequence, ${epochMs('t.created_at')} as created_ms, l.payload, r.id as reversed_by, part.payload as part_payload
        from unnest($2::bigint[]) as page (sequence)
        join transactions t on t.tenant_id = $1 and t.sequence = page.sequence
        join log l on l.tenant_id = $1 and l.sequence = page.sequence
        left join transactions r on r.tenant_id = $1 and r.reverses = t.id and r.sequence <= $3
        left join lateral (
          select e.payload from parts p join log e on e.tenant_id = $1 and e.sequence = p.sequence
          where p.tenant_id = $1 and p.of = t.id and p.sequence <= $3 order by p.number desc limit 1) part on true
        order by t.sequence`,
      values: [tenant, sequences, through],
    });
    yield rows.map((row) => recordOf(tenant, row));
  }
}

async function* allPositions({ connections, tenant, after, through }: ExportScope): AsyncGenerator<bigint[]> {
  for (let from = after; from < through;) {
    const [rows] = await readTenant<[{ sequence: bigint }[]]>(connections, tenant, {
      name: 'export_positions',
      text: `select sequence from transactions where tenant_id = $1 and sequence > $2 and sequence <= $3 order by sequence limit ${10 * pageRows}`,
      values: [tenant, from, through],
    });
    const sequences = rows.map(({ sequence }) => sequence);
    for (let first = 0; first < sequences.length; first += pageRows) yield sequences.slice(first, first + pageRows);
    from = sequences.at(-1) ?? through;
  }
}

// The search reads the newest first, so it is asked for ranges of the log, wider ones where few match.
async function* matchingPositions(scope: ExportScope, filter: TransactionFilter): AsyncGenerator<bigint[]> {
  const { connections, tenant, after, through } = scope;
  let width = BigInt(pageRows);
  for (let from = after; from < through;) {
    const to = from + width < through ? from + width : through;
    const found = await matchingSequences(connections, tenant, filter, { after: from, through: to, most: pageRows });
    if (found === null) {
      width /= 2n;
      continue;
    }
    if (found.length > 0) yield found;
    if (found.length < pageRows / 4 && width < maxWidth) width *= 2n;
    from = to;
  }
}

/** Accounts, oldest first, for a caller whose SQL transaction sees the tenant's rows as of one position. */
export async function* readAccounts(client: Client, tenant: string): AsyncGenerator<AccountRecord[]> {
  for (let last = '00000000-0000-0000-0000-000000000000'; ;) {
    const { rows } = await client.query<AccountRow>({
      name: 'export_accounts',
      text: `select ${accountColumns} from accounts a where a.tenant_id = $1 and a.id > $2 order by a.id limit ${accountRows}`,
      values: [tenant, last],
    });
    if (rows.length === 0) return;
    yield rows.map(accountOf);
    last = rows.at(-1)?.id ?? last;
  }
}

/** The balance of an account in a currency; minor units. */
export interface ExportedBalance {
  /** UUID. */
  accountId: string;
  accountCode: string;
  currency: string;
  balance: bigint;
  debits: bigint;
  credits: bigint;
}

/** Balances of what was recorded up to `through`, by the age of accounts. */
export async function* readBalances({ connections, tenant, through }: ExportScope): AsyncGenerator<ExportedBalance[]> {
  for (let last = '00000000-0000-0000-0000-000000000000'; ;) {
    const page = await inSnapshot(connections, tenant, { statementMs }, async ({ client }) => {
      const { rows } = await client.query<{ id: string; code: string; normal_balance: Side }>({
        name: 'export_balances',
        text: `select id, code, normal_balance from accounts where tenant_id = $1 and id > $2 and not is_group order by id limit ${accountRows}`,
        values: [tenant, last],
      });
      const ids = rows.map(({ id }) => id);
      const [totals] = rows.length === 0 ? [] : await totalsAt(client, tenant, [{ effectiveMs: Infinity, sequence: through }], ids);
      return { rows, totals: [...(totals ?? [])].map(([key, total]) => ({ id: key.slice(0, 36), currency: key.slice(37), ...total })) };
    });
    if (page.rows.length === 0) return;
    const byAccount = Map.groupBy(page.totals, ({ id }) => id);
    yield page.rows.flatMap(({ id, code, normal_balance: normalBalance }) =>
      (byAccount.get(id) ?? [])
        .sort((one, other) => (one.currency < other.currency ? -1 : 1))
        .map(({ currency, debits, credits }) => {
          const balance = net({ normalBalance }, { debits, credits });
          return { accountId: id, accountCode: code, currency, balance, debits, credits };
        }),
    );
    last = page.rows.at(-1)?.id ?? last;
  }
}
