// What a command prints: a table for people, JSON lines or CSV for programs. Everything else goes to standard error.
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { styleText } from 'node:util';
import Table from 'cli-table3';
import { stringify } from 'csv-stringify/sync';

/** A record as the API answers it. */
export type Item = Record<string, unknown>;

/** How results are printed. */
export type Format = 'table' | 'json' | 'csv';

/** Standard output and standard error of a command. */
export class Output {
  readonly format: Format;
  private readonly out: NodeJS.WriteStream;
  private readonly err: NodeJS.WriteStream;
  private readonly noColor: boolean;
  private header: string[] | undefined;

  constructor(out: NodeJS.WriteStream, err: NodeJS.WriteStream, { format, noColor }: { format: Format; noColor: boolean }) {
    this.out = out;
    this.err = err;
    this.format = format;
    this.noColor = noColor;
  }

  /** Whether a person sees standard output. */
  get isTerminal(): boolean {
    return this.out.isTTY;
  }

  /** Prints items of a list. `columns`: for the table; by default those with a value. May be called for page after page. */
  items(items: Item[], columns?: readonly string[]): void {
    if (this.format === 'json') return this.text(items.map((item) => `${JSON.stringify(item)}\n`).join(''));
    if (this.format === 'csv') return this.csv(items);
    if (items.length > 0) this.text(this.table(items, columns));
  }

  /** Prints one record: a field a line, then a table for each list of records in it. */
  item(item: Item): void {
    if (this.format !== 'table') return this.items([item]);
    const fields = Object.entries(item);
    const lists = fields.filter(([, value]) => isList(value)) as [string, Item[]][];
    const table = new Table({ chars: noLines, style: plain });
    for (const [name, value] of fields.filter(([, each]) => !isList(each))) table.push([this.paint('bold', name), cell(value)]);
    this.text(withoutPadding(table));
    for (const [name, items] of lists) {
      this.text(`\n${this.paint('bold', name)}\n`);
      this.items(items);
    }
  }

  /** Prints text or bytes as they are. */
  text(text: string | Uint8Array): void {
    this.out.write(text);
  }

  /** Prints a stream to its end, no faster than the reader takes it. */
  async stream(from: Readable): Promise<void> {
    await pipeline(from, this.out, { end: false });
  }

  /** Tells a person something that is no result. */
  note(text: string): void {
    this.err.write(`${text}\n`);
  }

  /** Colors text on standard output, if a terminal shows it. */
  paint(style: Parameters<typeof styleText>[0], text: string): string {
    return this.isTerminal && !this.noColor ? styleText(style, text, { validateStream: false }) : text;
  }

  /** Resolves when all output has been handed on. */
  async flushed(): Promise<void> {
    for (const stream of [this.out, this.err]) await new Promise<void>((resolve) => void stream.write('', () => resolve()));
  }

  private table(items: Item[], columns?: readonly string[]): string {
    const names = columns?.filter((name) => items.some((item) => name in item)) ?? filledColumns(items);
    const table = new Table({
      head: names.map((name) => this.paint('bold', name.toUpperCase())),
      chars: noLines,
      style: plain,
      colAligns: names.map((name) => (items.every((item) => isAmount(item[name])) ? 'right' : 'left')),
    });
    for (const item of items) table.push(names.map((name) => cell(item[name])));
    return withoutPadding(table);
  }

  private csv(items: Item[]): void {
    if (items.length === 0) return;
    const isFirst = this.header === undefined;
    this.header ??= Object.keys(items[0] ?? {});
    const { header } = this;
    const rows = items.map((item) => header.map((name) => safeCell(cell(item[name]))));
    this.text(stringify(isFirst ? [header, ...rows] : rows));
  }
}

const noLines = Object.fromEntries(
  [
    ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
    ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid', 'middle'],
  ].map((name) => [name, '']),
);
const plain = { head: [], border: [], 'padding-left': 0, 'padding-right': 2 };
const maxColumns = 8;

const isAmount = (value: unknown) =>
  value == null || typeof value === 'number' || (typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value));
const isList = (value: unknown) =>
  Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'object' && each !== null);
const isPlain = (value: unknown) => value !== null && value !== '' && typeof value !== 'object';

// cli-table3 pads the last column too.
const withoutPadding = (table: { toString(): string }) => `${table.toString().replace(/ +$/gm, '')}\n`;

function filledColumns(items: Item[]): string[] {
  const names = [...new Set(items.flatMap((item) => Object.keys(item)))];
  const plainNames = names.filter((name) => items.some((item) => isPlain(item[name])));
  return (plainNames.length > 0 ? plainNames : names).slice(0, maxColumns);
}

// Control characters of a description could rewrite the terminal's screen.
function cell(value: unknown): string {
  if (value == null) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (each) => (each === '\n' || each === '\t' ? ' ' : '\ufffd'));
}

// A spreadsheet would run the text as a formula; amounts stay numbers.
function safeCell(text: string): string {
  return /^[=+\-@]/.test(text) && !isAmount(text) ? `'${text}` : text;
}
