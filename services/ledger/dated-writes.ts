// What postings write besides, where they count at another time than they are recorded, or have metadata that the books index.
import { bigintArray, doubleArray, plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import type { Line } from './accounting.ts';
import type { CachedAccount } from './account-cache.ts';

/** A transaction that counts at another time than it is recorded. */
export interface ShiftedWrite {
  tenant: string;
  sequence: bigint;
  /** Milliseconds since the Unix epoch. */
  effectiveMs: number;
  lines: readonly Line[];
}

/** A text of a transaction's metadata under a key that the books index. */
export interface MetadataWrite {
  tenant: string;
  key: string;
  value: string;
  sequence: bigint;
}

/** Types of the parameters of `write_dated`, without the first. */
export const datedTypes = [
  ...['uuid[]', 'bigint[]', 'float8[]'],
  ...['uuid[]', 'uuid[]', 'text[]', 'bigint[]', 'float8[]', 'numeric[]', 'numeric[]'],
  ...['uuid[]', 'text[]', 'text[]', 'bigint[]'],
];

/** The parameters of `write_dated`, without the first. */
export function datedValues(shifted: ShiftedWrite[], metadata: MetadataWrite[]): unknown[] {
  const moves = shifted.flatMap(movesOf);
  return [
    uuidArray(shifted.map(({ tenant }) => tenant)),
    bigintArray(shifted.map(({ sequence }) => sequence)),
    doubleArray(shifted.map(({ effectiveMs }) => effectiveMs)),
    uuidArray(moves.map(({ tenant }) => tenant)),
    uuidArray(moves.map(({ account }) => account)),
    textArray(moves.map(({ currency }) => currency)),
    bigintArray(moves.map(({ sequence }) => sequence)),
    doubleArray(moves.map(({ effectiveMs }) => effectiveMs)),
    plainArray(moves.map(({ debits }) => debits)),
    plainArray(moves.map(({ credits }) => credits)),
    uuidArray(metadata.map(({ tenant }) => tenant)),
    textArray(metadata.map(({ key }) => key)),
    textArray(metadata.map(({ value }) => value)),
    bigintArray(metadata.map(({ sequence }) => sequence)),
  ];
}

/** What a transaction moves, once per account and currency; minor units. */
function movesOf({ tenant, sequence, effectiveMs, lines }: ShiftedWrite) {
  const moves = new Map<string, { account: string; currency: string; debits: bigint; credits: bigint }>();
  for (const { account, currency, side, amount } of lines) {
    const { uuid } = account as CachedAccount;
    const move = moves.get(`${uuid} ${currency}`) ?? { account: uuid, currency, debits: 0n, credits: 0n };
    if (side === 'debit') move.debits += amount;
    else move.credits += amount;
    moves.set(`${uuid} ${currency}`, move);
  }
  return [...moves.values()].map((move) => ({ tenant, sequence, effectiveMs, ...move }));
}

const maxIndexedText = 255;

/** Texts of a transaction's metadata (a JSON object as text) that the books index: strings, numbers and booleans of at most 255 code points. */
export function indexedTexts(metadata: string, keys: readonly string[]): [key: string, value: string][] {
  if (keys.length === 0 || metadata === '{}') return [];
  const values = JSON.parse(metadata) as Record<string, unknown>;
  return keys.flatMap((key): [string, string][] => {
    const value = Object.hasOwn(values, key) ? values[key] : undefined;
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return [];
    const text = String(value);
    return Array.from(text).length > maxIndexedText ? [] : [[key, text]];
  });
}
