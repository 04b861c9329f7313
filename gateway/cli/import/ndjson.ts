// Reads what `ledger export ndjson` has written: transactions of a ledger of this kind, one a line.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { currencyOf, dateOf, exactJson, minorOf, unitOf, Unreadable, type Reader } from './unit.ts';

interface Record_ {
  end?: true;
  transaction_id: string;
  effective_at: string;
  description: string;
  reference: string | null;
  metadata: Record<string, unknown>;
  entries: { account_code: string; side: 'debit' | 'credit'; amount: string; currency: string }[];
}

/** Reads an export. */
export const readNdjson: Reader = async function* (path) {
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    number += 1;
    const where = `line ${number}`;
    if (line.trim() === '') continue;
    const record = recordIn(line);
    if (record?.end) return;
    yield unitOf(where, () => {
      if (!Array.isArray(record?.entries)) throw new Unreadable('it is no transaction');
      const { transaction_id: id, effective_at, description, reference, metadata, entries } = record;
      const lines = entries.map(({ account_code, side, amount, currency }) => ({
        account: account_code,
        side,
        minor: minorOf(amount),
        currency: currencyOf(currency),
      }));
      return { kind: 'posting', where, id, date: dateOf(effective_at), description, reference: reference ?? undefined, metadata, lines };
    });
  }
};

function recordIn(line: string): Record_ | undefined {
  try {
    return exactJson(line) as Record_;
  } catch {
    return undefined;
  }
}
