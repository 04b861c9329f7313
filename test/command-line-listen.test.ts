// `ledger listen` and `ledger tail` of the installed command line: no event is lost, whatever is killed.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { installCommandLine, type CommandLine } from './command-line.ts';
import type { Cluster } from './cluster.ts';
import { newWallet, type Customer } from './customer.ts';
import { startReceiver, type Answering, type Received, type Receiver } from './notifier.ts';
import { until } from './polling.ts';
import { openProxy } from './proxy.ts';
import { sharedCluster } from './shared-cluster.ts';

jest.setTimeout(120_000);

let cluster: Cluster;
let commands: CommandLine;
const receivers: Receiver[] = [];

beforeAll(async () => {
  cluster = await sharedCluster();
  commands = installCommandLine();
});

afterAll(async () => {
  for (const each of receivers) await each.close().catch(() => undefined);
});

async function receiver(answer?: Answering, port?: number): Promise<Receiver> {
  const opened = await startReceiver(answer, undefined, port);
  receivers.push(opened);
  return opened;
}

const environmentOf = ({ tenant, key }: Customer) =>
  commands.environment({ LEDGER_URL: cluster.url, LEDGER_TENANT: tenant.slug, LEDGER_API_KEY: key });

/** Posts so many transactions. */
async function post(customer: Customer, count: number): Promise<void> {
  const entry = (account_code: string, side: string) => ({ account_code, side, amount: '1.00', currency: 'USD' });
  for (let index = 0; index < count; index += 1) {
    const answer = await customer.post('transactions/double-entry', {
      entries: [entry('SETTLEMENT-USD', 'debit'), entry('CUSTOMER-WALLETS-USD', 'credit')],
    });
    expect(answer.status).toBe(201);
  }
}

const idsOf = (received: Received[]) => received.map(({ headers }) => headers['x-webhook-id']);

async function logAfter(customer: Customer, sequence: number): Promise<any[]> {
  return (await customer.get(`events?after_sequence=${sequence}&limit=100`)).events;
}

const has = (output: () => string, text: string | RegExp) =>
  until(
    async () => output(),
    (all) => all.search(text) >= 0,
  );

test('listen delivers each event as the service does, goes on where it was killed, and waits for a receiver that is away', async () => {
  const customer = await newWallet(cluster);
  const env = environmentOf(customer);
  const secret = (await commands.run(['listen', '--print-secret'], { env })).out.trim();
  const { sequence } = (await logAfter(customer, 0)).at(-1);
  const first = await receiver();
  const words = ['listen', '--forward-to', `${first.url}?from=ledger`, '--after', String(sequence)];
  const before = commands.start(words, env);
  await has(before.err, 'Forwarding events');
  await post(customer, 3);
  await first.count(3);
  before.child.kill('SIGKILL');
  await before.ended;
  await post(customer, 3);
  // Without --after it goes on, whatever was posted meanwhile.
  const after = commands.start(words.slice(0, 3), env);
  await until(
    async () => new Set(idsOf(first.received)).size,
    (count) => count === 6,
  );
  await first.close();
  await post(customer, 1);
  await has(after.out, 'no answer');
  const log = await logAfter(customer, sequence);
  const again = await receiver(undefined, Number(new URL(first.url).port));
  await until(async () => idsOf(again.received).includes(log.at(-1).id), Boolean);
  after.child.kill('SIGINT');
  expect(await after.ended).toBe(0);
  const received = [...first.received, ...again.received];
  expect([...new Set(idsOf(received))]).toEqual(log.map(({ id }) => id));
  for (const { headers, body, path } of received) {
    const event: any = new Webhook(secret).verify(body, headers as Record<string, string>);
    expect([path, event.livemode, headers['x-webhook-event'], Object.keys(event.data.lines[0])]).toEqual([
      '/hook?from=ledger',
      true,
      'transaction.posted',
      ['account_id', 'account_code', 'amount', 'side', 'currency'],
    ]);
  }
  // Its secret and its position; a kill may leave a draft of them.
  expect(readdirSync(env['LEDGER_CONFIG_DIR']!).filter((name) => /^listen-.*\.json$/.test(name))).toHaveLength(2);
});

test('events that share a sequence come once each, by login too, and the body is the service’s own', async () => {
  const customer = await newWallet(cluster);
  const env = commands.environment({ LEDGER_URL: cluster.url, LEDGER_TENANT: customer.tenant.slug });
  const { email, password } = customer.tenant.owner;
  await commands.run(['login', '--email', email, '--password-file', '-'], { env, input: password });
  const service = await receiver();
  const events = ['transaction.posted', 'balance.updated', 'account.created'];
  expect((await customer.post('webhooks', { url: service.url, events })).status).toBe(201);
  const own = await receiver();
  const listening = commands.start(['listen', '--forward-to', own.url, '--type', ...events], env);
  await has(listening.err, 'Forwarding events');
  await post(customer, 2);
  await customer.post('accounts', { account_code: 'SAFE', name: 'Safe', type: 'asset' });
  await Promise.all([service.count(7), own.count(7)]);
  listening.child.kill('SIGTERM');
  const bodies = (received: Received[]) => new Map(received.map(({ headers, body }) => [headers['x-webhook-id'], JSON.parse(body)]));
  expect(bodies(own.received)).toEqual(bodies(service.received));
  expect(own.received).toHaveLength(7);
});

test('an event that the receiver refuses is sent three times, reported, and sent again by --resend', async () => {
  const customer = await newWallet(cluster);
  const env = environmentOf(customer);
  let status = 500;
  const refusing = await receiver((_, response) => response.writeHead(status).end());
  const listening = commands.start(['listen', '--forward-to', refusing.url], env);
  await has(listening.err, 'Forwarding events');
  await post(customer, 1);
  await has(listening.err, /evt_\w+ was not taken/);
  expect(refusing.received.map(({ headers }) => headers['x-webhook-attempt'])).toEqual(['1', '2', '3']);
  listening.child.kill('SIGINT');
  await listening.ended;
  const id = String(idsOf(refusing.received)[0]);
  const resend = () => commands.run(['listen', '--forward-to', refusing.url, '--resend', id], { env });
  expect(await resend()).toMatchObject({ code: 1, err: expect.stringContaining('500') });
  status = 204;
  expect(await resend()).toMatchObject({ code: 0 });
  expect(await commands.run(['listen', '--forward-to', refusing.url, '--resend', id.replace(/.$/, '0')], { env })).toMatchObject({
    code: 4,
  });
});

test('tail prints events as they happen, goes on after a break, and begins where it is told', async () => {
  const customer = await newWallet(cluster);
  const proxy = await openProxy(Number(new URL(cluster.url).port));
  const env = { ...environmentOf(customer), LEDGER_URL: `http://127.0.0.1:${proxy.port}` };
  const tailing = commands.start(['tail', '--json', '--account', 'CUSTOMER-WALLETS-USD'], env);
  await has(tailing.err, 'Following');
  const sequences = () =>
    tailing
      .out()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).sequence as number);
  await post(customer, 2);
  await until(
    async () => sequences(),
    (all) => all.length === 2,
  );
  proxy.cut();
  await post(customer, 2);
  await customer.post('accounts', { account_code: 'SAFE', name: 'Safe', type: 'asset' });
  await until(
    async () => sequences(),
    (all) => all.length === 4,
  );
  tailing.child.kill('SIGINT');
  expect(await tailing.ended).toBe(0);
  await proxy.close();
  const [start = 0] = sequences();
  expect(sequences()).toEqual([start, start + 1, start + 2, start + 3]);
  const since = commands.start(['tail', '--since', '1h'], environmentOf(customer));
  await has(since.out, new RegExp(`  ${start + 3}  transaction.posted  1.00 USD  SETTLEMENT-USD CUSTOMER-WALLETS-USD`));
  since.child.kill('SIGINT');
  await since.ended;
  expect(since.out()).toMatch(/ 1 {2}account\.created/);
});

test('listen and tail end where their key has ended, and listen where the log is another one than before', async () => {
  const customer = await newWallet(cluster);
  const env = environmentOf(customer);
  const { url } = await receiver();
  const listening = ['listen', '--forward-to', url];
  const first = commands.start(listening, env);
  await has(first.err, 'Forwarding');
  first.child.kill('SIGINT');
  await first.ended;
  const [position = ''] = readdirSync(env['LEDGER_CONFIG_DIR']!).filter((name) => /^listen-[0-9a-f]/.test(name));
  writeFileSync(join(env['LEDGER_CONFIG_DIR']!, position), '{"sequence":99999,"delivered":[]}');
  expect(await commands.run(listening, { env })).toMatchObject({ code: 1, err: expect.stringContaining('it is another log\n') });
  const tailing = commands.start(['tail'], env);
  await has(tailing.err, 'Following');
  const [{ tenant }, keys] = [customer, `/v1/tenants/${customer.tenant.id}/api-keys`];
  for (const { id } of (await cluster.rest('GET', keys, { key: tenant.owner.token })).body.data.api_keys)
    await cluster.rest('DELETE', `${keys}/${id}`, { key: tenant.owner.token });
  expect(await tailing.ended).toBe(3);
  expect(tailing.err()).toContain('the API key of LEDGER_API_KEY was refused');
});
