// Noto Sans for PDF: one font per script and weight, of which each character takes the first that has it.
import { createRequire } from 'node:module';
import type PDFDocument from 'pdfkit';

/** A document under construction. */
export type Document = InstanceType<typeof PDFDocument>;

/** Weight of a text. */
export type Weight = 400 | 700;

/** A part of a text that one font has. */
export interface Run {
  font: string;
  text: string;
}

// Most frequent first: a font is opened for the first character that those before it lack.
const scripts = ['latin', 'latin-ext', 'vietnamese', 'cyrillic', 'cyrillic-ext', 'greek', 'greek-ext', 'devanagari'];
const replacement = '\ufffd';
const { resolve } = createRequire(import.meta.url);

/** Height of Noto Sans above its base line, in sizes. */
export const ascent = 1.069;

/** What pdfkit does not export of its current font. */
interface OpenFont {
  id: string;
  font: { hasGlyphForCodePoint: (point: number) => boolean };
  encode: (text: string) => [glyphs: string[], positions: { xAdvance: number }[]];
  ref: () => unknown;
}

/** The fonts of one document. Only glyphs that it uses are embedded. */
export class Fonts {
  private readonly document: Document;
  private readonly scriptOf = new Map<string, number>();
  private readonly glyphs = new Map<string, { hex: string; width: number }>();
  private readonly references = new Map<string, { id: string; ref: unknown }>();

  constructor(document: Document) {
    this.document = document;
    for (const weight of [400, 700]) {
      for (const script of scripts) document.registerFont(`${script}-${weight}`, fileOf(script, weight));
    }
  }

  /** A text as runs. A character that no font has becomes U+FFFD, one that does not print a space. */
  runs(text: string, weight: Weight): Run[] {
    const runs: Run[] = [];
    let script = -1;
    for (const each of text.replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')) {
      const found = this.scriptWith(each);
      const last = runs.at(-1);
      const shown = found < 0 ? replacement : each;
      if (last && Math.max(found, 0) === script) last.text += shown;
      else runs.push({ font: `${scripts[Math.max(found, 0)]}-${weight}`, text: shown });
      script = Math.max(found, 0);
    }
    return runs;
  }

  /** Width of runs in points. */
  widthOf(runs: readonly Run[], size: number): number {
    return runs.reduce((sum, run) => sum + this.runWidth(run, size), 0);
  }

  /** Draws runs from a point on, to the right. */
  draw(runs: readonly Run[], size: number, x: number, y: number): void {
    for (const run of runs) {
      const { font, text } = run;
      if (isShaped(run)) this.document.font(font, size).text(text, x, y, { lineBreak: false });
      else {
        const { id, ref, glyphs } = this.show(run);
        (this.document.page.fonts as Record<string, unknown>)[id] ??= ref;
        this.document.addContent(`BT /${id} ${number(size)} Tf 1 0 0 -1 ${number(x)} ${number(y + ascent * size)} Tm <${glyphs}> Tj ET`);
      }
      x += this.runWidth(run, size);
    }
  }

  /** The commands that show a text of Latin characters in a form of its own, and the font that they use. */
  commandsOf(text: string, size: number): { commands: string; fonts: Record<string, unknown> } {
    const { id, ref, glyphs } = this.show({ font: 'latin-400', text });
    return { commands: `BT /${id} ${size} Tf <${glyphs}> Tj ET`, fonts: { [id]: ref } };
  }

  private runWidth(run: Run, size: number): number {
    if (isShaped(run)) return this.document.font(run.font, size).widthOfString(run.text);
    let width = 0;
    for (const each of run.text) width += this.glyph(run.font, each).width;
    return (width / 1000) * size;
  }

  private show({ font, text }: Run): { id: string; ref: unknown; glyphs: string } {
    const glyphs = Array.from(text, (each) => this.glyph(font, each).hex).join('');
    const { id, ref } = this.references.get(font) ?? this.refer(font);
    return { id, ref, glyphs };
  }

  private refer(font: string): { id: string; ref: unknown } {
    const open = this.open(font);
    const reference = { id: open.id, ref: open.ref() };
    this.references.set(font, reference);
    return reference;
  }

  // Laying out each text costs ten times as much, for kerning that small print hardly shows.
  private glyph(font: string, each: string): { hex: string; width: number } {
    const key = `${font} ${each}`;
    let glyph = this.glyphs.get(key);
    if (!glyph) {
      const [ids, positions] = this.open(font).encode(each);
      glyph = { hex: ids.join(''), width: positions.reduce((sum, { xAdvance }) => sum + xAdvance, 0) };
      this.glyphs.set(key, glyph);
    }
    return glyph;
  }

  private scriptWith(each: string): number {
    let script = this.scriptOf.get(each);
    if (script === undefined) {
      const point = each.codePointAt(0) as number;
      script = scripts.findIndex((name) => this.open(`${name}-400`).font.hasGlyphForCodePoint(point));
      this.scriptOf.set(each, script);
    }
    return script;
  }

  private open(name: string): OpenFont {
    this.document.font(name);
    return (this.document as unknown as { _font: OpenFont })._font;
  }
}

/** Whether characters depend on their neighbours. */
function isShaped({ font, text }: Run): boolean {
  return font.startsWith('devanagari') || /\p{M}/u.test(text);
}

function number(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}

function fileOf(script: string, weight: number): string {
  return resolve(`@fontsource/noto-sans/files/noto-sans-${script}-${weight}-normal.woff`);
}
