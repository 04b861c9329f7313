// `npm run proof -- grpc`: every gRPC method with mutated messages. None may answer INTERNAL or UNKNOWN, and afterwards the cluster works.
import { create, fromBinary, toBinary, type Message } from '@bufbuild/protobuf';
import { Client, Metadata, credentials, status, type ServiceError } from '@grpc/grpc-js';
import type { PostTransactionsResponse } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { Server } from '../../deploy/local/plan.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { makeMessages, pathOf, type MethodMessage } from './grpc-messages.ts';
import { mutateFields } from './grpc-mutation.ts';
import { ledgerFaults } from './ledger-check.ts';
import { judge } from './load-state.ts';
import { seededRandom } from './seeded-random.ts';
import type { Task } from './task.ts';

/** Calls at once. */
const callers = 8;
const deadlineMs = 20_000;
const maxFaults = 20;

/** No message may cause these. */
const forbidden = new Set([status.UNKNOWN, status.INTERNAL, status.UNAVAILABLE, status.DATA_LOSS, status.UNIMPLEMENTED]);

/** Runs a proof; each method is called at least once. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const quota = { WEBHOOK_CONFIG_PER_MINUTE: '10000', WEBHOOK_RETRIES_PER_HOUR: '10000', WEBHOOK_TESTS_PER_HOUR: '10000' };
  const cluster = await startCluster({ environment: { notifier: { ...quota, WEBHOOK_TIMEOUT: '2', WEBHOOK_RETRY_DELAYS: '1,1' } } });
  const clients = Object.fromEntries(
    Object.entries(cluster.addresses).map(([name, [address = '']]) => [name, new Client(address, credentials.createInsecure())]),
  ) as Record<Server, Client>;
  try {
    const messages = await makeMessages(cluster);
    const known = [...new Set(messages.flatMap(({ init }) => textsOf(init)))];
    const counts = new Map<string, number>();
    const faults: string[] = [];
    const until = performance.now() + minutes * 60_000;
    let calls = 0;
    const work = async () => {
      while ((performance.now() < until || calls < messages.length) && faults.length < maxFaults) {
        const number = calls++;
        const message = messages[number % messages.length]!;
        const bytes = mutated(message, known, seed, number);
        // Some calls come without the internal token.
        const isAuthorized = number % 33 !== 0;
        const ended = await call(clients[message.service], pathOf(message.method), bytes, isAuthorized ? cluster.internalToken : undefined);
        counts.set(status[ended.code], (counts.get(status[ended.code]) ?? 0) + 1);
        const hex = Buffer.from(bytes.subarray(0, 2_000)).toString('hex');
        for (const what of faultsOf(message, ended, isAuthorized))
          faults.push(`call ${number}, ${pathOf(message.method)}: ${what}; sent ${hex}`);
      }
    };
    await Promise.all(Array.from({ length: callers }, work));
    say(`${calls} calls of ${messages.length} methods: ${[...counts].map(([code, count]) => `${code} ${count}`).join(', ')}`);
    faults.push(...(await newTenantFaults(cluster)), ...(await ledgerFaults(cluster)), ...loggedFaults(cluster));
    return judge(faults, say);
  } finally {
    Object.values(clients).forEach((client) => client.close());
    await cluster.stop();
  }
}

function mutated({ method: { input }, init }: MethodMessage, known: string[], seed: number, number: number): Uint8Array {
  const random = seededRandom(seed, number);
  const message: Message = create(input, structuredClone(init) as never);
  if (random.happens(0.8)) mutateFields(random, input, message, known);
  return toBinary(input, message);
}

interface Ended {
  code: status;
  details: string;
  answer?: Buffer | undefined;
}

function call(client: Client, path: string, bytes: Uint8Array, token: string | undefined): Promise<Ended> {
  return new Promise((resolve) => {
    const metadata = new Metadata();
    if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
    const asIs = (data: Uint8Array) => Buffer.from(data);
    // The answer of a unary method is a stream of one message.
    const answers = client.makeServerStreamRequest(path, asIs, (data: Buffer) => data, bytes, metadata, {
      deadline: Date.now() + deadlineMs,
    });
    let answer: Buffer | undefined;
    answers.on('data', (message: Buffer) => (answer = message));
    answers.on('error', (error: ServiceError) => resolve({ code: error.code, details: error.details }));
    answers.on('end', () => resolve({ code: status.OK, details: '', answer }));
  });
}

function faultsOf({ method }: MethodMessage, { code, details, answer }: Ended, isAuthorized: boolean): string[] {
  // A posting may ask for a deadline of a millisecond.
  const isLate = details.startsWith('the posting waited too long');
  if (forbidden.has(code) && !isLate) return [`${status[code]} ${details}`];
  if (!isAuthorized && code !== status.UNAUTHENTICATED) return [`${status[code]} without the internal token`];
  if (!answer) return [];
  try {
    const message = fromBinary(method.output, answer);
    if (message.$typeName !== 'ledger.v1.PostTransactionsResponse') return [];
    return (message as PostTransactionsResponse).results.flatMap(({ outcome }) =>
      outcome.case === 'refusal' && outcome.value.reason === 'internal' ? ['an item is refused as internal'] : [],
    );
  } catch (error) {
    return [`an answer that cannot be parsed: ${(error as Error).message}`];
  }
}

function loggedFaults(cluster: Cluster): string[] {
  return Object.keys(cluster.addresses).flatMap((name) => {
    const failed = cluster
      .logs(name)
      .split('\n')
      .filter((line) => line.includes('"msg":"call failed"'));
    return failed.slice(0, 10).map((line) => `${name}: ${line.slice(0, 2_000)}`);
  });
}

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

/** Whether a new tenant can still post and read. */
async function newTenantFaults(cluster: Cluster): Promise<string[]> {
  const tenant = await cluster.tenant();
  const key = await cluster.apiKey(tenant);
  const path = `/v1/tenants/${tenant.slug}`;
  const body = { account_code: 'SETTLEMENT-NGN', amount: '1.00', side: 'debit', currency: 'NGN' };
  await cluster.rest('POST', `${path}/accounts/setup`, { key, body: { business_type: 'wallet' } });
  await cluster.rest('POST', `${path}/transactions`, { key, body });
  const answer = await cluster.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key });
  return answer.body.data?.balance?.balance === '1.00' ? [] : [`afterwards a balance is ${answer.status} ${JSON.stringify(answer.body)}`];
}
