// Import of any number of transactions and holds as NDJSON, an item a line. The report is streamed while the lines arrive.
import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { mustEnd } from '../auth.ts';
import { readItem, timeOfItem } from '../batch-items.ts';
import { flag, object, oneOf } from '../fields.ts';
import { ChunkReader } from '../import-chunks.ts';
import { runImport } from '../import.ts';
import { parseBody } from '../json.ts';
import { dryRunQuery } from '../payment-fields.ts';
import type { App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { submit } from '../submit.ts';
import { ndjson, openBytes, refuseCompressed, withUploads } from '../uploads.ts';
import { refuseKeyHeader } from './batch.ts';

const importQuery = object({
  stop_on_error: Type.Optional({
    ...flag,
    default: false,
    description: 'true: nothing is sent after a chunk in which a line has failed.',
  } as typeof flag),
  results: Type.Optional(oneOf(['failed', 'all'], { default: 'failed', description: 'Which lines are reported.' })),
  ...dryRunQuery.properties,
});

const exampleLine = (key: string, amount: string) =>
  JSON.stringify({ op: 'single', idempotency_key: key, account_code: 'MARKETING', amount, side: 'debit', currency: 'USD' });
const details = { field: 'amount', tag: 'gt', value: '0' };
const message = 'amount must be greater than zero, not "0"';
const exampleReport = [
  { line: 2, status: 400, code: 'validation_failed', error: 'Request validation failed', details, errors: [{ ...details, message }] },
  { ...{ line: 3, posted: 2, replayed: 0, failed: 1 }, done: true },
];

/** `POST /transactions/import`. */
export function importRoutes(app: App, services: Services): void {
  withUploads(app, (scoped) => importRoute(scoped, services));
}

function importRoute(app: App, services: Services): void {
  app.post(
    '/v1/tenants/:slug/transactions/import',
    {
      schema: { querystring: importQuery },
      preValidation: [refuseKeyHeader, refuseCompressed],
      config: {
        access: { by: 'key', scope: 'transactions:write' },
        weight: 4,
        doc: {
          id: 'importTransactions',
          repeatable: true,
          tag: 'Transactions',
          summary: 'Import any number of items',
          description: [
            `The body is \`${ndjson}\` of any length: each line is an item of a batch of at most 1 MiB, with its \`idempotency_key\`. Blank lines are skipped; they count as lines. Lines are decided in their order, each by itself. A dry run tries each line alone, as if the others were not there.`,
            'The answer is streamed: `{line, status, transaction_id}` or `{line, status, hold_id}`, or `{line, status, code, error, details}` of a line that failed; after each 1,000 lines `{line, posted, replayed, failed}` with the sums so far; at the end the same with `done`. What is reported is durable.',
            '`done: false`, with `code` and `error`: the import ended early, because the ledger could not answer, the key was revoked or the server is stopping. Send on from the line after `line`, or everything again: lines that were posted replay. The same holds for an answer that is cut.',
            'With `stop_on_error` up to 250 lines after the one that failed may have been posted; they are reported. Read the answer while you send: a client that does not stops its own import, and after 90 seconds without progress the connection is closed.',
          ].join('\n\n'),
          stream: {
            type: ndjson,
            schema: { type: 'string', description: 'Items of a batch, one a line.' },
            example: [exampleLine('ad-1', '5.00'), exampleLine('ad-2', '0'), exampleLine('ad-3', '7.50'), ''].join('\n'),
          },
          answers: {
            200: {
              description: 'The report',
              schema: { type: 'string', description: 'One JSON object a line.' },
              example: [...exampleReport.map((each) => JSON.stringify(each)), ''].join('\n'),
              unwrappedType: ndjson,
            },
          },
        },
      },
    },
    (request, reply) => {
      const { body, query } = request;
      const dryRun = query.dry_run === true;
      const sent = (body ?? Readable.from([])) as Readable;
      const read = async (bytes: Buffer) => {
        const item = parseBody(bytes);
        const timeZone = await services.times.zoneFor(request.caller.tenantId, timeOfItem(item));
        return readItem({ request, whole: Object(item) as object, timeZone }, item);
      };
      const reader = new ChunkReader(openBytes(request, reply, sent, services.shutdown), read, () => !sent.readableEnded);
      const report = runImport({
        reader,
        submit: (commands) => submit(services, request, commands, { dryRun, waitsForCapacity: true }),
        mustEnd: () => mustEnd(request, reply, services.shutdown),
        stopOnError: query.stop_on_error === true,
        all: query.results === 'all',
        dryRun,
      });
      reply.header('content-type', `${ndjson}; charset=utf-8`);
      return reply.send(Readable.from(report));
    },
  );
}
