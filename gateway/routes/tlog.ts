// The log as https://c2sp.org/tlog-tiles has it, for clients of transparency logs: checkpoint, tiles and entries.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, type ErrorCode } from '../errors.ts';
import type { Doc } from '../openapi-route.ts';
import { exampleCheckpoint } from '../tlog-records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const access = { by: 'key', scope: 'transactions:read' } as const;
const tag = 'Proofs';
const errors: ErrorCode[] = ['event_not_found', 'books_frozen'];

const bytes = { schema: { type: 'string', format: 'binary' }, example: 'hashes of 32 bytes', unwrappedType: 'application/octet-stream' };

const ofTiles: Doc = {
  id: 'getTile',
  tag,
  summary: 'Read a tile of the tree',
  description:
    'Up to 256 hashes of one level of the Merkle tree. Those of level 0 are the leaves’: sha256(0x00 ‖ `hash` of the event). A path like `x001/x234/067` may also be sent with plain slashes.',
  answers: { 200: { ...bytes, description: 'Hashes' } },
  errors: ['tile_not_found', ...errors],
};

const ofEntries: Doc = {
  id: 'getTileEntries',
  tag,
  summary: 'Read the entries of a tile',
  description:
    'The data of up to 256 leaves, each after its length in two bytes: the 32 bytes of `hash` of an event. The events themselves are in the export of events.',
  answers: { 200: { ...bytes, description: 'Entries' } },
  errors: ['tile_not_found', ...errors],
};

/** Position and width of a tile as its path writes them; null: it is none. */
export function tileOf(path: string): { position: number; width: number } | null {
  const [, high = '', low = '', width = '256'] = /^((?:x[0-9]{3}\/){0,4})([0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/.exec(path) ?? [];
  const isPadded = high.startsWith('x000/');
  if (low === '' || isPadded || (path.includes('.p/') && Number(width) > 255)) return null;
  return { position: Number(high.replaceAll(/[x/]/g, '') + low), width: Number(width) };
}

/** `/tlog/checkpoint`, `/tlog/tile/{level}/{tile}` and `/tlog/tile/entries/{tile}`. */
export function tlogRoutes(app: App, services: Services): void {
  checkpointRoute(app, services);
  const send = async (level: number | undefined, request: FastifyRequest, reply: FastifyReply) => {
    const params = request.params as Record<string, string>;
    const tile = tileOf(params['tile'] ?? params['*'] ?? '');
    if (!tile || level === -1) throw new ApiError('tile_not_found');
    const rpcRequest = { tenantId: request.caller.tenantId, position: BigInt(tile.position), width: tile.width };
    const answer = await services.auditor.getTile({ ...rpcRequest, ...(level !== undefined && { level }) }, callOptions(request, 10_000));
    // They never change unless an operator accepts a log that was restored.
    reply.headers({ 'content-type': bytes.unwrappedType, 'cache-control': 'private, max-age=86400' });
    return reply.send(Buffer.from(answer.bytes));
  };
  // Clients of the format send slashes; the document, whose parameters have none, shows them encoded.
  for (const [rest, documented] of [
    [':tile', true],
    ['*', false],
  ] as const) {
    const config = (doc: Doc) => ({ config: { access, ...(documented && { doc }) } });
    app.get(`/v1/tenants/:slug/tlog/tile/entries/${rest}`, config(ofEntries), (request, reply) => send(undefined, request, reply));
    app.get(`/v1/tenants/:slug/tlog/tile/:level/${rest}`, config(ofTiles), (request, reply) => {
      const { level } = request.params as { level: string };
      return send(/^([0-9]|[1-5][0-9]|6[0-3])$/.test(level) ? Number(level) : -1, request, reply);
    });
  }
}

function checkpointRoute(app: App, { auditor }: Services): void {
  app.get(
    '/v1/tenants/:slug/tlog/checkpoint',
    {
      config: {
        access,
        doc: {
          id: 'getCheckpoint',
          tag,
          summary: 'Read the newest checkpoint',
          description:
            'A signed note of https://c2sp.org/tlog-checkpoint: name, size and root of the log, and signatures, also those of witnesses. Keep it: by it you can prove later that nothing before has changed. A new one is signed about every minute while events arrive.',
          answers: {
            200: { description: 'The checkpoint', schema: { type: 'string' }, example: exampleCheckpoint, unwrappedType: 'text/plain' },
          },
          errors,
        },
      },
    },
    async (request, reply) => {
      const { checkpoint } = await auditor.getCheckpoint({ tenantId: request.caller.tenantId }, callOptions(request, 20_000));
      return reply.type('text/plain; charset=utf-8').send(checkpoint);
    },
  );
}
