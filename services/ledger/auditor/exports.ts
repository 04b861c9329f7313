// Exports: all records of one kind, or of all, as of one position of the log, at the reader's pace.
import type { Connections } from '../../platform/postgres.ts';
import { csvLine } from '../reports/formats/csv.ts';
import { readAccounts, readBalances, readCheckpoint, readEvents, readTransactions, type ExportScope } from './export-reads.ts';
import { accountForm, balanceForm, entryForm, eventForm, transactionForm, type RecordForm } from './export-records.ts';
import type { TransactionFilter } from '../transaction-search.ts';
import { inSnapshot, streamSnapshot, type Head } from './snapshot.ts';

/** What can be exported. */
export const exported = ['events', 'transactions', 'entries', 'accounts', 'balances', 'everything'] as const;

/** One of these. */
export type Exported = (typeof exported)[number];

/** Formats of exports. */
export const exportFormats = ['ndjson', 'csv'] as const;

/** What is asked for. */
export interface ExportRequest {
  what: Exported;
  format: (typeof exportFormats)[number];
  /** Only later records, of those that have a sequence. */
  afterSequence: bigint;
  /** Which transactions and entries; undefined: all. */
  filter?: TransactionFilter | undefined;
}

/** The position as of which the export reads, or a part of its text. */
export type ExportPart = { through: bigint } | { bytes: Buffer };

// Of one statement. The reader of accounts may take its time between two pages.
const [statementMs, idleMs] = [10_000, 60_000];
const partBytes = 128 * 1024;

/** Reads an export of a tenant (UUID). The first part is its position. */
export async function* exportOf(connections: Connections, tenant: string, request: ExportRequest): AsyncGenerator<ExportPart> {
  const writer = new ExportWriter(request);
  if (request.what === 'accounts' || request.what === 'everything') {
    // Accounts change, so that they are read in one snapshot; what follows stands in the log.
    let head: Head | undefined;
    yield* streamSnapshot(connections, tenant, { statementMs, idleMs }, async function* (snapshot) {
      head = snapshot.head;
      yield { through: head.sequence };
      yield* writer.write(accountForm, readAccounts(snapshot.client, tenant));
    });
    if (!head) throw new Error('a snapshot without its head');
    if (request.what === 'everything') {
      const scope = { connections, tenant, after: 0n, through: head.sequence };
      yield* writer.write(transactionForm, readTransactions(scope));
      yield* writer.write(entryForm, entriesOf(scope));
      yield* writer.write(balanceForm, readBalances(scope));
    }
    yield* writer.end(head);
    return;
  }
  const head = await inSnapshot(connections, tenant, { statementMs }, (snapshot) => Promise.resolve(snapshot.head));
  const scope = { connections, tenant, after: request.afterSequence, through: head.sequence, filter: request.filter };
  yield { through: head.sequence };
  if (request.what === 'events') {
    yield* writer.write(eventForm(tenant), readEvents(scope));
    yield* writer.end(head, await readCheckpoint(connections, tenant, head.sequence));
    return;
  }
  if (request.what === 'transactions') yield* writer.write(transactionForm, readTransactions(scope));
  else if (request.what === 'entries') yield* writer.write(entryForm, entriesOf(scope));
  else yield* writer.write(balanceForm, readBalances(scope));
  yield* writer.end(head);
}

async function* entriesOf(scope: ExportScope) {
  for await (const page of readTransactions(scope)) {
    yield page.flatMap((transaction) => transaction.entries.map((_, position) => ({ transaction, position })));
  }
}

/** The same, reading one page ahead of its reader. */
async function* ahead<Page>(pages: AsyncGenerator<Page>): AsyncGenerator<Page> {
  let next = pages.next();
  try {
    for (let page = await next; page.done !== true; page = await next) {
      next = pages.next();
      // Where the reader leaves, nobody waits for it.
      next.catch(() => undefined);
      yield page.value;
    }
  } finally {
    await pages.return(undefined);
  }
}

/** Writes records as text, in parts. */
class ExportWriter {
  private readonly format: ExportRequest['format'];
  private readonly isMixed: boolean;
  private count = 0;
  private text = '';

  constructor({ format, what }: ExportRequest) {
    this.format = format;
    this.isMixed = what === 'everything';
  }

  /** Writes all records of a kind. */
  async *write<Item>(form: RecordForm<Item>, pages: AsyncGenerator<Item[]>): AsyncGenerator<{ bytes: Buffer }> {
    const types = form.columns.map(([, type]) => type);
    if (this.format === 'csv')
      this.text += csvLine(
        form.columns.map(([name]) => name),
        types,
      );
    for await (const page of ahead(pages)) {
      for (const item of page) {
        this.text += this.format === 'csv' ? csvLine(form.cells(item), types) : this.line(form, item);
        this.count++;
        if (this.text.length >= partBytes) yield this.take();
      }
    }
    if (this.text !== '') yield this.take();
  }

  /** By the last line a reader of NDJSON knows that nothing was cut off. */
  *end({ sequence, hash }: Head, checkpoint?: string): Generator<{ bytes: Buffer }> {
    if (this.format === 'csv') return;
    const end = { end: true, count: this.count, sequence: Number(sequence), hash: hash.toString('hex'), checkpoint };
    yield { bytes: Buffer.from(`${JSON.stringify(end)}\n`) };
  }

  private line<Item>({ type, json }: RecordForm<Item>, item: Item): string {
    return this.isMixed ? `{"type":"${type}","data":${json(item)}}\n` : `${json(item)}\n`;
  }

  private take(): { bytes: Buffer } {
    const bytes = Buffer.from(this.text);
    this.text = '';
    return { bytes };
  }
}
