// The RPC of exports: checks the request's fields, then reads.
import { invalid, oneOf, tenantOf } from '../fields.ts';
import { checkIndexes } from '../metadata-search.ts';
import { transactionFilterOf } from '../search-fields.ts';
import { exportFormats, exportOf, exported } from './exports.ts';
import type { AuditHandlers, AuditorParts } from './parts.ts';

const hasSequence: readonly string[] = ['events', 'transactions', 'entries'];
const hasFilters: readonly string[] = ['transactions', 'entries'];
const onlyLines: readonly string[] = ['events', 'everything'];

/** The handler of exports. */
export function exportHandlers({ exports: pool }: AuditorParts): AuditHandlers {
  return {
    async *export(request, { signal }) {
      const tenant = tenantOf(request);
      const what = oneOf('what', request.what, exported);
      const format = oneOf('format', request.format, exportFormats);
      if (format === 'csv' && onlyLines.includes(what)) throw invalid('format', 'oneof', format, `format of ${what} must be ndjson`);
      const { afterSequence } = request;
      const shown = String(afterSequence);
      if (afterSequence < 0n) throw invalid('after_sequence', 'min', shown, 'after_sequence must not be negative');
      if (afterSequence > 0n && !hasSequence.includes(what))
        throw invalid('after_sequence', 'oneof', shown, `after_sequence must be left out for ${what}, whose records have no sequence`);
      const filter = request.filter && transactionFilterOf(request.filter);
      const connections = pool.of(tenant, signal);
      const asked = Object.entries(filter ?? {}).find(([, value]) => value !== undefined);
      if (asked && !hasFilters.includes(what)) throw invalid('filter', 'oneof', asked[0], `filter must be left out for ${what}`);
      // Before the first message, so that the caller gets the error.
      if (filter) await checkIndexes(connections, tenant, filter);
      for await (const part of exportOf(connections, tenant, { what, format, afterSequence, filter: asked && filter }))
        yield 'through' in part ? { throughSequence: part.through } : { bytes: part.bytes };
    },
  };
}
