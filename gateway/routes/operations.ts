// Operations routes: health, readiness, metrics, and the public keys of tokens.
import type { Registry } from 'prom-client';
import { metricsText, readinessBody, type Readiness } from '../../services/platform/health.ts';
import { version } from '../../services/platform/version.ts';
import type { Answer } from '../openapi-route.ts';
import { record } from '../records.ts';
import type { App } from '../request-context.ts';
import type { TokenVerifier } from '../tokens.ts';
import { json } from '../mapping.ts';

const healthSchema = record({ status: { type: 'string', const: 'ok' }, version: { type: 'string' } });

const readinessSchema = record({
  status: { type: 'string', enum: ['ok', 'degraded', 'unavailable'] },
  dependencies: { type: 'object', additionalProperties: { type: 'string' } },
});

/** An answer without the envelope. */
function bare(description: string, schema: object, example: unknown, more: Partial<Answer> = {}): Answer {
  return { description, schema, example, unwrappedType: 'application/json', ...more };
}

const name = 'Readiness';
const ready = { status: 'ok', dependencies: { identity: 'ok', ledger: 'ok', notifier: 'ok', auditor: 'ok' } };
const unready = { status: 'unavailable', dependencies: { ...ready.dependencies, ledger: 'not serving' } };
const exampleKey = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', kid: 'k1', alg: 'EdDSA', use: 'sig' };

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
          answers: { 200: bare('It runs', healthSchema, { status: 'ok', version: '1.0.0' }) },
        },
      },
    },
    () => ({ status: 'ok', version }),
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
            200: bare('They can; `degraded`: another dependency is not available', readinessSchema, ready, { name }),
            503: bare('Postings cannot be answered', readinessSchema, unready, { name, headers: ['Retry-After'] }),
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
          answers: { 200: bare('Metrics', { type: 'string' }, 'http_requests_in_flight 1\n', { unwrappedType: 'text/plain' }) },
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
            200: bare('A JSON Web Key Set (RFC 7517)', record({ keys: { type: 'array', items: { type: 'object' } } }), {
              keys: [exampleKey],
            }),
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
