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

/** What pdfkit does not export of its current font. */
interface OpenFont {
  id: string;
  font: { hasGlyphForCodePoint: (point: number) => boolean };
  encode: (text: string) => [glyphs: string[], positions: unknown[]];
  ref: () => unknown;
}

/** The fonts of one document. Only glyphs that it uses are embedded. */
export class Fonts {
  private readonly document: Document;
  private readonly scriptOf = new Map<string, number>();

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
    return runs.reduce((sum, { font, text }) => sum + this.document.font(font, size).widthOfString(text), 0);
  }

  /** Draws runs from a point on, to the right. */
  draw(runs: readonly Run[], size: number, x: number, y: number): void {
    for (const { font, text } of runs) {
      this.document.font(font, size).text(text, x, y, { lineBreak: false });
      x += this.document.widthOfString(text);
    }
  }

  /** The commands that show a text of Latin digits and letters in a form of its own, and the font that they use. */
  commandsOf(text: string, size: number): { commands: string; fonts: Record<string, unknown> } {
    const font = this.open('latin-400');
    return { commands: `BT /${font.id} ${size} Tf <${font.encode(text)[0].join('')}> Tj ET`, fonts: { [font.id]: font.ref() } };
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

function fileOf(script: string, weight: number): string {
  return resolve(`@fontsource/noto-sans/files/noto-sans-${script}-${weight}-normal.woff`);
}
