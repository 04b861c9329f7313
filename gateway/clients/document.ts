// The OpenAPI document, without a server or services: client generators read it.
import { Registry } from 'prom-client';
import { openLog } from '../../services/platform/telemetry.ts';
import { buildApp } from '../app.ts';
import { registerRoutes } from '../routes/all.ts';

/** The document as `GET /openapi.json` answers it. */
export async function openApiDocument(): Promise<Record<string, unknown>> {
  const app = await buildApp({
    authenticators: {} as never,
    // Routes are registered, none is called.
    routes: (registered) => registerRoutes(registered, { publicUrl: '', corsOrigins: [] } as never),
    logger: openLog('generate', 'silent'),
    metrics: new Registry(),
    trustProxy: [],
    corsOrigins: [],
    maxInFlight: 1,
    maxConnections: 1,
    idleCloseMs: 0,
  });
  await app.ready();
  const document = app.swagger() as unknown as Record<string, unknown>;

  return document;
}
