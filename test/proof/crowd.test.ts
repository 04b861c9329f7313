// Clients of a cluster that fails: what they note of it, and what counts as its fault.
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Code } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { refuse } from '../../services/platform/errors.ts';
import { startGrpcServer } from '../grpc-server.ts';
import type { Tenant } from '../cluster.ts';
import { Recorder, drawFrom } from './crowd.ts';
import { Doors } from './doors.ts';
import { faultsOf, type Op } from './history.ts';

const tenant: Tenant = { id: 'tenant_1', slug: 'one', owner: { email: '', password: '', token: '', id: '' } };
const codes = { internal: Code.Internal, unavailable: Code.Unavailable, overloaded: Code.ResourceExhausted };
type Reason = keyof typeof codes;

const answering =
  (reason: Reason): RequestListener =>
  (_, response) =>
    void pause(20).then(() => {
      response.writeHead(reason === 'internal' ? 500 : 503, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ success: false, code: reason }));
    });

/** What one client notes of doors that answer nothing else, until enough of it is there, and what is wrong with it. */
async function heard(rest: RequestListener, overGrpc: Reason, enough: (ops: Op[]) => boolean): Promise<{ ops: Op[]; faults: string[] }> {
  const web = createServer(rest);
  await new Promise<void>((done) => web.listen(0, '127.0.0.1', done));
  const fail = () => Promise.reject(refuse(codes[overGrpc], { reason: overGrpc, message: overGrpc }));
  const ledger = await startGrpcServer({
    services: [LedgerService],
    routes: (router) => router.service(LedgerService, Object.fromEntries(LedgerService.methods.map(({ localName }) => [localName, fail]))),
  });
  const url = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  const doors = new Doors({ url, addresses: { ledger: [`127.0.0.1:${ledger.port}`] }, internalToken: 'token' });
  try {
    const recorder = new Recorder(doors, tenant, 'key');
    const draw = drawFrom(1);
    while (!enough(recorder.ops)) await recorder.work(0, draw, performance.now() + 50);
    return { ops: recorder.ops, faults: faultsOf({ ops: recorder.ops, log: [], balances: new Map() }) };
  } finally {
    await doors.close();
    await ledger.close();
    web.closeAllConnections();
    web.close();
  }
}

const some = (ops: Op[], ...tests: ((op: Op) => boolean)[]) => tests.every((test) => ops.some(test));

test('a 500, and the same over gRPC, is a fault of the cluster', async () => {
  const { faults } = await heard(answering('internal'), 'internal', (ops) =>
    some(
      ops,
      ({ failed }) => failed?.includes('500') === true,
      ({ code }) => code === 'internal',
    ),
  );
  expect(faults).toContainEqual(expect.stringMatching(/^Error: (POST|GET) .*: 500 .* instead of an answer: /));
  expect(faults).toContainEqual(expect.stringMatching(/^the cluster has failed: /));
});

test('a connection that is cut is a fault of the cluster', async () => {
  const cut: RequestListener = (request) => request.socket.destroy();
  const { faults } = await heard(cut, 'unavailable', (ops) => some(ops, ({ failed }) => failed !== undefined));
  expect(faults[0]).toMatch(/instead of an answer/);
});

test.each(['unavailable', 'overloaded'] as const)('a 503 (%s) is none, nor is what a client does not wait for', async (reason) => {
  const hungUp = ({ end, code, failed }: Op) => end === null && code === undefined && failed === undefined;
  const { ops, faults } = await heard(answering(reason), reason, (noted) => some(noted, hungUp, ({ code }) => code === reason));
  expect(faults).toEqual([]);
  // A posting that was cut short may be there all the same.
  expect(ops.filter(hungUp).every(({ name }) => name !== undefined)).toBe(true);
});
