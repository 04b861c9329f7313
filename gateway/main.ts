// The gateway's process: `node gateway/main.ts`.
import { run } from '../services/platform/lifetime.ts';
import { Settings } from '../services/platform/settings.ts';

// Loaded when signals are handled: loading takes seconds on a busy machine.
await run(async (lifetime) => (await import('./serving.ts')).serveGateway(new Settings(process.env), lifetime));
