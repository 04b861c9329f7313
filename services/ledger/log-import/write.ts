// Writes a log that was checked into a tenant without events: its events, every projection, and last the head.
import { create, toBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { LogImportedSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../../platform/ids.ts';
import { Refusal } from '../accounting.ts';
import { Findings } from '../audit/findings.ts';
import { Reversals } from '../audit/reversals.ts';
import { bytea, joined, time, type Row } from '../audit/rows.ts';
import { chainHash, genesisHash, type LogRow } from '../log.ts';
import { LineReplay, indexedSince, type CheckedLog } from './check.ts';
import { invalidLine, type ImportedEvent } from './lines.ts';
import { readLog, type OpenExport } from './read-log.ts';

/** Who imports a log under another id, for the event that begins it. */
export interface Importer {
  /** UUID of the event: a second run finds by it what the first one wrote. */
  eventId: string;
  actor: string;
  requestId: string;
}

/** What is written. */
export interface LogToWrite {
  /** Whose log it becomes, a UUID. */
  tenant: string;
  open: OpenExport;
  checked: CheckedLog;
  /** Null: the log stays that of its tenant, with all its hashes. */
  importer: Importer | null;
}

/** The end of a log that was written. */
export type WrittenHead = Pick<LogRow, 'sequence' | 'hash'>;

/** Rows of one statement, but for entries, all of whose transaction must be inserted together. */
const maxRows = 5_000;

/**
 * Writes a log in the caller's SQL transaction, which sees the tenant's rows. `progress`: events so far; it may throw. Throws a Refusal where the
 * tenant has events, and for lines that the tables reject.
 */
export async function writeLog(
  client: pg.ClientBase,
  { tenant, open, checked, importer }: LogToWrite,
  progress: (events: number) => void = () => undefined,
): Promise<WrittenHead> {
  const { rows } = await client.query<{ isEmpty: boolean }>('select begin_import($1) as "isEmpty"', [tenant]);
  if (rows[0]?.isEmpty !== true) throw new Refusal('books_not_empty', 'the tenant has events already');
  const replay = new LineReplay(tenant, checked.keys);
  const reversals = new ImportedReversals(client, tenant);
  const placed = new Placement(tenant, importer ? firstEvent(tenant, checked, importer) : null);
  let events = 0;
  for await (const part of readLog(open())) {
    if (!Array.isArray(part)) continue;
    const added = events === 0 ? [...placed.first(), ...part.map((each) => placed.next(each))] : part.map((each) => placed.next(each));
    const replayed = added.map((event) => replay.apply(event));
    await rejecting(part, async () => {
      await store(client, tenant, { log: added.map(logRow) });
      await store(client, tenant, joined(replayed.map((each) => each.rows)));
      await reversals.check(replayed);
    });
    events += part.length;
    progress(events);
  }
  const { heads = [], ...latest } = replay.latest(events + 1);
  const indexes = Object.entries(indexedSince(latest)).map(([name, since]) => {
    return { tenant_id: tenant, name, since, through: since - 1, caught_up: true };
  });
  const accounts = parentsFirst(latest['accounts'] ?? []);
  await rejecting([], () => store(client, tenant, { ...latest, accounts, search_indexes: indexes }));
  // Of a log under another id the relay publishes the event that begins it, and then what follows the import.
  await store(client, tenant, { heads: heads.map((head) => ({ ...head, published: importer ? '0' : (head['sequence'] ?? null) })) });
  return placed.head;
}

/** The event that begins a log under another id. It is as old as the next one, because time in a log never goes back. */
function firstEvent(tenant: string, { tenant: source, size, root, checkpoint, firstMs }: CheckedLog, importer: Importer): ImportedEvent {
  const imported = create(LogImportedSchema, { tenantId: toId('tenant', source), size: BigInt(size), root, checkpoint });
  const payload = toBinary(LogImportedSchema, imported);
  const row: LogRow = { ...importer, tenant, sequence: 0n, type: 'log.imported', createdMs: firstMs, payload, hash: genesisHash };
  return { line: 0, row };
}

/** Gives events their places in the log of a tenant. */
class Placement {
  head: WrittenHead = { sequence: 0n, hash: genesisHash };
  private readonly tenant: string;
  private readonly begin: ImportedEvent | null;

  constructor(tenant: string, begin: ImportedEvent | null) {
    this.tenant = tenant;
    this.begin = begin;
  }

  /** The event that is no line of the export, if there is one. */
  first(): ImportedEvent[] {
    return this.begin ? [this.next(this.begin)] : [];
  }

  next({ line, row }: ImportedEvent): ImportedEvent {
    const placed = { ...row, tenant: this.tenant, sequence: this.head.sequence + 1n };
    placed.hash = chainHash(this.head.hash, placed);
    this.head = { sequence: placed.sequence, hash: placed.hash };
    return { line, row: placed };
  }
}

/** Compares reversals with what they reverse, which is in the tables by then. */
class ImportedReversals {
  private readonly client: pg.ClientBase;
  private readonly tenant: string;
  private readonly problems: string[] = [];
  private readonly reversals = new Reversals(new Findings((problem) => this.problems.push(problem)));

  constructor(client: pg.ClientBase, tenant: string) {
    this.client = client;
    this.tenant = tenant;
  }

  async check(replayed: ReturnType<LineReplay['apply']>[]): Promise<void> {
    const own = replayed.flatMap(({ posted, effectiveMs = 0 }) => (posted?.kind === 'reversal' ? [{ posted, effectiveMs }] : []));
    await this.reversals.check(this.client, this.tenant, own);
    if (this.problems[0] !== undefined) throw new Refusal('import_invalid', this.problems[0]);
  }
}

/** Names the lines whose events the tables, or what was posted before, reject. */
async function rejecting(events: ImportedEvent[], work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    // Also rows that are too large for an index.
    const isDataError = error instanceof pg.DatabaseError && /^(2[23]|54)/.test(error.code ?? '');
    if (!isDataError && !(error instanceof Refusal)) throw error;
    const detail = isDataError ? (error.detail ?? error.message) : error.message;
    if (!events[0]) throw new Refusal('import_invalid', `what follows from the events is not allowed: ${detail}`);
    throw invalidLine(events[0].line, `in it or the ${events.length - 1} events after it: ${detail}`);
  }
}

async function store(client: pg.ClientBase, tenant: string, tables: Record<string, Row[]>): Promise<void> {
  for (const [table, rows] of Object.entries(tables)) {
    const most = table === 'entries' ? Infinity : maxRows;
    for (let from = 0; from < rows.length; from += most) {
      await client.query('select import_rows($1, $2, $3)', [tenant, table, JSON.stringify(rows.slice(from, from + most))]);
    }
  }
}

function logRow({ row }: ImportedEvent): Row {
  return {
    ...{ tenant_id: row.tenant, sequence: row.sequence.toString(), event_id: row.eventId, type: row.type, created_at: time(row.createdMs) },
    ...{ actor: row.actor, request_id: row.requestId, payload: bytea(row.payload), hash: bytea(row.hash) },
  };
}

/** Accounts such that each comes after its group. */
function parentsFirst(accounts: Row[]): Row[] {
  const byCode = new Map(accounts.map((row) => [row['code'], row]));
  const sorted = new Set<Row>();
  const add = (row: Row | undefined) => {
    const above: Row[] = [];
    for (; row && !sorted.has(row); row = byCode.get(row['parent_code'] ?? '')) above.push(row);
    for (const each of above.reverse()) sorted.add(each);
  };
  for (const row of accounts) add(row);
  return [...sorted];
}
