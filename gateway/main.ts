// The gateway as a process: `node gateway/main.ts`. What it consists of is loaded when signals are heard: loading takes up to seconds on a busy machine,
// and the first process of a container does not even end by a signal that it does not listen to.
import { run } from '../services/platform/lifetime.ts';
import { Settings } from '../services/platform/settings.ts';

await run(async (lifetime) => (await import('./serving.ts')).serveGateway(new Settings(process.env), lifetime));
