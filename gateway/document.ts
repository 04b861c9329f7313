// Serves the OpenAPI document and a reference page, both without any other server.
import { hash } from 'node:crypto';
import swagger from '@fastify/swagger';
import Fastify, { type FastifyContextConfig, type FastifySchema, type LightMyRequestResponse } from 'fastify';
import { answerSchemas, operationDoc, published, requestName } from './openapi.ts';
import type { Doc, DocumentedRoute } from './openapi-route.ts';
import { documentInfo, documentSchemas } from './openapi-info.ts';
import { withNames } from './openapi-names.ts';
import { headerParameters, parameterDoc, pathParameters } from './openapi-parameters.ts';
import { documentWebhooks } from './openapi-webhooks.ts';
import { ApiError } from './errors.ts';
import type { App } from './request-context.ts';

interface Parameter {
  in: string;
  required?: boolean;
  schema: Record<string, unknown>;
}

interface Operation extends Record<string, unknown> {
  parameters?: Parameter[];
}

/** Registers `/openapi.json` and `/docs`. The document contains the routes registered later that have a `doc`. */
export async function documentRoutes(app: App): Promise<void> {
  const routes = new Map<string, DocumentedRoute & { body: Record<string, unknown> | undefined }>();
  await app.register(swagger, {
    openapi: documentInfo as never,
    convertConstToEnum: false,
    transform: ({ url, route }) => {
      const { doc, access = { by: 'anyone' } } = configOf(route);
      if (!doc || [route.method].flat().includes('HEAD')) return { schema: { hide: true }, url };
      const { body, querystring } = schemaOf(route);
      const readsBody = ![route.method].flat().includes('GET');
      const ofAccount =
        url.includes(':account_code') ||
        url.endsWith('/hierarchy') ||
        url.endsWith('/usage') ||
        /\/(account-statement|general-ledger)$/.test(url);
      routes.set(doc.id, { access, doc, hasBody: body !== undefined, hasQuery: querystring !== undefined, readsBody, ofAccount, body });
      const names = [...url.matchAll(/:([a-z_]+)/g)].map((match) => match[1] ?? '');
      const params = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, published(pathParameters[name])])) };
      return {
        schema: {
          operationId: doc.id,
          ...(names.length > 0 && { params }),
          ...(querystring !== undefined && { querystring }),
        },
        url,
      };
    },
    transformObject: (given) => {
      const document = ('openapiObject' in given ? given.openapiObject : given.swaggerObject) as {
        paths?: Record<string, Record<string, Operation>>;
        components: { schemas?: Record<string, object> };
        webhooks?: Record<string, object>;
      };
      document.webhooks = documentWebhooks;
      // Added here, because the plugin drops all siblings of a `$ref`.
      const schemas: Record<string, object> = {};
      const add = (name: string, schema: object) => void withNames(schema, schemas, name);
      document.components.schemas = schemas;
      for (const path of Object.values(document.paths ?? {})) {
        for (const operation of Object.values(path)) {
          const route = routes.get(operation['operationId'] as string);
          if (!route) continue;
          const parameters = [...(operation.parameters ?? []).map((each) => withExample(each, route.doc)), ...headerParameters(route.doc)];
          Object.assign(operation, { parameters }, operationDoc(route, route.body));
          if (route.body) add(requestName(route.doc.id), published(route.body));
          for (const [name, schema] of answerSchemas(route.doc)) add(name, schema);
        }
      }
      for (const [name, schema] of Object.entries(documentSchemas)) add(name, schema);
      return document;
    },
  });
  // One buffer for all responses: copies for many slow clients would fill the memory.
  let document: Buffer | undefined;
  app.get('/openapi.json', { config: { doc: openapiDoc } }, (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(app.swagger()));
    return reply.headers({ 'content-type': 'application/json; charset=utf-8', 'cache-control': cacheable }).send(document);
  });
  let docs: Promise<Map<string, Page>> | undefined;
  for (const url of ['/docs', '/docs/*']) {
    app.get(url, async (request, reply) => {
      docs ??= docsPages().catch((error: unknown) => {
        docs = undefined;
        throw error;
      });
      // The absolute form of RFC 9112 has a host before the path.
      const path = (request.url.split('?')[0] as string).replace(/^https?:\/\/[^/]*/, '');
      const page = (await docs).get(path);
      if (!page) throw new ApiError('route_not_found');
      const { statusCode, headers, rawPayload, policy } = page;
      reply.headers({ 'content-security-policy': policy, 'referrer-policy': 'no-referrer', 'cache-control': cacheable });
      const { location, 'content-type': type } = headers;
      if (location !== undefined) return reply.redirect(location, statusCode);
      if (type !== undefined) reply.header('content-type', type);
      return reply.code(statusCode).send(rawPayload);
    });
  }
}

// The same for every client until the next version.
const cacheable = 'public, max-age=300';

interface Page extends Pick<LightMyRequestResponse, 'statusCode' | 'headers' | 'rawPayload'> {
  policy: string;
}

// Kept by their own paths only: percent-encoded variants would be endless copies. Loaded on demand, because the page takes 40 MiB.
async function docsPages(): Promise<Map<string, Page>> {
  const { default: reference } = await import('@scalar/fastify-api-reference');
  const docs = Fastify({ logger: false, exposeHeadRoutes: false });
  const paths: string[] = [];
  docs.addHook('onRoute', ({ url }) => void paths.push(url));
  await docs.register(reference, {
    routePrefix: '/docs',
    // The browser must contact this server only.
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Ledger API',
      withDefaultFonts: false,
      telemetry: false,
      hideClientButton: true,
      showDeveloperTools: 'never',
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  });
  await docs.ready();
  const page = async (path: string): Promise<[string, Page]> => {
    const { statusCode, headers, rawPayload } = await docs.inject({ method: 'GET', url: path });
    const isPage = headers['content-type']?.startsWith('text/html') === true;
    return [path, { statusCode, headers, rawPayload, policy: policyOf(isPage ? rawPayload.toString() : '') }];
  };
  return new Map(await Promise.all(paths.map(page)));
}

// The page asks for credentials: only its own scripts, only this server, no frames. It needs inline styles, and works without `eval`.
function policyOf(page: string): string {
  const inline = [...page.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([^]*?)<\/script>/g)].map(([, script = '']) => script);
  return [
    `default-src 'none'`,
    ['script-src', `'self'`, ...inline.map((script) => `'sha256-${hash('sha256', script, 'base64')}'`)].join(' '),
    `style-src 'self' 'unsafe-inline'`,
    `img-src 'self' data:`,
    `font-src 'self' data:`,
    `connect-src 'self'`,
    `frame-ancestors 'none'`,
    `base-uri 'none'`,
    `form-action 'none'`,
  ].join('; ');
}

const openapiDoc = {
  id: 'getOpenApi',
  tag: 'Operations',
  summary: 'This document',
  answers: {
    200: { description: 'OpenAPI 3.1', schema: { type: 'object' }, example: { openapi: '3.1.0' }, unwrappedType: 'application/json' },
  },
};

// Fastify's types promise both, but routes may have neither.
function configOf(route: { config?: FastifyContextConfig }): FastifyContextConfig {
  return route.config ?? {};
}

function schemaOf(route: { schema?: FastifySchema }): { body?: Record<string, unknown>; querystring?: unknown } {
  return (route.schema ?? {}) as { body?: Record<string, unknown> };
}

/** Moves a parameter's example out of its schema. */
function withExample(parameter: Parameter, doc: Doc): object {
  const { example, ...schema } = published(parameter.schema) as Record<string, unknown>;
  return parameterDoc({ ...parameter, schema, example }, doc);
}
