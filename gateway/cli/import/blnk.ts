// Reads transactions of Blnk: a JSON array, JSON lines, or CSV.
import { readFile } from 'node:fs/promises';
import { parse } from 'csv-parse/sync';
import { currencyOf, dateOf, exactJson, minorOf, minorOfParts, unitOf, Unreadable, type Line, type Reader, type Unit } from './unit.ts';

interface Transaction {
  transaction_id: string;
  parent_transaction?: string;
  source: string;
  destination: string;
  reference?: string;
  currency: string;
  amount?: number | string;
  precise_amount?: number | string | null;
  precision?: number | string;
  rate?: number | string;
  status: string;
  description?: string;
  created_at: string;
  effective_date?: string | null;
  meta_data?: Record<string, unknown> | string | null;
}

/** Reads transactions. An inflight one is a hold of what its commits and voids have left. */
export const readBlnk: Reader = async function* (path) {
  const transactions = parsed(await readFile(path, 'utf8'));
  const settled = new Map<string, bigint>();
  for (const each of transactions) {
    const { parent_transaction: parent, status } = each;
    if (!parent || !['APPLIED', 'VOID'].includes(status)) continue;
    const minor = unitOf('', () => ({ kind: 'account', name: String(minorIn(each)) }));
    if (minor.kind === 'account') settled.set(parent, (settled.get(parent) ?? 0n) + BigInt(minor.name));
  }
  for (const [index, transaction] of transactions.entries()) {
    const where = `transaction ${index + 1} (${transaction.transaction_id})`;
    yield unitOf(where, () => transactionOf(transaction, where, settled.get(transaction.transaction_id) ?? 0n));
  }
};

function parsed(text: string): Transaction[] {
  const first = text.trimStart()[0];
  if (first === '[') return exactJson(text) as Transaction[];
  if (first === '{') return text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [exactJson(line) as Transaction]));
  return parse(text, { columns: true, bom: true, trim: true, skip_empty_lines: true });
}

function transactionOf(transaction: Transaction, where: string, settled: bigint): Unit {
  const { transaction_id: id, status, source, destination, currency, rate, created_at: created, effective_date: effective } = transaction;
  if (status !== 'APPLIED' && status !== 'INFLIGHT') return { kind: 'skipped', where, reason: `its status is ${status}` };
  if (!source || !destination) return { kind: 'skipped', where, reason: 'it is split into others' };
  if (rate !== undefined && rate !== '' && Number(rate) !== 0 && Number(rate) !== 1)
    throw new Unreadable(`it has a rate (${String(rate)}): bring it over as an exchange`);
  const minor = minorIn(transaction) - (status === 'INFLIGHT' ? settled : 0n);
  if (minor <= 0n) return { kind: 'skipped', where, reason: 'nothing of it is left' };
  const lines: Line[] = [
    { account: source, side: 'debit', minor, currency: currencyOf(currency) },
    { account: destination, side: 'credit', minor, currency: currencyOf(currency) },
  ];
  return {
    kind: status === 'INFLIGHT' ? 'hold' : 'posting',
    where,
    id,
    date: dateOf(effective || created),
    description: transaction.description || (transaction.reference ?? ''),
    reference: transaction.reference || undefined,
    metadata: metadataOf(transaction.meta_data),
    lines,
  };
}

function minorIn({ precise_amount: precise, precision, amount }: Transaction): bigint {
  if (precise != null && precise !== '') return minorOfParts(String(precise), String(precision ?? '100'));
  return minorOf(String(amount ?? ''));
}

function metadataOf(metadata: Transaction['meta_data']): Record<string, unknown> | undefined {
  if (typeof metadata !== 'string') return metadata ?? undefined;
  return metadata === '' ? undefined : (exactJson(metadata) as Record<string, unknown>);
}
