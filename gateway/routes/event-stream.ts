// The route that streams the audit trail as it grows.
import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { mustEnd } from '../auth.ts';
import { validationError } from '../errors.ts';
import { StreamLimit, eventStream, sharedReads } from '../event-stream.ts';
import { object, webhookEvents, whole } from '../fields.ts';
import type { App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { echo } from '../validation-messages.ts';
import { exampleEvent } from './events.ts';

const types = webhookEvents.filter((type) => type !== 'test.webhook');

const query = object({
  after_sequence: Type.Optional(
    whole(0, Number.MAX_SAFE_INTEGER, {
      default: 0,
      description: 'Only events after this sequence. The header `Last-Event-ID` wins.',
      example: 30,
    }),
  ),
  types: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      description: `Types of events, with commas between; all of the log by default. \`balance.updated\` and \`hold.captured\` are sent only if named. One or more of ${types.join(', ')}.`,
      example: 'transaction.posted,balance.updated',
    }),
  ),
});

const maxPerTenant = 32;

/** `/events/stream`. `maxInFlight`: requests at once, of which a quarter may be streams. */
export function eventStreamRoutes(app: App, { ledger, shutdown, maxInFlight }: Services & { maxInFlight: number }): void {
  const limit = new StreamLimit(Math.max(1, Math.floor(maxInFlight / 4)), maxPerTenant);
  const read = sharedReads((tenantId, afterSequence) => ledger.listEvents({ tenantId, afterSequence, limit: 100 }, { timeoutMs: 5_000 }));
  app.get(
    '/v1/tenants/:slug/events/stream',
    {
      schema: { querystring: query },
      config: {
        access: { by: 'key', scope: 'transactions:read' },
        doc: {
          id: 'streamEvents',
          tag: 'Events',
          summary: 'Stream the audit trail',
          description: [
            'Server-Sent Events, oldest first, without gaps, and then as they happen, within a second. `event` is the type, `data` an event as `GET …/events` shows it, `id` its sequence.',
            'After a cut a client goes on with the last `id` in the header `Last-Event-ID`, as a browser’s `EventSource` does by itself. Of several messages of one sequence only the last has an `id`. Every 15 s without an event comes a comment with the `id` so far.',
            'The stream ends with the event `end` and its reason: `{"code", "message", "sequence"}`. `too_slow`: the client took more than 30 s for 64 KiB. `unauthenticated`, `forbidden`: the key ended, at most 5 s before. `unavailable`: connect again.',
            'A tenant may have 32 streams at once on each gateway.',
          ].join('\n\n'),
          answers: {
            200: {
              description: 'Events until either side ends the stream',
              unwrappedType: 'text/event-stream',
              schema: { type: 'string' },
              example: `id: ${exampleEvent.sequence}\nevent: ${exampleEvent.type}\ndata: ${JSON.stringify(exampleEvent)}\n\n`,
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { caller, query: asked, method, headers } = request;
      const afterSequence = lastEventId(headers['last-event-id']) ?? BigInt(asked.after_sequence ?? 0);
      const wanted = asked.types === undefined ? undefined : typesOf(asked.types);
      reply.headers({ 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' });
      if (method === 'HEAD') return reply.send('');
      const leave = limit.enter(caller.tenantId);
      const closed = new AbortController();
      reply.raw.once('close', () => {
        leave();
        closed.abort();
      });
      const stream = eventStream({
        tenantId: caller.tenantId,
        afterSequence,
        types: wanted,
        read,
        mustEnd: () => mustEnd(request, reply, shutdown),
        signal: AbortSignal.any([shutdown, closed.signal]),
        giveUp: () => reply.raw.destroy(),
      });
      // Without object mode its buffer is counted in bytes.
      return reply.send(Readable.from(stream, { objectMode: false, highWaterMark: 65_536 }));
    },
  );
}

function lastEventId(header: string | string[] | undefined): bigint | undefined {
  // Browsers send none before the first event; joined duplicates are none.
  if (header === undefined || header === '') return undefined;
  if (typeof header === 'string' && /^[0-9]{1,16}$/.test(header) && Number.isSafeInteger(Number(header))) return BigInt(header);
  const message = 'Last-Event-ID must be the id of an event of this stream';
  throw validationError([{ field: 'Last-Event-ID', tag: 'number', value: echo(header), message }]);
}

function typesOf(text: string): ReadonlySet<string> {
  const asked = text.split(',');
  const unknown = asked.find((type) => !(types as readonly string[]).includes(type));
  if (unknown === undefined) return new Set(asked);
  throw validationError([{ field: 'types', tag: 'oneof', value: echo(unknown), message: `types must be some of ${types.join(', ')}` }]);
}
