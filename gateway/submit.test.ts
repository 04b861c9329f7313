// How commands of unknown outcome are sent again, by what a ledger answers.
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import { CommandSchema, LedgerService, type SubmitRequest } from '../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller } from '../services/platform/caller.ts';
import { refuse } from '../services/platform/errors.ts';
import { newId } from '../services/platform/ids.ts';
import { startGrpcServer } from '../test/grpc-server.ts';
import type { Services } from './services.ts';
import { submit, type SubmitOptions } from './submit.ts';

type Results = { transaction?: { transactionId: string }; refusal?: { reason: string }; replayed?: boolean }[];
/** What the ledger answers to a call, from the first on. */
type Script = ((call: SubmitRequest, request: FastifyRequest) => Results | Promise<Results>)[];

const commands = Array.from({ length: 4 }, () => create(CommandSchema, { command: { case: 'void', value: { holdId: newId('hold') } } }));
const done = (name: string) => ({ transaction: { transactionId: name } });
const refused = (reason: string) => ({ refusal: { reason } });
const named = (results: Awaited<ReturnType<typeof submit>>) =>
  results.map(({ transaction, refusal }) => transaction?.transactionId ?? refusal?.reason);

/** Submits all commands to a ledger with this script; answers the results, or the error's code, and the calls. */
async function run(script: Script, options: SubmitOptions = {}): Promise<{ outcome: unknown; calls: SubmitRequest[] }> {
  const calls: SubmitRequest[] = [];
  const request = {
    caller: { tenantId: newId('tenant'), actor: 'key_1', scopes: new Set() },
    ...{ id: 'req-1', headers: {}, clientGone: null },
  } as unknown as FastifyRequest;
  const server = await startGrpcServer({
    services: [LedgerService],
    routes: (router) =>
      router.service(LedgerService, {
        async submit(call) {
          calls.push(call);
          const answer = script[calls.length - 1] ?? (() => Promise.reject(new Error('a call too many')));
          return { results: await answer(call, request) };
        },
      }),
  });
  const caller = openCaller({ addresses: [`127.0.0.1:${server.port}`], token: 'token', maxMessageBytes: 1 << 20 });
  const services = { writerOf: () => createClient(LedgerService, caller) } as unknown as Services;
  try {
    const outcome = await submit(services, request, commands, options).then(named, (error: ConnectError) => Code[error.code]);
    return { outcome, calls };
  } finally {
    caller.close();
    await server.close();
  }
}

const away = (): never => {
  throw refuse(Code.Unavailable, { reason: 'unavailable', message: 'the database is away' });
};
const all = () => ['a', 'b', 'c', 'd'].map(done);

test('a call of unknown outcome is sent again with the same commands, as a retry', async () => {
  const lost = () => {
    throw new ConnectError('lost', Code.Unavailable);
  };
  const { outcome, calls } = await run([lost, away, all], { atomic: true });
  expect(outcome).toEqual(['a', 'b', 'c', 'd']);
  expect(calls.map(({ retry, atomic, actor }) => [retry, atomic, actor])).toEqual(
    [false, true, true].map((retry) => [retry, true, 'key_1']),
  );
  expect(new Set(calls.map((call) => JSON.stringify(call.commands.map(({ command }) => command)))).size).toBe(1);
  expect(calls.every(({ timeoutMs }) => timeoutMs > 0 && timeoutMs <= 5_000)).toBe(true);
});

test('of single commands in doubt the first and all after it are sent again, so that their order stays', async () => {
  const first = () => [done('a'), refused('unavailable'), refused('insufficient_funds'), done('d')];
  const { outcome, calls } = await run([first, () => ['b', 'c', 'd'].map(done)]);
  expect(outcome).toEqual(['a', 'b', 'c', 'd']);
  expect(calls.map((call) => call.commands.length)).toEqual([4, 3]);
});

test('an atomic call in doubt is sent again whole', async () => {
  const { outcome, calls } = await run([() => [{}, refused('unavailable'), {}, {}], all], { atomic: true });
  expect([outcome, calls.map((call) => call.commands.length)]).toEqual([
    ['a', 'b', 'c', 'd'],
    [4, 4],
  ]);
});

test('what a lost call may have changed is in doubt, what was done before is not', async () => {
  const first = () => [done('a'), refused('unavailable'), refused('insufficient_funds'), done('d')];
  const leave = (_: SubmitRequest, request: FastifyRequest): never => {
    request.clientGone?.abort();
    return away();
  };
  const { outcome } = await run([first, leave]);
  expect(outcome).toEqual(['a', 'unavailable', 'unavailable', 'd']);
});

test('an overloaded ledger is final, except for what waits for capacity', async () => {
  const overloaded = () => commands.map(() => refused('overloaded'));
  expect((await run([overloaded])).outcome).toEqual(commands.map(() => 'overloaded'));
  expect((await run([overloaded, all], { waitsForCapacity: true })).outcome).toEqual(['a', 'b', 'c', 'd']);
});

test.each([
  ['rejected', refuse(Code.InvalidArgument, { reason: 'validation_failed', message: 'no' }), 'InvalidArgument'],
  ['unknown to the ledger', new ConnectError('unknown method', Code.Unimplemented), 'Unimplemented'],
])('a call that is %s is sent once', async (_, error, code) => {
  const { outcome, calls } = await run([() => Promise.reject(error)]);
  expect([outcome, calls.length]).toEqual([code, 1]);
});
