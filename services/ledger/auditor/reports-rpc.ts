// The RPC of reports: a report of one snapshot, bounded in lines and time.
import { destroyConnection, type Connections } from '../../platform/postgres.ts';
import { tenantOf } from '../fields.ts';
import { tooLarge } from '../reports/accounts-report.ts';
import { checkedParameters } from '../reports/parameters.ts';
import { renderReport } from '../reports/render.ts';
import type { AuditHandlers, AuditorParts } from './parts.ts';
import { inSnapshot } from './snapshot.ts';

/** Bounds of a report that is answered at once. */
export const reportBounds = { maxLines: 20_000, milliseconds: 5_000 };

// A file may be larger than a message.
const messageBytes = 256 << 10;

/** Handlers of reports. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function reportHandlers({ reports: pool }: Pick<AuditorParts, 'reports'>): AuditHandlers {
  return {
    async *getReport(request, { signal }) {
      const tenant = tenantOf(request);
      const { contentType, parts } = await makeNow(pool.of(tenant, signal), tenant, request, reportBounds);
      yield { contentType };
      for (const part of parts) {
        for (let from = 0; from < part.length; from += messageBytes) yield { bytes: part.subarray(from, from + messageBytes) };
      }
    },
  };
}

/** Makes a whole report within bounds. Throws {@link Refusal}, also `report_too_large`. */
export async function makeNow(
  connections: Connections,
  tenant: string,
  { report, parameters }: { report: string; parameters: string },
  bounds: typeof reportBounds,
): Promise<{ contentType: string; parts: Uint8Array[] }> {
  const asked = checkedParameters(report, parameters);
  const started: { late?: AbortSignal } = {};
  try {
    return await inSnapshot(connections, tenant, { statementMs: bounds.milliseconds }, async (snapshot) => {
      // The statement that runs, and those that wait for it on the connection, end with it.
      const stop = () => destroyConnection(snapshot.client);
      const late = (started.late = AbortSignal.timeout(bounds.milliseconds));
      late.addEventListener('abort', stop);
      try {
        const { contentType, parts } = await renderReport(snapshot, asked, { nowMs: Date.now(), paged: true, maxLines: bounds.maxLines });
        return { contentType, parts: await Array.fromAsync<Uint8Array>(parts) };
      } finally {
        late.removeEventListener('abort', stop);
      }
    });
  } catch (error) {
    if (started.late?.aborted === true) throw tooLarge(`takes more than ${bounds.milliseconds / 1000} s`);
    throw error;
  }
}
