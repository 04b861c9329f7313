// Reads the NDJSON of a Formance ledger's export (version 2): its log, an entry a line.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import {
  currencyOf,
  dateOf,
  exactJson,
  minorOfParts,
  unitOf,
  Unreadable,
  type AccountFacts,
  type Line,
  type Reader,
  type Unit,
} from './unit.ts';

interface FormancePosting {
  source: string;
  destination: string;
  amount: number | string;
  asset: string;
}
interface Transaction {
  id: number | string;
  timestamp: string;
  reference?: string;
  metadata?: Record<string, unknown>;
  postings: FormancePosting[];
}
interface Entry {
  type: string;
  data: {
    transaction?: Transaction;
    accountMetadata?: Record<string, Record<string, unknown>> | null;
    /** Of version 2.0 and 2.1. */
    revertedTransactionID?: number | string;
    revertedTransaction?: { id: number | string };
    targetType?: string;
    targetId?: unknown;
    metadata?: Record<string, unknown>;
  };
}

/** Reads an export. */
export const readFormance: Reader = async function* (path) {
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    number += 1;
    if (line.trim() === '') continue;
    const where = `line ${number}`;
    const entry = parsed(line);
    if (!entry) yield { kind: 'refused', where, reason: 'it is no JSON of a log entry' };
    else yield* unitsOf(entry, where);
  }
};

function parsed(line: string): Entry | undefined {
  try {
    const entry = exactJson(line) as Entry | null;
    return typeof entry?.type === 'string' && typeof entry.data === 'object' ? entry : undefined;
  } catch {
    return undefined;
  }
}

function* unitsOf({ type, data }: Entry, where: string): Generator<Unit> {
  if (type === 'NEW_TRANSACTION') {
    yield* Object.entries(data.accountMetadata ?? {}).map(([name, metadata]) => factsOf(name, metadata));
    yield unitOf(where, () => postingOf(data.transaction, where));
  } else if (type === 'REVERTED_TRANSACTION') {
    yield unitOf(where, () => {
      const { id, timestamp } = transactionIn(data.transaction);
      const reverses = data.revertedTransactionID ?? data.revertedTransaction?.id;
      if (reverses === undefined) throw new Unreadable('it does not say which transaction it reverts');
      const description = `Reversal of ${String(reverses)}`;
      return { kind: 'reversal', where, id: String(id), date: dateOf(timestamp), description, reverses: String(reverses) };
    });
  } else if (type === 'SET_METADATA' && data.targetType?.toUpperCase() === 'ACCOUNT') {
    yield factsOf(String(data.targetId), data.metadata);
  } else {
    yield { kind: 'skipped', where, reason: `${type} changes no balance` };
  }
}

const factsOf = (name: string, metadata: Record<string, unknown> | undefined): AccountFacts => ({ kind: 'account', name, metadata });

function transactionIn(transaction: Transaction | undefined): Transaction {
  if (transaction?.id === undefined || !Array.isArray(transaction.postings)) throw new Unreadable('it has no transaction');
  return transaction;
}

function postingOf(transaction: Transaction | undefined, where: string): Unit {
  const { id, timestamp, reference, metadata = {}, postings } = transactionIn(transaction);
  const description = typeof metadata['description'] === 'string' ? metadata['description'] : `Transaction ${String(id)}`;
  const lines = postings.flatMap(linesOf);
  return {
    kind: 'posting',
    where,
    id: String(id),
    date: dateOf(timestamp),
    description,
    reference: reference || undefined,
    metadata,
    lines,
  };
}

function linesOf({ source, destination, amount, asset }: FormancePosting): Line[] {
  const [, name = '', precision] = /^([^/]*)(?:\/(\d+))?$/.exec(asset) ?? [];
  if (precision !== '2') throw new Unreadable(`${asset} has a precision other than 2`);
  const [minor, currency] = [minorOfParts(String(amount), '100'), currencyOf(name)];
  if (minor < 0n) throw new Unreadable('an amount is below zero');
  return [
    { account: source, side: 'debit', minor, currency },
    { account: destination, side: 'credit', minor, currency },
  ];
}
