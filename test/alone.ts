// The gateway by itself: a real process whose services are away.
import { newChildren, testPort } from './house.ts';
import { root } from '../deploy/local/plan.ts';

/** A gateway without services. */
export interface Alone {
  url: string;
  port: number;
  pid: number;
  /** Ends it in good order; answers the names of those that had to be killed. */
  stop(): Promise<string[]>;
}

/** Starts a gateway whose services are at these addresses, by default at ports where nobody listens. */
export async function startAlone(environment: NodeJS.ProcessEnv = {}): Promise<Alone> {
  const children = newChildren();
  const port = await testPort();
  const child = children.start({
    name: 'gateway',
    command: process.execPath,
    args: ['gateway/main.ts'],
    cwd: root,
    env: {
      PATH: process.env['PATH'],
      PORT: String(port),
      INTERNAL_TOKEN: 'token',
      IDENTITY_ADDR: `127.0.0.1:${await testPort()}`,
      LEDGER_ADDR: `127.0.0.1:${await testPort()}`,
      NOTIFIER_ADDR: `127.0.0.1:${await testPort()}`,
      ...environment,
    },
  });
  const url = `http://127.0.0.1:${port}`;
  for (const until = Date.now() + 45_000; ; await new Promise((done) => setTimeout(done, 30))) {
    const answer = await fetch(`${url}/healthz`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok === true) break;
    if (!child.running() || Date.now() > until) throw new Error(`the gateway does not start: ${child.output()}`);
  }
  return {
    url,
    port,
    pid: child.pid,
    stop: () => children.end(),
  };
}
