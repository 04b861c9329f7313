// PDF of tables: A4, title, period and the state of the log, the header on each page, as many pages side by side as the columns need.
import { setImmediate } from 'node:timers/promises';
import PDFDocument from 'pdfkit';
import { Fonts, ascent, type Document, type Run, type Weight } from './fonts.ts';
import type { Cell, Table, TableColumn, TableRow } from './table.ts';

const margin = { side: 40, top: 40, bottom: 44 };
const size = { title: 17, heading: 10.5, text: 8, small: 6.5 };
const lineHeight = 11.5;
const indentPoints = 10;
const amountWidth = 78;
const gap = 8;
/** Lines of a text that is too wide. */
const maxLines = 3;
const ink = { text: '#111827', soft: '#6b7280', strong: '#1e3a5f', rule: '#c7ced8', fill: '#eef2f6' };

/** A table as PDF, page by page. The same table has the same bytes. */
export async function* pdfOf(table: Table): AsyncGenerator<Uint8Array> {
  const bands = bandsOf(table.columns);
  const isWide = bands.length > 1 || bands[0]?.isWide === true;
  const document = new PDFDocument({
    size: 'A4',
    layout: isWide ? 'landscape' : 'portrait',
    margins: { top: 0, bottom: 0, left: 0, right: 0 },
    autoFirstPage: false,
    lang: 'en',
    displayTitle: true,
    fontLayoutCache: false,
    info: { Title: `${table.title}, ${table.period}`, CreationDate: new Date(table.asRecorded.at) },
  });
  const printer = new Printer(document, table);
  for (const { columns } of bands) {
    printer.begin(columns);
    for await (const row of table.rows()) {
      if (!printer.print(row)) continue;
      yield* readyOf(document);
      // Otherwise nobody else is answered before the last page.
      await setImmediate();
    }
  }
  printer.end();
  document.end();
  yield* readyOf(document);
}

/** What the document has written so far. */
function* readyOf(document: Document): Generator<Uint8Array> {
  for (let chunk: unknown; (chunk = document.read()) !== null;) yield chunk as Uint8Array;
}

/** A column on its band of pages. */
interface Placed extends TableColumn {
  /** Its cell in rows. */
  index: number;
  x: number;
  width: number;
}

const pageWidth = { portrait: 595.28 - 2 * margin.side, landscape: 841.89 - 2 * margin.side };
const minTextWidth = 170;

/** The columns that stand on one page: all texts, and as many amounts as fit. Amounts under one header stay together where they fit. */
function bandsOf(all: readonly TableColumn[]): { columns: Placed[]; isWide: boolean }[] {
  const columns = all.flatMap((column, index) => (column.label === undefined ? [] : [{ ...column, index }]));
  const [texts, amounts] = [columns.filter(({ type }) => type !== 'amount'), columns.filter(({ type }) => type === 'amount')];
  const needed = texts.reduce((sum, { width }) => sum + (width ?? minTextWidth), 0);
  const fits = (count: number, width: number) => needed + count * amountWidth <= width;
  const isWide = !fits(amounts.length, pageWidth.portrait);
  const width = isWide ? pageWidth.landscape : pageWidth.portrait;
  const bands: (typeof amounts)[] = [];
  for (const block of blocksOf(amounts)) {
    const band = bands.at(-1);
    if (band && fits(band.length + block.length, width)) band.push(...block);
    else bands.push([...block]);
  }
  if (bands.length === 0) bands.push([]);
  return bands.map((band) => ({ columns: placed([...texts, ...band], width), isWide }));
}

function blocksOf<Each extends TableColumn>(amounts: readonly Each[]): Each[][] {
  const blocks: Each[][] = [];
  for (const amount of amounts) {
    const block = blocks.at(-1);
    if (block && amount.over !== undefined && block[0]?.over === amount.over) block.push(amount);
    else blocks.push([amount]);
  }
  return blocks;
}

function placed(columns: (TableColumn & { index: number })[], width: number): Placed[] {
  const fixed = (column: TableColumn) => column.width ?? (column.type === 'amount' ? amountWidth : undefined);
  const open = columns.filter((column) => fixed(column) === undefined).length;
  const rest = width - columns.reduce((sum, column) => sum + (fixed(column) ?? 0), 0);
  let x = margin.side;
  return columns.map((column) => {
    const own = fixed(column) ?? rest / open;
    x += own;
    return { ...column, x: x - own, width: own };
  });
}

/** Draws rows on pages. */
class Printer {
  private readonly document: Document;
  private readonly table: Table;
  private readonly fonts: Fonts;
  /** A form that is written last: how many pages there are. */
  private readonly pageCount: PDFKit.PDFKitReference;
  private columns: Placed[] = [];
  private pages = 0;
  private y = 0;
  private heading = '';
  private isAfterHeading = false;

  constructor(document: Document, table: Table) {
    this.document = document;
    this.table = table;
    this.fonts = new Fonts(document);
    this.pageCount = document.ref({ Type: 'XObject', Subtype: 'Form', BBox: [0, -3, 60, 10] });
  }

  /** Starts over with other columns, on a page of its own. */
  begin(columns: Placed[]): void {
    this.columns = columns;
    this.heading = '';
    this.addPage();
  }

  /** Returns whether it has begun a page. */
  print(row: TableRow): boolean {
    const before = this.pages;
    if (row.kind === 'heading') this.printHeading(String(row.cells[0] ?? ''), row.depth);
    else this.printCells(row);
    return this.pages > before;
  }

  private printCells(row: TableRow): void {
    const weight = row.kind === 'line' ? 400 : 700;
    const cells = this.columns.map((column) => this.linesOf(column, row.cells[column.index] ?? null, row.depth, weight));
    const height = Math.max(1, ...cells.map(({ lines }) => lines.length)) * lineHeight + (row.kind === 'total' ? 3 : 0);
    this.makeRoom(height);
    if (row.kind === 'total' && !this.isAfterHeading) this.rule(this.y + 0.5, ink.strong, 0.7);
    this.isAfterHeading = false;
    const top = this.y + (row.kind === 'total' ? 2.5 : 0);
    cells.forEach(({ lines, x, size: textSize, alignRight }) => {
      lines.forEach((runs, index) => {
        const left = alignRight ? x - this.fonts.widthOf(runs, textSize) : x;
        this.document.fillColor(row.kind === 'total' ? ink.strong : ink.text);
        this.fonts.draw(runs, textSize, left, top + index * lineHeight);
      });
    });
    this.y += height;
    if (row.kind === 'total') this.y += 4;
    else this.rule(this.y, ink.fill, 0.5);
  }

  /** Writes how many pages there are. */
  end(): void {
    const { commands, fonts } = this.fonts.commandsOf(String(this.pages), size.small);
    Object.assign(this.pageCount.data, { Resources: { Font: fonts } });
    this.pageCount.end(`0.42 0.447 0.502 rg ${commands}`);
  }

  private printHeading(text: string, depth: number): void {
    const isTop = depth === 0;
    const height = isTop ? 21 : 17;
    if (isTop) this.heading = '';
    // Not as the last line of a page, nor with one that follows it.
    this.makeRoom(height + (isTop ? 17 : 0) + 2 * lineHeight);
    if (isTop) this.heading = text;
    if (isTop) this.document.rect(margin.side, this.y + 3, this.right - margin.side, height - 5).fill(ink.fill);
    this.text(text, 700, isTop ? size.heading : size.text + 1, margin.side + 4, this.y + (isTop ? 4 : 3), ink.strong);
    this.y += height;
    this.isAfterHeading = true;
  }

  private get right(): number {
    return this.document.page.width - margin.side;
  }

  private get bottom(): number {
    return this.document.page.height - margin.bottom;
  }

  private makeRoom(height: number): void {
    if (this.y + height <= this.bottom) return;
    this.addPage();
    if (this.heading !== '') {
      this.text(`${this.heading} (continued)`, 400, size.text, margin.side + 4, this.y + 2, ink.soft);
      this.y += 15;
    }
  }

  private addPage(): void {
    this.document.addPage();
    this.pages += 1;
    this.y = margin.top;
    if (this.pages === 1) this.printTitle();
    else {
      this.text(`${this.table.title} · ${this.table.period}`, 400, size.text, margin.side, this.y, ink.soft);
      this.y += 16;
    }
    this.printHeader();
    this.printFooter();
  }

  private printTitle(): void {
    const { title, period, facts } = this.table;
    this.text(title, 700, size.title, margin.side, this.y, ink.strong);
    this.text(period, 400, size.heading, margin.side, this.y + 25, ink.text);
    this.y += 44;
    const known = facts.map(([name, value]) => `${name}: ${value}`).join(' · ');
    for (const runs of this.wrapped(known, 400, size.text, this.right - margin.side, maxLines)) {
      this.document.fillColor(ink.soft);
      this.fonts.draw(runs, size.text, margin.side, this.y);
      this.y += lineHeight;
    }
    this.y += 6;
  }

  private printHeader(): void {
    const hasOver = this.columns.some(({ over }) => over !== undefined);
    const height = (hasOver ? 2 : 1) * lineHeight + 5;
    this.document.rect(margin.side, this.y, this.right - margin.side, height).fill(ink.strong);
    const labelY = this.y + height - lineHeight - 1;
    let last: string | undefined;
    this.columns.forEach((column, index) => {
      const runs = this.fonts.runs(column.label ?? '', 700);
      const width = this.fonts.widthOf(runs, size.text);
      this.document.fillColor('#ffffff');
      this.fonts.draw(runs, size.text, isRight(column) ? column.x + column.width - 4 - width : column.x + 4, labelY);
      if (column.over !== undefined && column.over !== last) {
        const end =
          this.columns
            .slice(index)
            .filter(({ over }) => over === column.over)
            .at(-1) ?? column;
        const over = this.fonts.runs(column.over, 700);
        const middle = (column.x + end.x + end.width) / 2;
        this.fonts.draw(over, size.text, middle - this.fonts.widthOf(over, size.text) / 2, this.y + 2.5);
      }
      last = column.over;
    });
    this.y += height + 3;
  }

  private printFooter(): void {
    const { sequence, hash, at } = this.table.asRecorded;
    const y = this.bottom + 14;
    this.rule(y - 5, ink.rule, 0.5);
    const page = this.fonts.runs(`Page ${this.pages} of `, 400);
    this.document.fillColor(ink.soft);
    this.fonts.draw(page, size.small, margin.side, y);
    (this.document.page.xobjects as Record<string, unknown>)['PageCount'] = this.pageCount;
    const baseline = y + ascent * size.small;
    const left = margin.side + this.fonts.widthOf(page, size.small);
    this.document.addContent(`q 1 0 0 -1 ${left.toFixed(3)} ${baseline.toFixed(3)} cm /PageCount Do Q`);
    const state = this.fonts.runs(`Sequence ${sequence} · ${at} · SHA-256 ${hash}`, 400);
    this.fonts.draw(state, size.small, this.right - this.fonts.widthOf(state, size.small), y);
  }

  private rule(y: number, color: string, width: number): void {
    this.document.moveTo(margin.side, y).lineTo(this.right, y).lineWidth(width).strokeColor(color).stroke();
  }

  private text(text: string, weight: Weight, textSize: number, x: number, y: number, color: string): void {
    const runs = this.wrapped(text, weight, textSize, this.right - x, 1)[0] ?? [];
    this.document.fillColor(color);
    this.fonts.draw(runs, textSize, x, y);
  }

  /** A cell as lines: amounts on one, smaller where they would not fit, texts on up to three. */
  private linesOf(
    column: Placed,
    cell: Cell,
    depth: number,
    weight: Weight,
  ): { lines: Run[][]; x: number; size: number; alignRight: boolean } {
    const text = cell === null ? '' : column.type === 'amount' ? grouped(String(cell)) : String(cell);
    if (isRight(column)) {
      const runs = this.fonts.runs(text, weight);
      const width = this.fonts.widthOf(runs, size.text);
      const own = size.text * Math.min(1, (column.width - gap) / Math.max(width, 1));
      return { lines: [runs], x: column.x + column.width - 4, size: own, alignRight: true };
    }
    const indent = column.isIndented === true ? Math.min(depth * indentPoints, column.width / 2) : 0;
    const lines = this.wrapped(text, weight, size.text, column.width - indent - gap, maxLines);
    return { lines, x: column.x + 4 + indent, size: size.text, alignRight: false };
  }

  /** A text on at most so many lines; what is more ends with an ellipsis. */
  private wrapped(text: string, weight: Weight, textSize: number, width: number, most: number): Run[][] {
    const fits = (part: string) => this.fonts.widthOf(this.fonts.runs(part, weight), textSize) <= width;
    if (text === '' || fits(text)) return [this.fonts.runs(text, weight)];
    const lines: string[] = [];
    let rest = Array.from(text.trim());
    while (rest.length > 0) {
      const isLast = lines.length === most - 1;
      let [count, over] = [1, Math.min(rest.length, 400) + 1];
      while (over - count > 1) {
        const middle = Math.floor((count + over) / 2);
        const whole = middle >= rest.length;
        if (fits(rest.slice(0, middle).join('') + (isLast && !whole ? '…' : ''))) count = middle;
        else over = middle;
      }
      const isWhole = count >= rest.length;
      const space = isWhole || isLast ? -1 : rest.lastIndexOf(' ', count);
      const end = space > 0 ? space : count;
      lines.push(rest.slice(0, end).join('') + (isLast && !isWhole ? '…' : ''));
      if (isLast) break;
      rest = Array.from(rest.slice(end).join('').trimStart());
    }
    return lines.map((line) => this.fonts.runs(line, weight));
  }
}

function isRight({ type }: TableColumn): boolean {
  return type === 'amount' || type === 'number';
}

/** A decimal string with commas between thousands. */
function grouped(decimal: string): string {
  return decimal.replace(/\B(?=(\d{3})+(?=\.))/g, ',');
}
