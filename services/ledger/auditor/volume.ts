// How much was posted in each day, week or month, from the volumes that the indexer keeps.
import { addDays, addMonths, dateOf, dayOf, firstDayOf, instantsOf } from '../../platform/calendar.ts';
import { doubleArray } from '../../platform/arrays.ts';
import { toDecimal } from '../../platform/money.ts';
import { readTenant } from '../../platform/postgres.ts';
import { defaultSettings, type BooksSettings } from '../books.ts';
import { checkedCurrency, invalid, oneOf, tenantOf } from '../fields.ts';
import type { AuditHandlers, AuditorParts } from './parts.ts';

const intervals = ['day', 'week', 'month'] as const;
const maxPoints = 1_000;

/** Days of a point, as the calendar has them. */
interface Span {
  first: number;
  last: number;
}

/** The handler of volumes. */
export function volumeHandlers({ pool }: Pick<AuditorParts, 'pool'>): AuditHandlers {
  return {
    async getVolume(request, { signal }) {
      const tenant = tenantOf(request);
      const currency = checkedCurrency('currency', request.currency);
      const spans = spansOf(oneOf('interval', request.interval, intervals), checkedDay('from', request.from), checkedDay('to', request.to));
      const connections = pool.of(tenant, signal);
      const [books] = await readTenant<[{ record: string }[]]>(connections, tenant, {
        name: 'books_record',
        text: 'select record from books where tenant_id = $1',
        values: [tenant],
      });
      const { timezone } = books[0] ? (JSON.parse(books[0].record) as BooksSettings) : defaultSettings;
      const [rows] = await readTenant<[{ transactions: bigint; debits: string }[]]>(connections, tenant, {
        name: 'volumes_of_spans',
        text: `select coalesce(sum(v.transactions), 0)::bigint as transactions, coalesce(sum(v.debits), 0)::text as debits
          from unnest($3::float8[], $4::float8[]) with ordinality as span (first, last, number) left join lateral (
            select transactions, debits from volumes where tenant_id = $1 and currency = $2
              and quarter >= to_timestamp(span.first / 1000.0) and quarter <= to_timestamp(span.last / 1000.0) offset 0) as v on true
          group by span.number order by span.number`,
        values: [
          tenant,
          currency,
          doubleArray(spans.map(({ first }) => instantsOf(timezone, first).startMs)),
          doubleArray(spans.map(({ last }) => instantsOf(timezone, last).endMs)),
        ],
      });
      const points = rows.map(({ transactions, debits }, index) => {
        const { first } = spans[index] as Span;
        return { date: dateOf(first), count: transactions, debits: toDecimal(BigInt(debits)) };
      });
      return { points };
    },
  };
}

function checkedDay(field: string, text: string): number {
  const day = dayOf(text);
  if (day === null) throw invalid(field, text === '' ? 'required' : 'datetime', text, `${field} must be a date like 2030-01-31`);
  return day;
}

/** The days of each interval; the first and the last one end with the range. */
function spansOf(interval: (typeof intervals)[number], from: number, to: number): Span[] {
  if (from > to) throw invalid('from', 'oneof', dateOf(from), 'from must not be after to');
  const spans: Span[] = [];
  for (let first = from; first <= to;) {
    const begin = firstDayOf(interval, first);
    const next = interval === 'month' ? addMonths(begin, 1) : addDays(begin, interval === 'week' ? 7 : 1);
    spans.push({ first, last: Math.min(addDays(next, -1), to) });
    if (spans.length > maxPoints)
      throw invalid('from', 'max', dateOf(from), `from and to must have at most ${maxPoints} intervals between them`);
    first = next;
  }
  return spans;
}
