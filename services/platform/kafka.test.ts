import { createServer, type AddressInfo } from 'node:net';
import { settingsOf } from '../../test/kafka.ts';
import { openKafka } from './kafka.ts';
import { openLog } from './telemetry.ts';

test('clients begin at any of several brokers, so that one which says nothing does not keep all of them waiting', async () => {
  const asked = new Set<number>();
  const servers = [0, 1, 2].map((place) =>
    createServer((socket) => {
      asked.add(place);
      socket.destroy();
    }),
  );
  try {
    for (const server of servers) await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
    const addresses = servers.map((server) => `127.0.0.1:${(server.address() as AddressInfo).port}`);
    const firsts = new Set<number>();
    // Of so many clients none begins at one of three once in 10^8 runs.
    for (let client = 0; client < 48; client++) {
      asked.clear();
      const kafka = openKafka(settingsOf(addresses.join(), 'events'), 'test', openLog('test', 'silent'));
      const admin = kafka.admin({ retry: { retries: 0 } });
      await admin.connect().catch(() => undefined);
      await admin.disconnect().catch(() => undefined);
      for (const first of [...asked].slice(0, 1)) firsts.add(first);
    }
    expect(firsts).toEqual(new Set([0, 1, 2]));
  } finally {
    for (const server of servers) await new Promise((done) => server.close(done));
  }
});
