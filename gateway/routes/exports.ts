// Routes of exports: all records of one kind, or of all, as a stream.
import { Readable } from 'node:stream';
import { Type, type Static } from 'typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Scope } from '../../services/platform/roles.ts';
import { missingScope, mustEnd } from '../auth.ts';
import type { ErrorCode } from '../errors.ts';
import { StreamLimit } from '../event-stream.ts';
import { exportFormats, object, oneOf, whole } from '../fields.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exportQuery, listRequest, withKept } from '../transaction-query.ts';

const ndjson = 'application/x-ndjson';
const exportTimeoutMs = 24 * 3_600_000;
const maxPerTenant = 8;

const afterSequence = Type.Optional(
  whole(0, Number.MAX_SAFE_INTEGER, { default: 0, description: 'Only records after this sequence.', example: 30 }),
);
const format = Type.Optional(oneOf(exportFormats, { default: 'ndjson', example: 'csv' }));
const onlyLines = Type.Optional(oneOf(['ndjson'], { default: 'ndjson' }));

interface ExportRoute {
  what: string;
  /** The first guards the route. */
  scopes: [Scope, ...Scope[]];
  query: { properties: object };
  summary: string;
  description: string;
  example: object;
  errors?: ErrorCode[];
}

const ofFilters: ErrorCode[] = ['index_building', 'filter_not_found'];

const line = {
  ...{ transaction_id: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8', sequence: 31, position: 0, account_id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t8' },
  ...{ account_code: 'SETTLEMENT-USD', side: 'debit', amount: '100.00', currency: 'USD', balance_after: '100.00' },
  ...{ effective_at: '2030-01-31T12:00:00.000Z', created_at: '2030-01-31T12:00:00.000Z', description: 'Deposit', reference: null },
};
const balance = {
  ...{ account_id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t8', account_code: 'SETTLEMENT-USD', currency: 'USD' },
  ...{ balance: '100.00', debits: '100.00', credits: '0.00' },
};
const account = { id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t8', account_code: 'SETTLEMENT-USD', name: 'Settlement bank account (USD)' };
const event = {
  sequence: 31,
  type: 'transaction.posted',
  header: '["tenant_01jd1zq5v8e6n9w2k4m7p3r5t8",31,"evt_01jd1zq5v8e6n9w2k4m7p3r5t8","transaction.posted",1896091200000,"key_…","req-7f3a"]',
  payload: 'Ch50eG4…',
  ...{ payload_hash: '60303ae2…', previous_hash: '9f86d081…', hash: '5f2b8c1d…' },
};

const routes: ExportRoute[] = [
  {
    what: 'events',
    scopes: ['transactions:read'],
    query: object({ format: onlyLines, after_sequence: afterSequence }),
    summary: 'Export the audit trail',
    description:
      'Oldest first, with all that the hashes are made of: `hash` is sha256(previous hash ‖ sha256(`header`) ‖ sha256(`payload`)), where `payload` is the base64 of a `ledger.v1` message. Of a redacted event `payload` is null, `payload_hash` is that of what was posted, and `redacted_payload` is what stands. The last line has a `checkpoint` where one was signed for exactly these events.',
    example: event,
  },
  {
    what: 'transactions',
    scopes: ['transactions:read'],
    query: exportQuery,
    errors: ofFilters,
    summary: 'Export transactions',
    description: 'Oldest first, as `GET …/transactions` shows them, and with its filters. CSV has a row for each, without its entries.',
    example: { transaction_id: line.transaction_id, kind: 'double', sequence: 31 },
  },
  {
    what: 'entries',
    scopes: ['transactions:read'],
    query: exportQuery,
    errors: ofFilters,
    summary: 'Export entries',
    description: 'All entries of transactions, oldest first. Filters are those of `GET …/transactions`.',
    example: line,
  },
  {
    what: 'accounts',
    scopes: ['accounts:read'],
    query: object({ format }),
    summary: 'Export accounts',
    description: 'Accounts and groups, oldest first.',
    example: account,
  },
  {
    what: 'balances',
    scopes: ['balances:read'],
    query: object({ format }),
    summary: 'Export balances',
    description: 'Balances of all accounts in each currency in which they were moved. Holds do not count.',
    example: balance,
  },
  {
    what: 'everything',
    scopes: ['transactions:read', 'accounts:read', 'balances:read'],
    query: object({ format: onlyLines }),
    summary: 'Export everything',
    description:
      'Accounts, transactions, entries and balances, each line as `{"type", "data"}` with the type `account`, `transaction`, `entry` or `balance`. Needs the scopes `accounts:read` and `balances:read` as well.',
    example: { type: 'balance', data: balance },
  },
];

const end = { end: true, count: 1, sequence: 31, hash: event.hash };

/** `/export/{what}`. `maxInFlight`: requests at once, of which a quarter may be exports. */
export function exportRoutes(app: App, services: Services & { maxInFlight: number }): void {
  const limit = new StreamLimit(Math.max(1, Math.floor(services.maxInFlight / 4)), maxPerTenant);
  for (const { what, scopes, query, summary, description, example, errors = [] } of routes) {
    const takesAfter = 'after_sequence' in query.properties;
    const schema = { type: 'string' };
    const resume = takesAfter
      ? ' After a cut drop the lines of the last `sequence` and go on with `after_sequence` of the one before.'
      : ' After a cut begin again.';
    app.get(
      `/v1/tenants/:slug/export/${what}`,
      {
        schema: { querystring: query },
        config: {
          access: { by: 'key', scope: scopes[0] },
          doc: {
            id: `export${what.charAt(0).toUpperCase()}${what.slice(1)}`,
            tag: 'Exports',
            summary,
            description: [
              description,
              `Everything is as of one position of the log, which \`X-Through-Sequence\` names. The last line of NDJSON is \`{"end": true, "count", "sequence", "hash"}\`; without it the export was cut.${resume} A client that reads nothing for a minute is cut.`,
            ].join('\n\n'),
            errors,
            answers: {
              200: {
                description: 'The records',
                headers: ['X-Through-Sequence'],
                unwrappedType: (query.properties as { format: unknown }).format === onlyLines ? ndjson : '*/*',
                schema,
                example: `${JSON.stringify(example)}\n${JSON.stringify(end)}\n`,
              },
            },
          },
        },
      },
      async (request, reply) => {
        const missing = scopes.find((scope) => !request.caller.scopes.has(scope));
        if (missing) throw missingScope(missing);
        return sendExport(what, request, reply, services, limit);
      },
    );
  }
}

const takesFilters = ['transactions', 'entries'];

async function sendExport(
  what: string,
  request: FastifyRequest,
  reply: FastifyReply,
  { auditor, ledger, times, shutdown }: Services,
  limit: StreamLimit,
): Promise<FastifyReply> {
  const { tenantId } = request.caller;
  const query = await withKept(request.query as Static<typeof exportQuery>, async (name) => {
    const { filter } = await ledger.getFilter({ tenantId, name }, callOptions(request, 5_000));
    return filter?.query ?? '';
  });
  const { format: form = 'ndjson', after_sequence: after = 0 } = query;
  const leave = limit.enter(tenantId);
  reply.raw.once('close', leave);
  const filter = takesFilters.includes(what) ? { filter: await listRequest(times, tenantId, query) } : {};
  const rpcRequest = { tenantId, what, format: form, afterSequence: BigInt(after), ...filter };
  const answers = auditor.export(rpcRequest, callOptions(request, exportTimeoutMs));
  const messages = answers[Symbol.asyncIterator]();
  const first = await messages.next();
  if (first.done === true) throw new Error('the auditor answered an export without its sequence');
  const type = form === 'csv' ? 'text/csv; charset=utf-8' : `${ndjson}; charset=utf-8`;
  reply.headers({ 'content-type': type, 'x-through-sequence': String(first.value.throughSequence), 'x-accel-buffering': 'no' });
  if (request.method === 'HEAD') {
    await messages.return?.();
    return reply.send('');
  }
  const bytes = async function* () {
    try {
      for (let next = await messages.next(); next.done !== true; next = await messages.next()) {
        yield next.value.bytes;
        const error = await mustEnd(request, reply, shutdown);
        if (error) throw error;
      }
    } finally {
      await messages.return?.();
    }
  };
  return reply.send(Readable.from(bytes(), { objectMode: false, highWaterMark: 65_536 }));
}
