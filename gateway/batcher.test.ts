import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient, type ServiceImpl } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { LedgerService, PostingSchema } from '../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller } from '../services/platform/caller.ts';
import { newId } from '../services/platform/ids.ts';
import { openLog } from '../services/platform/telemetry.ts';
import { startGrpcServer } from '../test/grpc-server.ts';
import { until } from '../test/notifier.ts';
import { Batcher } from './batcher.ts';

const logger = openLog('test', 'silent');

type PostTransactions = ServiceImpl<typeof LedgerService>['postTransactions'];

const away = (): never => {
  throw new ConnectError('the database is away', Code.Unavailable);
};

/** A ledger that answers postings so, and a client of it. */
async function openLedger(postTransactions: PostTransactions) {
  const server = await startGrpcServer({
    services: [LedgerService],
    routes: (router) => router.service(LedgerService, { postTransactions }),
  });
  const address = `127.0.0.1:${server.port}`;
  const caller = openCaller({ addresses: [address], token: 'token', maxMessageBytes: 1 << 20 });
  const close = async () => {
    caller.close();
    await server.close();
  };
  return { address, client: createClient(LedgerService, caller), close };
}

const posting = (description = '') => create(PostingSchema, { tenantId: newId('tenant'), description });

test('the metrics count each call once, and retries apart', async () => {
  let calls = 0;
  const { address, client, close } = await openLedger(() => {
    calls++;
    return away();
  });
  const metrics = new Registry();
  let sent = 0;
  // What is sent shortly before the posting's time is over may come to nobody.
  const counted: typeof client = {
    ...client,
    postTransactions: (...given) => {
      sent++;
      return client.postTransactions(...given);
    },
  };
  const ledgers = () => [{ address, client: counted }];
  const batcher = new Batcher({ ledgers, logger, metrics, maxPostings: 10, timeoutMs: 1_000 });
  const figure = async (name: string) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await metrics.metrics())?.[1]);
  try {
    let postings = 0;
    // On a busy machine a posting's time may be over with its first call.
    while (calls <= postings || sent <= postings) {
      postings++;
      await expect(batcher.post(posting())).rejects.toMatchObject({ code: Code.Unavailable });
    }
    expect(await figure('gateway_call_postings_count')).toBe(postings);
    expect(await figure('gateway_call_retries_total')).toBe(sent - postings);
    expect(await figure('gateway_postings_in_flight')).toBe(0);
  } finally {
    await close();
  }
});

test('a call that all clients have left ends; nothing is sent again for a client that has left', async () => {
  const answering: (() => void)[] = [];
  const ended: (Code | undefined)[] = [];
  const asked: string[][] = [];
  const ledger = await openLedger(async ({ postings }, { signal }) => {
    asked.push(postings.map(({ description }) => description));
    signal.addEventListener('abort', () => ended.push((signal.reason as Partial<ConnectError>).code));
    await new Promise<void>((answer) => answering.push(answer));
    return away();
  });
  const batcher = new Batcher({ ledgers: () => [ledger], logger, metrics: new Registry(), maxPostings: 10, timeoutMs: 60_000 });
  const [left, right] = [{ destroyed: false }, { destroyed: false }];
  const post = (description: string, answer: { destroyed: boolean }) =>
    batcher.post(posting(description), answer).catch(({ code }: ConnectError) => code);
  try {
    const outcomes = Promise.all([post('left', left), post('right', right)]);
    await until(() => Promise.resolve(asked.length === 1));
    left.destroyed = true;
    // Three looks, which the other's waiting outlasts.
    await new Promise((done) => setTimeout(done, 300));
    expect(ended).toEqual([]);
    answering[0]!();
    await until(() => Promise.resolve(asked.length === 2));
    expect(asked).toEqual([['left', 'right'], ['right']]);
    right.destroyed = true;
    expect(await outcomes).toEqual([Code.Unavailable, Code.Unavailable]);
    // By the clients' leaving, and not when its time is over.
    await until(() => Promise.resolve(ended.length === 1));
    expect([ended, asked.length]).toEqual([[Code.Canceled], 2]);
  } finally {
    for (const answer of answering) answer();
    await ledger.close();
  }
});

test('small and large postings do not share calls', async () => {
  const asked: number[][] = [];
  const ledger = await openLedger(({ postings }) => {
    asked.push(postings.map(({ description }) => description.length));
    return away();
  });
  const batcher = new Batcher({ ledgers: () => [ledger], logger, metrics: new Registry(), maxPostings: 10, timeoutMs: 300 });
  try {
    await Promise.allSettled([1, 5_000, 2, 6_000].map((length) => batcher.post(posting('x'.repeat(length)))));
    expect(new Set(asked.map(String))).toEqual(new Set(['1,2', '5000,6000']));
  } finally {
    await ledger.close();
  }
});
