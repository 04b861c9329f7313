// The receivers of each language, installed as their files say, take deliveries of a real notifier: once each, and no false ones.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../../deploy/local/plan.ts';
import { standardSignature } from '../../../services/notifier/webhook.ts';
import { newChildren, testPort } from '../../../test/cluster.ts';
import { newTenant, settled, startNotifier, startReceiver, until, type Received, type RunningNotifier } from '../../../test/notifier.ts';
import { currentRun } from '../../../test/run.ts';

const directory = mkdtempSync(join(currentRun().directory, 'receivers-'));
const children = newChildren();
const secrets = { 'a generated secret': 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'a secret of your own': "It's a Secret to Everybody" };
let notifier: RunningNotifier;

beforeAll(async () => {
  notifier = await startNotifier({ config: { retryDelays: [] } });
});

afterAll(async () => {
  await children.end();
  await notifier.end();
  rmSync(directory, { recursive: true, force: true });
});

interface Language {
  file: string;
  /** Makes it ready to run and answers how; undefined where its tools or packages can't be had here. */
  ready: (folder: string) => [command: string, ...args: string[]] | undefined;
}

const isInstalled = (program: string) => spawnSync(program, ['version']).error === undefined;
const isDone = (program: string, args: string[], cwd: string) => spawnSync(program, args, { cwd, timeout: 540_000 }).status === 0;

const languages: Record<string, Language> = {
  node: {
    file: 'receiver.mjs',
    ready: (folder) => {
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
      return [process.execPath, 'receiver.mjs'];
    },
  },
  python: {
    file: 'receiver.py',
    ready: (folder) => {
      if (!isInstalled('python3') || !isDone('python3', ['-m', 'venv', 'venv'], folder)) return undefined;
      const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', 'requirements.txt'];
      return isDone('venv/bin/python', pip, folder) ? ['venv/bin/python', 'receiver.py'] : undefined;
    },
  },
  go: {
    file: 'main.go',
    ready: (folder) =>
      isInstalled('go') && isDone('go', ['build', '-o', 'receiver', '.'], folder) ? [join(folder, 'receiver')] : undefined,
  },
};

/** Starts one of them; answers its address and its output. */
async function run(name: string, [command = '', ...args]: string[], secret: string, database: string) {
  const folder = join(directory, name);
  const port = await testPort();
  const url = `http://127.0.0.1:${port}/hook`;
  const env = { PATH: process.env['PATH'], WEBHOOK_SECRET: secret, PORT: String(port), DATABASE: database };
  const child = children.start({ name: `${name}-${port}`, command, args, cwd: folder, env });
  await until(async () => {
    if (!child.running()) throw new Error(`the receiver has ended: ${child.output()}`);
    const answer = await fetch(url, { method: 'POST', body: '{}' }).catch(() => null);
    return answer?.status === 401;
  });
  return {
    url,
    child,
    lines: () =>
      child
        .output()
        .split('\n')
        .filter((line) => /^(test |transaction)/.test(line)),
  };
}

/** Hands a delivery on; answers the status. */
async function handOn(url: string, { headers, body }: Received): Promise<number> {
  const sent = Object.entries(headers).filter(([name]) => name.startsWith('webhook-')) as [string, string][];
  return (await fetch(url, { method: 'POST', headers: sent, body })).status;
}

cpSync(import.meta.dirname, directory, { recursive: true });

describe.each(Object.entries(languages))('the receiver in %s', (name, { file, ready }) => {
  const [program, ...args] = ready(join(directory, name)) ?? [];
  test('has at most 60 lines', () => {
    expect(
      readFileSync(join(import.meta.dirname, name, file), 'utf8')
        .trimEnd()
        .split('\n').length,
    ).toBeLessThanOrEqual(60);
  });

  (program === undefined ? test.skip : test).each(Object.entries(secrets))(
    `with %s it handles each event once, also after a restart, and refuses what is old or changed (${name})`,
    async (kind, secret) => {
      const database = join(directory, `${name}-${kind}.sqlite`);
      const first = await run(name, [program ?? '', ...args], secret, database);

      const { tenantId, posting } = newTenant();
      const event = posting();
      await notifier.client.configureWebhook({ tenantId, url: first.url, secret, events: ['transaction.posted'] });
      await notifier.client.ingest({ events: [event] });
      const [delivery] = await settled(notifier.client, tenantId, 1);
      expect(delivery).toMatchObject({ status: 'delivered' });
      const tested = await notifier.client.testWebhook({ tenantId, eventType: 'transaction.posted' });
      expect(tested.delivery?.status).toBe('delivered');
      await until(() => Promise.resolve(first.lines().length === 2));
      expect(first.lines()).toEqual([`transaction.posted ${event.id}`, expect.stringMatching(/^test transaction.posted evt_/)]);

      // What another event's delivery looks like, before and after it was changed on its way.
      const kept: Received[] = [];
      const between = await startReceiver((received, response) => {
        kept.push(received);
        response.end();
      });
      const other = newTenant();
      const next = other.posting();
      await notifier.client.configureWebhook({ tenantId: other.tenantId, url: between.url, secret, events: ['transaction.posted'] });
      await notifier.client.ingest({ events: [next] });
      await settled(notifier.client, other.tenantId, 1);
      await between.close();
      const real = kept[0]!;
      const old = Math.floor(Date.now() / 1000) - 400;
      const oldSignature = standardSignature(secret, { id: next.id, timestamp: old, body: real.body });
      for (const wrong of [
        { ...real, body: real.body.replace('"10.00"', '"99.00"') },
        { ...real, headers: { ...real.headers, 'webhook-timestamp': String(old), 'webhook-signature': oldSignature } },
        { ...real, headers: { ...real.headers, 'webhook-id': event.id } },
        { ...real, headers: {} },
      ])
        expect(await handOn(first.url, wrong)).toBe(401);
      expect(first.lines()).toHaveLength(2);
      for (let time = 0; time < 3; time += 1) expect(await handOn(first.url, real)).toBeLessThan(205);
      await until(() => Promise.resolve(first.lines().length === 3));
      await first.child.end();

      const second = await run(name, [program ?? '', ...args], secret, database);
      expect(await handOn(second.url, real)).toBeLessThan(205);
      expect(first.lines()).toEqual([...first.lines().slice(0, 2), `transaction.posted ${next.id}`]);
      expect(second.lines()).toEqual([]);
    },
  );
});
