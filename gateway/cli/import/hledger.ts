// Reads a journal of hledger, by hledger itself.
import { readByProgram } from './program.ts';
import { currencyOf, dateOf, minorOf, signedLine, unitOf, Unreadable, exactJson, type Line, type Reader, type Unit } from './unit.ts';

interface Amount {
  acommodity: string;
  aquantity: { decimalMantissa: number | string; decimalPlaces: number };
  /** Its name until hledger 1.29. */
  aprice?: unknown;
  acost?: unknown;
}
interface HledgerPosting {
  paccount: string;
  pamount: Amount[];
  ptype: string;
  ptags: [string, string][];
}
interface Transaction {
  tindex: number;
  tcode: string;
  tdate: string;
  tdescription: string;
  tpostings: HledgerPosting[];
  ttags: [string, string][];
}

const types: Record<string, string> = { A: 'asset', C: 'asset', L: 'liability', E: 'equity', V: 'equity', R: 'revenue', X: 'expense' };

/** Reads a journal. */
export const readHledger: Reader = async function* (path) {
  const text = await readByProgram('hledger', ['-f', path, 'print', '-x', '-O', 'json'], 'Export CSV there with: hledger print -x -O csv');
  const seen = new Set<string>();
  for (const transaction of exactJson(text) as Transaction[]) {
    for (const { paccount, ptags } of transaction.tpostings) {
      const type = types[ptags.find(([name]) => name === 'type')?.[1] ?? ''];
      if (type === undefined || seen.has(paccount)) continue;
      seen.add(paccount);
      yield { kind: 'account', name: paccount, type };
    }
    yield transactionOf(transaction);
  }
};

function transactionOf({ tindex, tcode, tdate, tdescription, tpostings, ttags }: Transaction): Unit {
  const where = `transaction ${tindex}`;
  return unitOf(where, () => {
    const { id, effective_at: time = tdate, ...metadata } = Object.fromEntries(ttags) as Record<string, string>;
    return {
      kind: 'posting',
      where,
      id,
      date: dateOf(time),
      description: tdescription,
      reference: tcode || undefined,
      metadata,
      lines: tpostings.flatMap(linesOf),
    };
  });
}

function linesOf({ paccount, pamount, ptype }: HledgerPosting): Line[] {
  if (ptype !== 'RegularPosting') throw new Unreadable(`virtual postings such as (${paccount}) have no other side`);
  return pamount.map(({ acommodity, aquantity, aprice, acost }) => {
    if ((aprice ?? acost) != null) throw new Unreadable(`prices such as that of ${acommodity} in ${paccount} are no amounts of money`);
    return signedLine(paccount, minorOf(decimalOf(aquantity)), currencyOf(acommodity));
  });
}

function decimalOf({ decimalMantissa, decimalPlaces }: Amount['aquantity']): string {
  const digits = String(decimalMantissa)
    .replace('-', '')
    .padStart(decimalPlaces + 1, '0');
  const at = digits.length - decimalPlaces;
  return `${String(decimalMantissa).startsWith('-') ? '-' : ''}${digits.slice(0, at)}.${digits.slice(at)}`;
}
