// The receivers of the guide run as written, against a real notifier.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../deploy/local/plan.ts';
import { standardSignature } from '../services/notifier/webhook.ts';
import { newChildren, testPort } from './cluster.ts';
import { newTenant, settled, startNotifier, startReceiver, until, type Received, type RunningNotifier } from './notifier.ts';
import { currentRun } from './run.ts';

const page = readFileSync(join(root, 'gateway/docs/how-to/verify-signatures.md'), 'utf8');
const directory = mkdtempSync(join(currentRun().directory, 'receivers-'));
const children = newChildren();
let notifier: RunningNotifier;

beforeAll(async () => {
  notifier = await startNotifier({ config: { retryDelays: [] } });
});

afterAll(async () => {
  await children.end();
  await notifier.end();
});

/** The only code block of a language on the page. */
function program(language: string): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code);
  expect(blocks).toHaveLength(1);
  return blocks[0]!;
}

/** Runs one of the programs until the file's tests are over. */
async function run(language: string, command: string, file: string, secret: string): Promise<{ url: string; output: () => string }> {
  const path = join(directory, file);
  writeFileSync(path, program(language));
  const port = await testPort();
  const url = `http://127.0.0.1:${port}/hook`;
  const env = { PATH: process.env['PATH'], WEBHOOK_SECRET: secret, PORT: String(port) };
  const child = children.start({ name: `${language}-${port}`, command, args: [path], cwd: directory, env });
  await until(async () => {
    if (!child.running()) throw new Error(`the receiver has ended: ${child.output()}`);
    const answer = await fetch(url, { method: 'POST', body: '{}' }).catch(() => null);
    return answer?.status === 401;
  });
  return { url, output: () => child.output() };
}

/** A tenant's event, delivered to this address; answers what became of it. */
async function deliver(url: string, secret: string) {
  const { tenantId, posting } = newTenant();
  await notifier.client.configureWebhook({ tenantId, url, secret, events: ['transaction.posted'] });
  const event = posting();
  await notifier.client.ingest({ events: [event] });
  const [delivery] = await settled(notifier.client, tenantId, 1);
  return { ...delivery!, event: event.id };
}

/** Hands a delivery on to a receiver; answers its status. */
async function handOn(url: string, { headers, body }: Received): Promise<number> {
  const sent = Object.entries(headers).filter(([name]) => name.startsWith('x-webhook-') || name.startsWith('webhook-'));
  return (await fetch(url, { method: 'POST', headers: sent as [string, string][], body })).status;
}

describe.each([
  ['js', 'node', process.execPath, 'receiver.mjs'],
  ['python', 'python3', 'python3', 'receiver.py'],
])('the receiver in %s', (language, name, command, file) => {
  const present = spawnSync(command, ['--version']).error === undefined;
  const testHere = (title: string, body: () => Promise<void>) => (present ? test : test.skip)(`${title} (${name})`, body);

  test('is short', () => {
    expect(program(language).trimEnd().split('\n').length).toBeLessThanOrEqual(35);
  });

  for (const [kind, secret] of [
    ['a generated secret', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    ['any other secret', "It's a Secret to Everybody"],
    ['one that only begins like a generated one', 'whsec_this is no base64'],
    ['one whose base64 has bits that no encoder leaves', 'whsec_MfKQ9r8GKYqrTwjUPD8ILR=='],
  ] as const) {
    testHere(`takes deliveries signed with ${kind} once, and refuses others`, async () => {
      const { url, output } = await run(language, command, file, secret);
      const right = await deliver(url, secret);
      expect(right).toMatchObject({ status: 'delivered', statusCode: 204 });
      expect(output()).toContain(`transaction.posted ${right.event}`);
      expect(await deliver(url, 'another secret of 25 characters')).toMatchObject({ status: 'failed', statusCode: 401 });

      const kept: Received[] = [];
      const between = await startReceiver((delivery, response) => {
        kept.push(delivery);
        void handOn(url, { ...delivery, body: delivery.body.replace('"10.00"', '"99.00"') }).then((status) =>
          response.writeHead(status).end(),
        );
      });
      const tampered = await deliver(between.url, secret);
      await between.close();
      expect(tampered).toMatchObject({ status: 'failed', statusCode: 401 });
      expect(output()).not.toContain(tampered.event);

      const delivery = kept[0]!;
      expect(delivery.body).toContain('"10.00"');
      const at = (timestamp: number) => ({
        'webhook-timestamp': String(timestamp),
        'webhook-signature': standardSignature(secret, { id: tampered.event, timestamp, body: delivery.body }),
      });
      const now = Math.floor(Date.now() / 1000);
      for (const wrong of [
        { 'x-webhook-signature': undefined },
        { 'x-webhook-signature': 'sha256=é' },
        { 'webhook-signature': undefined },
        { 'webhook-signature': 'v1,é' },
        { 'webhook-timestamp': undefined },
        { 'webhook-timestamp': String(Number(delivery.headers['webhook-timestamp']) - 1) },
        { 'webhook-id': right.event },
        at(now - 400),
        at(now + 400),
      ]) {
        const headers = Object.fromEntries(Object.entries({ ...delivery.headers, ...wrong }).filter(([, value]) => value !== undefined));
        expect(await handOn(url, { ...delivery, headers })).toBe(401);
      }

      // As in the overlap of a rotation, another secret's signature comes first.
      const overlap = { ...delivery.headers, 'webhook-signature': `v1,AAAA ${String(delivery.headers['webhook-signature'])}` };
      for (const headers of [overlap, delivery.headers]) expect(await handOn(url, { ...delivery, headers })).toBe(204);
      expect(output().split(tampered.event)).toHaveLength(2);
    });
  }
});
