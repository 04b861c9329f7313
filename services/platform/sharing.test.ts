// How the answers on one connection share it.
import { createClient } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { openCaller } from './caller.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

test.each([
  ['that travels alone', 'getBalance'],
  ['that travels with others', 'getAccount'],
] as const)('a small answer %s does not wait for the end of large ones that were asked for before', async (_, small) => {
  const maxMessageBytes = 8 << 20;
  const page = { transactions: [{ description: 'x'.repeat(4 << 20) }] };
  let begun = 0;
  const served = await startGrpcServer({
    maxMessageBytes,
    services: [LedgerService],
    routes: (router) =>
      router.service(LedgerService, {
        listTransactions: () => (begun++, Promise.resolve(page)),
        getBalance: () => Promise.resolve({}),
        getAccount: () => Promise.resolve({}),
      }),
  });
  const carried = [LedgerService.method.getAccount];
  const caller = openCaller({ addresses: [`127.0.0.1:${served.port}`], token: 'token', maxMessageBytes, carried });
  closing.push(async () => {
    caller.close();
    await served.close();
  });
  const client = createClient(LedgerService, caller);
  const order: string[] = [];
  // On a busy machine 80 MiB take longer than a call may by itself.
  const patience = { timeoutMs: 100_000 };
  const large = Array.from({ length: 20 }, () => client.listTransactions({}, patience).then(() => order.push('large')));
  while (begun < large.length) await new Promise(setImmediate);
  await client[small]({}, patience).then(() => order.push('small'));
  await Promise.all(large);
  expect(order.indexOf('small')).toBeLessThan(large.length / 2);
});
