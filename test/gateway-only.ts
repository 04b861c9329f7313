// A real gateway process without services.
import { connect } from 'node:net';
import { newChildren, testPort } from './cluster.ts';
import { root } from '../deploy/local/plan.ts';
import { bareEnvironment, nodeWith } from './run.ts';

/** A gateway without services. */
export interface GatewayOnly {
  url: string;
  port: number;
  pid: number;
  /** What it has logged. */
  output(): string;
  /** Sends bytes; resolves to all that is received until the gateway closes or `enough` is true. */
  raw(text: string | Buffer, enough?: (received: string) => boolean): Promise<string>;
  /** Stops it; resolves to the names of processes that had to be killed. */
  stop(): Promise<string[]>;
}

/** Starts a gateway whose services, unless the environment has addresses, are at unused ports; `descriptors`: limit of open files. */
export async function startGatewayOnly(environment: NodeJS.ProcessEnv = {}, descriptors?: number): Promise<GatewayOnly> {
  const children = newChildren();
  const port = await testPort();
  const child = children.start({
    name: 'gateway',
    ...nodeWith(descriptors, ['gateway/main.ts']),
    cwd: root,
    env: {
      ...bareEnvironment,
      PORT: String(port),
      INTERNAL_TOKEN: 'token',
      IDENTITY_ADDR: `127.0.0.1:${await testPort()}`,
      LEDGER_ADDR: `127.0.0.1:${await testPort()}`,
      NOTIFIER_ADDR: `127.0.0.1:${await testPort()}`,
      AUDITOR_ADDR: `127.0.0.1:${await testPort()}`,
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
    output: () => child.output(),
    raw: (text, enough = () => false) =>
      new Promise((resolve, reject) => {
        let received = '';
        const socket = connect(port, '127.0.0.1', () => socket.write(text));
        socket.on('data', (chunk) => {
          received += chunk.toString('latin1');
          if (enough(received)) socket.end();
        });
        socket.on('close', () => resolve(received));
        socket.on('error', reject);
      }),
    stop: () => children.end(),
  };
}

/** The last answer of what {@link GatewayOnly.raw} has received; `head` in lower case. */
export function lastAnswer(received: string): { status: number; head: string; body: any } {
  const [head = '', body = ''] = received.slice(received.lastIndexOf('HTTP/1.1 ')).split('\r\n\r\n');
  return { status: Number(head.slice(9, 12)), head: head.toLowerCase(), body: body === '' ? undefined : JSON.parse(body) };
}
