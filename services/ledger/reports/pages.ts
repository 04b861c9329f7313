// Pages of statements, ledger and journal: every page of a report reads the same state of the log, until the same time.
import { encodeCursor, type CursorScope } from '../../platform/cursor.ts';
import type { LinePlace } from '../effective-lines.ts';
import { positionOf } from '../page.ts';
import type { Asked } from './parameters.ts';
import type { Parameters } from './report.ts';

/** Where a page begins. */
export interface PageStart {
  /** UUID and currency of the statement; null in the journal. */
  statement: { account: string; currency: string } | null;
  /** The last line of the page before; null: the statement begins. */
  after: LinePlace | null;
  /** The balance after it, minor units. */
  running: bigint;
}

// Sequence and time that all pages share, then account, currency, effective time, sequence, position and balance; `-` where there is none.
const pattern = /^\d{1,18} -?\d{1,16} ([0-9a-f-]{36} [A-Z]{3}|- -) (-?\d{1,16} \d{1,18} \d{1,9}|- - -) -?\d{1,40}$/;

/** The pages of one report of one tenant (UUID). */
export class Pages {
  /** Null: from the beginning. */
  readonly start: PageStart | null = null;
  private readonly scope: CursorScope;
  private readonly pinned: Partial<Asked> = {};

  /** Throws {@link Refusal} where the cursor belongs to another report, or to other parameters. */
  constructor(tenant: string, asked: Asked) {
    this.scope = ['report', tenant, { ...asked, limit: null, cursor: '' }];
    const position = positionOf(this.scope, asked.cursor, pattern);
    if (position === null) return;
    const [sequence = '', toMs, account = '-', currency = '', effectiveMs = '-', after = '', index, running = ''] = position.split(' ');
    this.pinned = { knownAt: null, knownSequence: BigInt(sequence), to: new Date(Number(toMs)).toISOString() };
    this.start = {
      statement: account === '-' ? null : { account, currency },
      after: effectiveMs === '-' ? null : { effectiveMs: Number(effectiveMs), sequence: BigInt(after), position: Number(index) },
      running: BigInt(running),
    };
  }

  /** The parameters with what all pages have in common. */
  pin(asked: Asked): Asked {
    return { ...asked, ...this.pinned };
  }

  /** The cursor of a page that begins there. */
  cursorAt({ knownSequence, toMs }: Parameters, { statement, after, running }: PageStart): string {
    const place = after === null ? '- - -' : `${after.effectiveMs} ${after.sequence} ${after.position}`;
    return encodeCursor(
      this.scope,
      `${knownSequence} ${toMs} ${statement === null ? '- -' : `${statement.account} ${statement.currency}`} ${place} ${running}`,
    );
  }
}
