// Reads a whole file once: what it would post, which accounts it needs, and what can't be brought over.
import { createHash } from 'node:crypto';
import { fromMinor } from '../../clients/typescript/ledger.ts';
import type { AccountMap } from './accounts.ts';
import { Unreadable, type Line, type Posting, type Reversal, type Unit } from './unit.ts';

/** A unit that was left out. */
export interface Refusal {
  where: string;
  reason: string;
}

/** An item of `transactions/batch`; a reversal has the key of what it reverses in place of its id. */
export interface Item {
  op: 'double' | 'hold' | 'reverse';
  idempotency_key: string;
  description: string;
  reference?: string;
  metadata?: Record<string, unknown>;
  effective_at?: string;
  entries?: { account_code: string; side: 'debit' | 'credit'; amount: string; currency: string }[];
  reverses?: string;
}

/** An item, how many entries it has, and where it stands in the file. */
export interface Placed {
  where: string;
  item: Item;
  entries: number;
}

const maxEntries = 200;
// Thirteen digits before the point.
const maxMinor = 10n ** 15n;

/** Turns the units of a file into items, and counts. One for each reading of the file. */
export class Importer {
  readonly counts = { postings: 0, holds: 0, reversals: 0, refused: 0 };
  /** The first ten. */
  readonly refusals: Refusal[] = [];
  readonly skipped = new Map<string, number>();
  /** What the file debits, by currency. */
  readonly sums = new Map<string, bigint>();
  /** Credits less debits by code and currency, of postings and reversals. */
  readonly balances = new Map<string, bigint>();
  /** What the file says of accounts, by name. */
  readonly metadata = new Map<string, Record<string, unknown>>();
  /** Keys of postings that are reversed later. */
  readonly reversed = new Set<string>();
  private readonly accounts: AccountMap;
  private readonly source: string;
  private readonly occurrences = new Map<string, number>();
  /** Digests of content by key. */
  private readonly contents = new Map<string, string>();
  private readonly reversible = new Map<string, Line[]>();

  /** `source`: begins the keys. */
  constructor(accounts: AccountMap, source: string) {
    [this.accounts, this.source] = [accounts, source];
  }

  /** The item of a unit; undefined where it has none. */
  itemOf(unit: Unit): Placed | undefined {
    if (unit.kind === 'account') {
      this.accounts.declare(unit.name, unit.type);
      if (unit.metadata && Object.keys(unit.metadata).length > 0)
        this.metadata.set(unit.name, { ...this.metadata.get(unit.name), ...unit.metadata });
      return undefined;
    }
    if (unit.kind === 'skipped') return this.skip(unit.reason);
    if (unit.kind === 'refused') {
      this.refuse(unit.where, unit.reason);
      return undefined;
    }
    try {
      return unit.kind === 'reversal' ? this.reversal(unit) : this.posting(unit);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.refuse(unit.where, error.message);
      return undefined;
    }
  }

  private skip(reason: string): undefined {
    this.skipped.set(reason, (this.skipped.get(reason) ?? 0) + 1);
  }

  /** Counts what can't be posted. */
  refuse(where: string, reason: string): void {
    this.counts.refused += 1;
    if (this.refusals.length < 10) this.refusals.push({ where, reason });
  }

  private posting(unit: Posting): Placed | undefined {
    const lines = unit.lines.filter(({ minor }) => minor !== 0n);
    if (lines.length < 2) throw new Unreadable('it moves nothing');
    if (lines.length > maxEntries) throw new Unreadable(`it has ${lines.length} lines; a transaction has at most ${maxEntries}`);
    const large = lines.find(({ minor }) => minor >= maxMinor);
    if (large) throw new Unreadable(`${large.currency} ${fromMinor(large.minor)} has more than 13 digits before the point`);
    const open = new Map<string, bigint>();
    for (const { side, minor, currency } of lines) open.set(currency, (open.get(currency) ?? 0n) + (side === 'debit' ? minor : -minor));
    for (const [currency, minor] of open)
      if (minor !== 0n)
        throw new Unreadable(
          `${currency} is ${fromMinor(minor < 0n ? -minor : minor)} short on the ${minor > 0n ? 'credit' : 'debit'} side`,
        );
    const entries = lines.map(({ account, side, minor, currency }) => {
      return { account_code: this.accounts.target(account).code, side, amount: fromMinor(minor), currency };
    });
    const { id, date, description, reference, metadata = {} } = unit;
    const key = id === undefined ? this.contentKey({ date, description, reference, entries }) : this.keyOf(id);
    if (id !== undefined) {
      const content = digest(JSON.stringify([unit.kind, date, description, reference, metadata, entries]));
      const before = this.contents.get(key);
      // The ledger would refuse it in the midst of the import.
      if (before !== undefined && before !== content) throw new Unreadable(`another transaction before it has the id ${id}`);
      if (before !== undefined) return this.skip('a transaction before it is the same, with its id');
      this.contents.set(key, content);
    }
    if (unit.kind === 'posting') this.count(lines, 1n);
    if (id !== undefined && unit.kind === 'posting') this.reversible.set(id, lines);
    this.counts[unit.kind === 'hold' ? 'holds' : 'postings'] += 1;
    const item: Item = {
      op: unit.kind === 'hold' ? 'hold' : 'double',
      idempotency_key: key,
      description: shortened(description, 1_000),
      ...(reference !== undefined && { reference: shortened(reference, 255) }),
      ...(Object.keys(metadata).length > 0 && { metadata }),
      ...(unit.kind === 'posting' && { effective_at: date }),
      entries,
    };
    return { where: unit.where, item, entries: entries.length };
  }

  private reversal({ where, id, date, description, reverses }: Reversal): Placed {
    const lines = this.reversible.get(reverses);
    if (!lines) throw new Unreadable(`it reverses ${reverses}, which is not in the file`);
    this.count(lines, -1n);
    this.counts.reversals += 1;
    this.reversed.add(this.keyOf(reverses));
    const names = { idempotency_key: this.keyOf(id), description, effective_at: date };
    return { where, item: { op: 'reverse', ...names, reverses: this.keyOf(reverses) }, entries: lines.length };
  }

  private count(lines: Line[], times: bigint): void {
    for (const { account, side, minor, currency } of lines) {
      const name = `${this.accounts.target(account).code} ${currency}`;
      this.balances.set(name, (this.balances.get(name) ?? 0n) + times * (side === 'credit' ? minor : -minor));
      if (side === 'debit') this.sums.set(currency, (this.sums.get(currency) ?? 0n) + minor);
    }
  }

  private keyOf(id: string): string {
    const isPlain = /^[!-~]([ -~]*[!-~])?$/.test(id) && id.length <= 180;
    return `import-${this.source}-${isPlain ? id : digest(id)}`;
  }

  /** The same content has the same key, wherever it stands in a file; several that are alike are counted. */
  private contentKey(content: object): string {
    const hash = digest(JSON.stringify(content));
    const number = (this.occurrences.get(hash) ?? 0) + 1;
    this.occurrences.set(hash, number);
    return this.keyOf(number === 1 ? hash : `${hash}-${number}`);
  }
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 40);

function shortened(text: string, max: number): string {
  const points = [...text];
  return points.length <= max ? text : `${points.slice(0, max - 1).join('')}…`;
}
