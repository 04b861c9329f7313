// What single transactions move, from the log, and its totals over time: for what reports leave out or split off.
import { toUuid } from '../../platform/ids.ts';
import { epochMs, type Client } from '../../platform/postgres.ts';
import { decodePosted } from '../mapping.ts';
import type { Total, Totals } from '../totals.ts';

/** What one transaction moves, minor units by `<UUID of the account> <currency>`. */
export interface Move {
  sequence: bigint;
  /** When it counts, milliseconds since the Unix epoch. */
  effectiveMs: number;
  moved: Totals;
}

interface EventRow {
  sequence: bigint;
  created_ms: number;
  payload: Buffer;
}

/** Totals of moves at the end of each time (milliseconds since the Unix epoch). */
export class MovesOverTime {
  private readonly times: number[];
  private readonly steps: Totals[];

  constructor(times: readonly number[]) {
    this.times = times.toSorted((one, other) => one - other);
    this.steps = this.times.map((): Totals => new Map());
  }

  /** Counts a transaction from when it counts on. */
  add({ effectiveMs, moved }: Move): void {
    const step = this.steps[this.times.findIndex((ms) => effectiveMs <= ms)];
    if (step) addTotals(step, moved, 1n);
  }

  /** The totals at each time. */
  totals(): Map<number, Totals> {
    const sum: Totals = new Map();
    return new Map(
      this.times.map((ms, index) => {
        addTotals(sum, this.steps[index] as Totals, 1n);
        return [ms, new Map(sum)];
      }),
    );
  }
}

/** Totals at each time without a part of them. */
export function without(totals: ReadonlyMap<number, Totals>, part: ReadonlyMap<number, Totals>): Map<number, Totals> {
  return new Map(
    [...totals].map(([ms, all]) => {
      const rest: Totals = new Map(all);
      const taken = part.get(ms);
      if (taken) addTotals(rest, taken, -1n);
      return [ms, rest];
    }),
  );
}

/** Adds totals `times` over. Never changes a total in place: it may stand in several sums. */
function addTotals(sum: Totals, more: Totals, times: bigint): void {
  for (const [key, { debits, credits }] of more) {
    const so = sum.get(key) ?? { debits: 0n, credits: 0n };
    const total: Total = { debits: so.debits + times * debits, credits: so.credits + times * credits };
    if (total.debits === 0n && total.credits === 0n) sum.delete(key);
    else sum.set(key, total);
  }
}

function moveOf({ sequence, created_ms: createdMs, payload }: EventRow): Move {
  const { entries, effectiveMs } = decodePosted(payload);
  const moved: Totals = new Map();
  // Amounts always have two fraction digits.
  for (const { accountId, currency, side, amount } of entries) {
    const key = `${toUuid('acc', accountId)} ${currency}`;
    const total = moved.get(key) ?? { debits: 0n, credits: 0n };
    total[side === 'debit' ? 'debits' : 'credits'] += BigInt(amount.replace('.', ''));
    moved.set(key, total);
  }
  return { sequence, effectiveMs: effectiveMs === undefined ? createdMs : Number(effectiveMs), moved };
}

/** What closing transactions and their reversals move, as far as they were recorded until a sequence. */
export async function closingMoves(client: Client, tenant: string, until: bigint): Promise<Move[]> {
  const { rows } = await client.query<EventRow>(
    // The reversal of a part stands in `parts`, that of all in `transactions`.
    `with closing as materialized (
        select unnest(closing_transactions) as id from periods where tenant_id = $1),
      wanted as (
        select t.sequence from closing join transactions t on t.tenant_id = $1 and t.id = closing.id
        union select t.sequence from closing join transactions t on t.tenant_id = $1 and t.reverses = closing.id
        union select p.sequence from closing join parts p on p.tenant_id = $1 and p.of = closing.id)
      select l.sequence, ${epochMs('l.created_at')} as created_ms, l.payload
      from wanted join log l on l.tenant_id = $1 and l.sequence = wanted.sequence where l.sequence <= $2 order by l.sequence`,
    [tenant, until],
  );
  return rows.map(moveOf);
}

/** A transaction's text under a key that the books index, and what it moves. */
export interface TaggedMove extends Move {
  value: string;
}

// Payloads read at once: the largest have some 60 KiB.
const movesAtOnce = 500;

/** Transactions with a key that the books index, by its text, as far as they were recorded until a sequence. */
export async function* taggedMoves(client: Client, tenant: string, key: string, until: bigint): AsyncGenerator<TaggedMove> {
  let after: Pick<TaggedMove, 'value' | 'sequence'> = { value: '', sequence: -1n };
  for (;;) {
    const { rows } = await client.query<EventRow & { value: string }>({
      name: 'tagged_moves',
      text: `select m.value, l.sequence, ${epochMs('l.created_at')} as created_ms, l.payload
        from (select value, sequence from transaction_metadata
          where tenant_id = $1 and key = $2 and (value, sequence) > ($3, $4) order by value, sequence limit ${movesAtOnce}) as m
        join log l on l.tenant_id = $1 and l.sequence = m.sequence order by m.value, m.sequence`,
      values: [tenant, key, after.value, after.sequence],
    });
    for (const row of rows) if (row.sequence <= until) yield { value: row.value, ...moveOf(row) };
    const last = rows.at(-1);
    if (!last || rows.length < movesAtOnce) return;
    after = last;
  }
}
