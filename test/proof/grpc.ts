// Every gRPC method of every service, called with mutated messages: none may answer INTERNAL or UNKNOWN, none may go away, and afterwards
// the house works and its books are right.
import { create, fromBinary, type Message } from '@bufbuild/protobuf';
import { Client, Metadata, credentials, status, type ServiceError } from '@grpc/grpc-js';
import type { PostTransactionsResponse } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { Service } from '../../deploy/local/plan.ts';
import { startHouse, type House } from '../house.ts';
import { bounded } from './bounded.ts';
import { faultsOf } from './soundness.ts';
import type { Task } from './main.ts';
import { furnish, missing, services, type Seed } from './messages.ts';
import { mutateBytes, mutateFields, newDice, type Dice } from './mutation.ts';

// In flight at once.
const callers = 8;
const deadlineMs = 20_000;

// Seconds that each part may take on a slow and busy machine; what takes longer hangs. A call is given up by grpc-js at its deadline.
const bounds = { start: 120, furnish: 60, call: deadlineMs / 1000 + 20, afterwards: 60, books: 240, stop: 180 };

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
 * Starts a house and sends it mutated messages for so many seconds; each method is called at least once. A call that hangs is a fault; rejects,
 * naming the seed, where another part does. `say` is told what begins.
 */
export async function fuzzGrpc({ seed, seconds, say = () => undefined }: FuzzTask): Promise<Fuzzed> {
  const part = <Result>(name: keyof typeof bounds, what: string, work: () => Promise<Result>): Promise<Result> => {
    say(what);
    return bounded(`seed ${seed}: ${what}`, bounds[name], work());
  };
  const quota = { WEBHOOK_CONFIG_PER_MINUTE: '10000', WEBHOOK_RETRIES_PER_HOUR: '10000', WEBHOOK_TESTS_PER_HOUR: '10000' };
  const environment = { notifier: { ...quota, WEBHOOK_TIMEOUT: '2', WEBHOOK_RETRY_DELAYS: '1,1' } };
  const house = await part('start', 'starting a house', () => startHouse({ environment }));
  const clients = Object.fromEntries(
    Object.entries(house.addresses).map(([name, [address = '']]) => [name, new Client(address, credentials.createInsecure())]),
  ) as Record<Service, Client>;
  try {
    const seeds = await part('furnish', 'making what the messages name', () => furnish(house));
    const known = [...new Set(seeds.flatMap(({ init }) => textsOf(init)))];
    const found: Fuzzed = { calls: 0, methods: seeds.length, codes: {}, faults: missing(seeds) };
    say('calling');
    const until = performance.now() + seconds * 1000;
    const work = async () => {
      while (performance.now() < until || found.calls < seeds.length) {
        const place = found.calls++;
        const dice = newDice(seed ^ Math.imul(place, 0x9e3779b1));
        const each = mutated(dice, seeds[place % seeds.length] as Seed, known);
        const fault = (what: string) => found.faults.push(`seed ${seed}, call ${place}, ${described(each)}: ${what}`);
        const sent = send(house, clients, each, found, fault);
        await bounded('it', bounds.call, sent).catch((error: Error) => fault(error.message));
        if (found.faults.length >= 20) return;
      }
    };
    await Promise.all(Array.from({ length: callers }, work));
    found.faults.push(...(await part('afterwards', 'asking for what somebody new needs', () => afterwards(house))));
    found.faults.push(...(await part('books', 'verifying the books', () => faultsOf(house))), ...errorsLogged(house));
    return found;
  } finally {
    Object.values(clients).forEach((client) => client.close());
    await part('stop', 'stopping the house', () => house.stop());
  }
}

/** Causes that no caller is told. Dead letters and gaps are logged as errors too, and are what mutated events should come to. */
function errorsLogged(house: House): string[] {
  return Object.keys(services).flatMap((name) =>
    house
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
  const message: Message = create(input, structuredClone(seed.init) as never);
  if (dice() < 0.8) mutateFields(dice, input, message, known);
  const bytes = dice() < 0.4 ? mutateBytes(dice, input, message) : mutateBytes(() => 0, input, message);
  return { seed, bytes, stranger: dice() < 0.03 };
}

function send(
  house: House,
  clients: Record<Service, Client>,
  { seed, bytes, stranger }: Case,
  found: Fuzzed,
  fault: (what: string) => void,
): Promise<void> {
  const { service, method } = seed;
  const metadata = new Metadata();
  if (!stranger) metadata.set('authorization', `Bearer ${house.internalToken}`);
  return new Promise((resolve) => {
    const done = (error: ServiceError | null, answer?: Buffer) => {
      const code = error ? error.code : status.OK;
      found.codes[status[code]] = (found.codes[status[code]] ?? 0) + 1;
      // Who waits a millisecond is told so.
      const impatient = error?.details.startsWith('the posting waited too long') === true;
      if (
        (forbidden.has(code) && !impatient) ||
        (code === status.DEADLINE_EXCEEDED && error?.details.startsWith('Deadline exceeded after') === true)
      ) {
        fault(`${status[code]} ${error?.details ?? ''}`);
      }
      if (stranger && code !== status.UNAUTHENTICATED) fault(`${status[code]} without the internal token`);
      if (answer) {
        try {
          for (const reason of internals(fromBinary(method.output, answer))) fault(reason);
        } catch (cause) {
          fault(`an answer that can't be read: ${(cause as Error).message}`);
        }
      }
      resolve();
    };
    const path = `/${method.parent.typeName}/${method.name}`;
    const asIs = (data: Uint8Array) => Buffer.from(data);
    clients[service].makeUnaryRequest(path, asIs, (data: Buffer) => data, bytes, metadata, { deadline: Date.now() + deadlineMs }, done);
  });
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
async function afterwards(house: House): Promise<string[]> {
  const tenant = await house.tenant();
  const key = await house.apiKey(tenant);
  const path = `/v1/tenants/${tenant.slug}`;
  const body = { account_code: 'SETTLEMENT-NGN', amount: '1.00', side: 'debit', currency: 'NGN' };
  const answers = [
    await house.rest('POST', `${path}/accounts/setup`, { key, body: { business_type: 'wallet' } }),
    await house.rest('POST', `${path}/transactions`, { key, body }),
    await house.rest('POST', `${path}/webhooks`, { key, body: { url: 'http://127.0.0.1:9/', events: ['transaction.posted'] } }),
    await house.rest('GET', `${path}/accounts/code/SETTLEMENT-NGN/balance?currency=NGN`, { key }),
  ];
  const wrong = answers
    .filter(({ status: answered }) => answered > 201)
    .map(({ status: answered, body: said }) => `${answered} ${JSON.stringify(said)}`);
  if (answers.at(-1)?.body.data?.balance?.balance !== '1.00') wrong.push('the balance is not what was posted');
  return wrong.map((each) => `afterwards: ${each}`);
}
