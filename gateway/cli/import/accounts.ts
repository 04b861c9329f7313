// Which account of the ledger a name in a file stands for, and of which type a new one is.
import { readFileSync } from 'node:fs';
import { parse } from 'csv-parse/sync';
import { Failure } from '../failure.ts';
import { Unreadable } from './unit.ts';

/** Types of accounts. */
export const accountTypes = ['asset', 'liability', 'equity', 'revenue', 'expense'] as const;

export type AccountType = (typeof accountTypes)[number];

/** A row of a map: theirs may end with `*`, ours then too; an empty one is theirs. */
export interface MapRow {
  theirs: string;
  ours: string;
  type: AccountType | undefined;
}

/** An account of the ledger. */
export interface Target {
  code: string;
  type: AccountType | undefined;
  /** The name in the file. */
  name: string;
}

const maxLength = 64;
const guesses: [RegExp, AccountType][] = [
  [/^assets?$/i, 'asset'],
  [/^liabilit(y|ies)$/i, 'liability'],
  [/^equity$/i, 'equity'],
  [/^(income|revenues?)$/i, 'revenue'],
  [/^expenses?$/i, 'expense'],
];

/** Reads a map: CSV with the columns `theirs`, `ours`, `type`. */
export function readMap(file: string): MapRow[] {
  let rows: Record<string, string>[];
  try {
    rows = parse(readFileSync(file, 'utf8'), { columns: true, bom: true, trim: true, skip_empty_lines: true });
  } catch (error) {
    throw new Failure('usage', `--map: ${file} can't be read: ${(error as Error).message}`);
  }
  return rows.map(({ theirs = '', ours = '', type = '' }, index) => {
    const at = `--map: ${file}, row ${index + 1}`;
    if (theirs === '') throw new Failure('usage', `${at} has no theirs`, 'The columns are theirs, ours and type.');
    if (theirs.endsWith('*') !== ours.endsWith('*') && ours !== '')
      throw new Failure('usage', `${at}: both theirs and ours end with *, or neither`);
    if (type !== '' && !isType(type)) throw new Failure('usage', `${at}: type must be one of ${accountTypes.join(', ')}, not ${type}`);
    return { theirs, ours, type: type === '' ? undefined : type };
  });
}

const isType = (text: string): text is AccountType => (accountTypes as readonly string[]).includes(text);

/** Finds the accounts of names. */
export class AccountMap {
  private readonly rows: MapRow[];
  private readonly fallback: (name: string) => AccountType | undefined;
  private readonly declared = new Map<string, AccountType>();
  private readonly known = new Map<string, Target>();
  private readonly named = new Map<string, string>();

  /** `fallback`: the type of an account of the source that nothing else says. */
  constructor(rows: MapRow[], fallback: (name: string) => AccountType | undefined) {
    // Exact rows first, then the longest beginning.
    this.rows = [...rows].sort(
      (one, other) => Number(isPattern(one)) - Number(isPattern(other)) || other.theirs.length - one.theirs.length,
    );
    this.fallback = fallback;
  }

  /** What the file itself says. */
  declare(name: string, type: string | undefined): void {
    if (type !== undefined && isType(type)) this.declared.set(name, type);
  }

  /** The account of a name; throws where it can have none. */
  target(name: string): Target {
    const known = this.known.get(name);
    if (known) return known;
    const row = this.rows.find((each) => (isPattern(each) ? name.startsWith(each.theirs.slice(0, -1)) : name === each.theirs));
    const code = row && row.ours !== '' ? mapped(name, row) : codeOf(name);
    if (!/^[A-Za-z0-9][A-Za-z0-9._:-]*$/.test(code) || code.length > maxLength)
      throw new Unreadable(`${JSON.stringify(name)} can't be the code of an account: give another in --map`);
    const first = this.named.get(code);
    if (first !== undefined && !(row && row.ours !== ''))
      throw new Unreadable(`${name} and ${first} would both be ${code}: name one of them in --map`);
    this.named.set(code, name);
    const guess = guesses.find(([pattern]) => pattern.test(name.split(':')[0] ?? ''))?.[1];
    const target = { code, name, type: row?.type ?? this.declared.get(name) ?? guess ?? this.fallback(name) };
    this.known.set(name, target);
    return target;
  }

  /** All that have been found. */
  get targets(): Target[] {
    return [...this.known.values()];
  }
}

const isPattern = ({ theirs }: MapRow): boolean => theirs.endsWith('*');

function mapped(name: string, { theirs, ours }: MapRow): string {
  return isPattern({ theirs, ours, type: undefined }) ? ours.slice(0, -1) + codeOf(name.slice(theirs.length - 1)) : ours;
}

/** A name as a code: letters without accents, and `-` for what a code can't have. */
function codeOf(name: string): string {
  return name
    .normalize('NFKD')
    .replace(/\p{Mn}/gu, '')
    .replace(/[^A-Za-z0-9._:-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+|-+$/g, '');
}
