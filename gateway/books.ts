// The time zone of a tenant's books, in which dates without a time are read.
import type { Client } from '@connectrpc/connect';
import type { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { instantOf } from '../services/platform/calendar.ts';
import { validationError } from './errors.ts';
import { echo } from './validation-messages.ts';

/** How long a time zone is remembered, milliseconds. */
const rememberMs = 3_000;
const maxRemembered = 10_000;

const dayLength = '2030-01-31'.length;

/** Reads times of requests: RFC 3339, or a day of the books' time zone. */
export class BooksTimes {
  private readonly ledger: Pick<Client<typeof LedgerService>, 'getBooks'>;
  private readonly zones = new Map<string, { timeZone: string; untilMs: number }>();

  constructor(ledger: BooksTimes['ledger']) {
    this.ledger = ledger;
  }

  /** Forgets a tenant's time zone, after it was changed through this gateway. */
  forget(tenantId: string): void {
    this.zones.delete(tenantId);
  }

  /**
   * The instant of a text in milliseconds since the Unix epoch, undefined for undefined. A day is its first or its last millisecond. Throws
   * `validation_failed` with the tag `datetime`, naming the field.
   */
  async instant(tenantId: string, field: string, text: string | undefined, edge: 'first' | 'last'): Promise<bigint | undefined> {
    if (text === undefined) return undefined;
    return instantIn(await this.zoneFor(tenantId, text), field, text, edge);
  }

  /** The time zone in which these texts are read: that of the books if one is a day, else any. */
  async zoneFor(tenantId: string, ...texts: unknown[]): Promise<string> {
    return texts.some((text) => typeof text === 'string' && text.length === dayLength) ? this.timeZoneOf(tenantId) : 'UTC';
  }

  private async timeZoneOf(tenantId: string): Promise<string> {
    const known = this.zones.get(tenantId);
    if (known && performance.now() < known.untilMs) return known.timeZone;
    const { books } = await this.ledger.getBooks({ tenantId }, { timeoutMs: 5_000 });
    const timeZone = books?.timezone ?? 'UTC';
    if (this.zones.size >= maxRemembered) this.zones.clear();
    this.zones.set(tenantId, { timeZone, untilMs: performance.now() + rememberMs });
    return timeZone;
  }
}

/** As {@link BooksTimes.instant}, in a time zone that is known. */
export function instantIn(timeZone: string, field: string, text: string, edge: 'first' | 'last'): bigint {
  const ms = instantOf(text, edge, timeZone);
  if (ms !== null) return BigInt(ms);
  const message = `${field} must be a date like 2030-01-31 or a time like 2030-01-31T12:00:00.000Z`;
  throw validationError([{ field, tag: 'datetime', value: echo(text), message }]);
}
