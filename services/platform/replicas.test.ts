// Replicas by name: every address of a name is one, and what is closed still answers.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { startGrpcServer } from '../../test/grpc-server.ts';
import { openCaller } from './caller.ts';
import { Channel } from './channel.ts';
import { Replicas, type Resolve } from './replicas.ts';

function healthy(readiness: () => Promise<void> = () => Promise.resolve()) {
  const ready = async () => (await readiness(), { ready: true, dependencies: {} });
  return startGrpcServer({ readiness: ready });
}

const called = (...addresses: string[]) => openCaller({ addresses, token: 'token', maxMessageBytes: 1 << 20 });

test('a name is called at its addresses', async () => {
  const served = await healthy();
  const caller = called(`localhost:${served.port}`);
  try {
    await createClient(Health, caller).check({});
    expect(caller.lines().map(({ address }) => address)).toContain(`127.0.0.1:${served.port}`);
  } finally {
    caller.close();
    await served.close();
  }
});

test('a name without an address is unavailable, and says so', async () => {
  const caller = called('nobody.invalid:1');
  try {
    await expect(createClient(Health, caller).check({})).rejects.toThrow('no address is known of nobody.invalid:1');
  } finally {
    caller.close();
  }
});

test('lines stand in the order of their addresses, without those that are away', async () => {
  const [one, other] = [await healthy(), await healthy()];
  const addresses = [one, other].map(({ port }) => `127.0.0.1:${port}`).sort();
  const caller = called(...addresses.toReversed());
  const seen = () => caller.lines().map(({ address }) => address);
  try {
    expect(seen()).toEqual(addresses);
    for (const line of caller.lines()) await createClient(Health, line).check({});
    await one.close();
    const left = `127.0.0.1:${other.port}`;
    while (seen().join() !== left) await createClient(Health, caller).check({});
  } finally {
    caller.close();
    await other.close();
  }
});

test('a call that is in flight when its caller is closed is answered', async () => {
  const begun = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const served = await healthy(() => (begun.resolve(), answer.promise));
  const caller = called(`127.0.0.1:${served.port}`);
  try {
    const call = createClient(Health, caller).check({});
    await begun.promise;
    caller.close();
    answer.resolve();
    await call;
  } finally {
    await served.close();
  }
});

test('a name is not looked up again while the look-up before is under way, and other names are', async () => {
  const answers: (() => void)[] = [];
  let [quick, open, most] = [0, 0, 0];
  const resolve: Resolve = async (host) => {
    if (host === 'quick') quick++;
    else {
      most = Math.max(most, ++open);
      await new Promise<void>((done) => answers.push(done));
      open--;
    }
    return [{ address: host === 'quick' ? '127.0.0.1' : '127.0.0.2', family: 4 }];
  };
  const channel = (address: string) => new Channel(address, 1 << 20);
  const replicas = new Replicas(['slow:1', 'quick:1'], channel, resolve, 5);
  try {
    while (quick < 10) await pause(5);
    expect([answers.length, most]).toEqual([1, 1]);
    answers[0]!();
    await replicas.lookedUp;
    expect(replicas.available().map(({ address }) => address)).toEqual(['127.0.0.1:1', '127.0.0.2:1']);
    while (answers.length < 2) await pause(5);
    expect(most).toBe(1);
  } finally {
    replicas.close();
  }
});
