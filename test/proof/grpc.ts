// Every gRPC method that the services say they have, called with mutated messages: none may answer INTERNAL or UNKNOWN, none may go
// away, and afterwards the cluster works and its books are right.
import { create, fromBinary, toBinary, type Message } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Client, Metadata, credentials, status, type ServiceError } from '@grpc/grpc-js';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { ServerReflection } from '../../proto/gen/grpc/reflection/v1/reflection_pb.js';
import type { PostTransactionsResponse } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { Service } from '../../deploy/local/plan.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { bounded } from './bounded.ts';
import { faultsOf } from './soundness.ts';
import { furnish, pathOf, type Seed } from './messages.ts';
import { mutateBytes, mutateFields, newDice, type Dice } from './mutation.ts';
import type { Task } from './task.ts';

// In flight at once.
const callers = 8;
const deadlineMs = 20_000;

// Seconds that each part may take on a slow and busy machine; what takes longer hangs. A call is given up by grpc-js at its deadline.
const bounds = { start: 120, furnish: 60, methods: 60, call: deadlineMs / 1000 + 20, afterwards: 60, books: 240, stop: 180 };

// What no message may bring about.
const forbidden = new Set([status.UNKNOWN, status.INTERNAL, status.UNAVAILABLE, status.DATA_LOSS, status.UNIMPLEMENTED]);

/** What the fuzzer is to do. */
interface FuzzTask {
  seed: number;
  seconds: number;
  say?: (line: string) => void;
}

/** What a run of the fuzzer found. */
export interface Fuzzed {
  calls: number;
  methods: number;
  /** How many calls ended with which code. */
  codes: Record<string, number>;
  /** One line each. */
  faults: string[];
}

/**
 * Starts a cluster and sends it mutated messages for so many seconds; each method is called at least once. A call that hangs is a fault; rejects,
 * naming the seed, where another part does. `say` is told what begins.
 */
export async function fuzzGrpc({ seed, seconds, say = () => undefined }: FuzzTask): Promise<Fuzzed> {
  const part = <Result>(name: keyof typeof bounds, what: string, work: () => Promise<Result>): Promise<Result> => {
    say(what);
    return bounded(`seed ${seed}: ${what}`, bounds[name], work());
  };
  const quota = { WEBHOOK_CONFIG_PER_MINUTE: '10000', WEBHOOK_RETRIES_PER_HOUR: '10000', WEBHOOK_TESTS_PER_HOUR: '10000' };
  const environment = { notifier: { ...quota, WEBHOOK_TIMEOUT: '2', WEBHOOK_RETRY_DELAYS: '1,1' } };
  const cluster = await part('start', 'starting a cluster', () => startCluster({ environment }));
  const clients = Object.fromEntries(
    Object.entries(cluster.addresses).map(([name, [address = '']]) => [name, new Client(address, credentials.createInsecure())]),
  ) as Record<Service, Client>;
  try {
    const seeds = await part('furnish', 'making what the messages name', () => furnish(cluster));
    const known = [...new Set(seeds.flatMap(({ init }) => textsOf(init)))];
    const faults = await part('methods', 'asking what methods there are', () => missing(cluster, clients, seeds));
    const methods = new Set(seeds.map(({ service, method }) => service + pathOf(method))).size;
    const found: Fuzzed = { calls: 0, methods, codes: {}, faults };
    say('calling');
    const until = performance.now() + seconds * 1000;
    const work = async () => {
      while (performance.now() < until || found.calls < seeds.length) {
        const place = found.calls++;
        const dice = newDice(seed ^ Math.imul(place, 0x9e3779b1));
        const each = mutated(dice, seeds[place % seeds.length] as Seed, known);
        const fault = (what: string) => found.faults.push(`seed ${seed}, call ${place}, ${described(each)}: ${what}`);
        const sent = send(cluster, clients, each, found, fault);
        await bounded('it', bounds.call, sent).catch((error: Error) => fault(error.message));
        if (found.faults.length >= 20) return;
      }
    };
    await Promise.all(Array.from({ length: callers }, work));
    found.faults.push(...(await part('afterwards', 'asking for what somebody new needs', () => afterwards(cluster))));
    found.faults.push(...(await part('books', 'verifying the books', () => faultsOf(cluster))), ...errorsLogged(cluster));
    return found;
  } finally {
    Object.values(clients).forEach((client) => client.close());
    await part('stop', 'stopping the cluster', () => cluster.stop());
  }
}

/** Causes that no caller is told. Dead letters and gaps are logged as errors too, and are what mutated events should come to. */
function errorsLogged(cluster: Cluster): string[] {
  return Object.keys(cluster.addresses).flatMap((name) =>
    cluster
      .logs(name)
      .split('\n')
      .filter((line) => line.includes('"msg":"call failed"'))
      .slice(0, 10)
      .map((line) => `${name}: ${line.slice(0, 2_000)}`),
  );
}

/** As long as it is told to. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const { calls, methods, codes, faults } = await fuzzGrpc({ seed, seconds: minutes * 60, say });
  say(
    `${calls} calls of ${methods} methods: ${Object.entries(codes)
      .map(([code, count]) => `${code} ${count}`)
      .join(', ')}`,
  );
  for (const fault of faults) say(fault);
  return faults.length === 0;
}

interface Case {
  seed: Seed;
  bytes: Uint8Array;
  /** Without the internal token. */
  stranger: boolean;
}

/** What was called and what was sent to it. */
function described({ seed: { method }, bytes, stranger }: Case): string {
  const hex = Buffer.from(bytes.subarray(0, 2_000)).toString('hex');
  return `${method.parent.typeName}/${method.name}${stranger ? ' without the token' : ''}, sent ${bytes.length} bytes ${hex}`;
}

function mutated(dice: Dice, seed: Seed, known: string[]): Case {
  const { input } = seed.method;
  // A copy: a message holds the lists that it is made of, and a list that grew would grow on in the calls that follow.
  const init = structuredClone(seed.init);
  const message: Message = create(input, init as never);
  if (dice() < 0.8) mutateFields(dice, input, message, known);
  const bytes = dice() < 0.4 ? mutateBytes(dice, input, message) : mutateBytes(() => 0, input, message);
  return { seed, bytes, stranger: dice() < 0.03 };
}

async function send(
  cluster: Cluster,
  clients: Record<Service, Client>,
  { seed, bytes, stranger }: Case,
  found: Fuzzed,
  fault: (what: string) => void,
): Promise<void> {
  const { service, method } = seed;
  const metadata = stranger ? new Metadata() : withToken(cluster);
  const { code, details, answers } = await streamed(clients[service], pathOf(method), bytes, metadata, method === Health.method.watch);
  found.codes[status[code]] = (found.codes[status[code]] ?? 0) + 1;
  if (
    (forbidden.has(code) && !isImpatient(details)) ||
    (code === status.DEADLINE_EXCEEDED && details.startsWith('Deadline exceeded after'))
  ) {
    fault(`${status[code]} ${details}`);
  }
  // Health is told to everybody.
  if (stranger && code !== status.UNAUTHENTICATED && method.parent !== Health) fault(`${status[code]} without the internal token`);
  if (method.methodKind === 'unary' && code === status.OK && answers.length !== 1) fault(`${answers.length} answers`);
  for (const answer of answers) {
    try {
      for (const reason of internals(fromBinary(method.output, answer))) fault(reason);
    } catch (cause) {
      fault(`an answer that can't be read: ${(cause as Error).message}`);
    }
  }
}

function withToken(cluster: Cluster): Metadata {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${cluster.internalToken}`);
  return metadata;
}

// Who waits a millisecond is told so.
function isImpatient(details: string): boolean {
  return details.startsWith('the posting waited too long');
}

/** What came of a call. */
interface Ended {
  code: status;
  details: string;
  answers: Buffer[];
}

/** Sends one message and hears the answers; of a method that goes on answering (`isEndless`) the first. On the wire a unary call is the same. */
function streamed(client: Client, path: string, bytes: Uint8Array, metadata: Metadata, isEndless = false): Promise<Ended> {
  return new Promise((resolve) => {
    const answers: Buffer[] = [];
    const asIs = (data: Uint8Array) => Buffer.from(data);
    const options = { deadline: Date.now() + deadlineMs };
    const call = client.makeBidiStreamRequest(path, asIs, (data: Buffer) => data, metadata, options);
    const ended = () => resolve({ code: status.OK, details: '', answers });
    call.on('data', (answer: Buffer) => {
      answers.push(answer);
      if (!isEndless) return;
      ended();
      call.cancel();
    });
    call.on('end', ended);
    call.on('error', ({ code, details }: ServiceError) => resolve({ code, details, answers }));
    call.end(bytes);
  });
}

/** Methods that a service says it has and for which there is no message, a line each. */
async function missing(cluster: Cluster, clients: Record<Service, Client>, seeds: Seed[]): Promise<string[]> {
  const of = async ([service, client]: [string, Client]) => {
    const known = new Set(seeds.filter((each) => each.service === service).map(({ method }) => pathOf(method)));
    const lacking = (await methodsOf(client, withToken(cluster))).filter((path) => !known.has(path));
    return lacking.map((path) => `${service}: ${path} has no message to mutate`);
  };
  return (await Promise.all(Object.entries(clients).map(of))).flat();
}

/** The paths of all methods of a server, as its reflection tells them. */
async function methodsOf(client: Client, metadata: Metadata): Promise<string[]> {
  const method = ServerReflection.method.serverReflectionInfo;
  const ask = async (kind: 'listServices' | 'fileContainingSymbol', value: string) => {
    const asked = toBinary(method.input, create(method.input, { messageRequest: { case: kind, value } }));
    const { code, details, answers } = await streamed(client, pathOf(method), asked, metadata);
    if (!answers[0]) throw new Error(`reflection answers ${status[code]} ${details}`);
    return fromBinary(method.output, answers[0]).messageResponse;
  };
  const list = await ask('listServices', '');
  if (list.case !== 'listServicesResponse') throw new Error('reflection tells of no services');
  const paths: string[] = [];
  for (const { name } of list.value.service) {
    const { case: kind, value } = await ask('fileContainingSymbol', name);
    if (kind !== 'fileDescriptorResponse') throw new Error(`reflection tells nothing of ${name}`);
    for (const bytes of value.fileDescriptorProto) {
      const file = fromBinary(FileDescriptorProtoSchema, bytes);
      const service = file.service.find((each) => `${file.package}.${each.name}` === name);
      paths.push(...(service?.method ?? []).map((each) => `/${name}/${each.name}`));
    }
  }
  return paths;
}

// Items of a batch are refused one by one.
function internals(answer: Message): string[] {
  if (answer.$typeName !== 'ledger.v1.PostTransactionsResponse') return [];
  return (answer as PostTransactionsResponse).results.flatMap(({ outcome }) =>
    outcome.case === 'refusal' && outcome.value.reason === 'internal' ? ['an item is refused as internal'] : [],
  );
}

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

/** Whether somebody new can still do everything that counts. */
async function afterwards(cluster: Cluster): Promise<string[]> {
  const tenant = await cluster.tenant();
  const key = await cluster.apiKey(tenant);
  const path = `/v1/tenants/${tenant.slug}`;
  const body = { account_code: 'SETTLEMENT-NGN', amount: '1.00', side: 'debit', currency: 'NGN' };
  const answers = [
    await cluster.rest('POST', `${path}/accounts/setup`, { key, body: { business_type: 'wallet' } }),
    await cluster.rest('POST', `${path}/transactions`, { key, body }),
    await cluster.rest('POST', `${path}/webhooks`, { key, body: { url: 'http://127.0.0.1:9/', events: ['transaction.posted'] } }),
    await cluster.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key }),
  ];
  const wrong = answers
    .filter(({ status: answered }) => answered > 201)
    .map(({ status: answered, body: said }) => `${answered} ${JSON.stringify(said)}`);
  if (answers.at(-1)?.body.data?.balance?.balance !== '1.00') wrong.push('the balance is not what was posted');
  return wrong.map((each) => `afterwards: ${each}`);
}
