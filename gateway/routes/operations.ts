// Operations routes: health, readiness, metrics, and the public keys of tokens.
import type { Registry } from 'prom-client';
import { metricsText, readinessBody, type Readiness } from '../../services/platform/health.ts';
import type { Answer } from '../openapi.ts';
import { record } from '../records.ts';
import type { App } from '../request-context.ts';
import type { TokenVerifier } from '../tokens.ts';
import { json } from '../mapping.ts';

const readiness = {
  name: 'ReadinessResponse',
  schema: record({
    status: { type: 'string', enum: ['ok', 'degraded', 'unavailable'] },
    dependencies: { type: 'object', additionalProperties: { type: 'string' } },
  }),
};
const unready: Answer = {
  description: 'Postings cannot be answered',
  ...readiness,
  example: { status: 'unavailable', dependencies: { identity: 'ok', ledger: 'not serving', notifier: 'ok' } },
  headers: ['Retry-After'],
  unwrappedType: 'application/json',
};

/** What these routes report. */
export interface Operations {
  readiness: () => Promise<Readiness>;
  metrics: Registry;
  tokens: TokenVerifier;
}

/** `/healthz`, `/readyz`, `/metrics`, `/.well-known/jwks.json`. */
export function operationRoutes(app: App, { readiness: ask, metrics, tokens }: Operations): void {
  const readMetrics = metricsText(metrics);
  app.get(
    '/healthz',
    {
      config: {
        doc: {
          id: 'getHealth',
          tag: 'Operations',
          summary: 'Check whether the process runs',
          answers: {
            200: {
              description: 'It runs',
              schema: record({ status: { type: 'string', const: 'ok' } }),
              example: { status: 'ok' },
              unwrappedType: 'application/json',
            },
          },
        },
      },
    },
    () => ({ status: 'ok' }),
  );

  app.get(
    '/readyz',
    {
      config: {
        doc: {
          id: 'getReadiness',
          tag: 'Operations',
          summary: 'Check whether postings can be answered',
          answers: {
            200: {
              description: 'They can; `degraded`: another dependency is not available',
              ...readiness,
              example: { status: 'ok', dependencies: { identity: 'ok', ledger: 'ok', notifier: 'ok' } },
              unwrappedType: 'application/json',
            },
            503: unready,
          },
        },
      },
    },
    async (_request, reply) => {
      const state = await ask();
      reply.code(state.ready ? 200 : 503).header('content-type', json);
      if (!state.ready) reply.header('retry-after', '1');
      return readinessBody(state);
    },
  );

  app.get(
    '/metrics',
    {
      config: {
        doc: {
          id: 'getMetrics',
          tag: 'Operations',
          summary: 'Metrics for Prometheus',
          answers: {
            200: {
              description: 'Metrics',
              schema: { type: 'string' },
              example: 'http_requests_in_flight 1\n',
              unwrappedType: 'text/plain',
            },
          },
          errors: ['overloaded'],
        },
      },
    },
    async (_request, reply) => {
      reply.header('content-type', metrics.contentType);
      return readMetrics();
    },
  );

  app.get(
    '/.well-known/jwks.json',
    {
      config: {
        doc: {
          id: 'getKeySet',
          tag: 'Operations',
          summary: 'The public keys that verify access tokens',
          answers: {
            200: {
              description: 'A JSON Web Key Set (RFC 7517)',
              schema: record({ keys: { type: 'array', items: { type: 'object' } } }),
              example: {
                keys: [
                  { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', kid: 'k1', alg: 'EdDSA', use: 'sig' },
                ],
              },
              unwrappedType: 'application/json',
            },
          },
          errors: ['overloaded', 'unavailable'],
        },
      },
    },
    async (_request, reply) => {
      const keys = await tokens.keySet();
      reply.header('content-type', json).header('cache-control', 'public, max-age=300');
      return keys;
    },
  );
}
