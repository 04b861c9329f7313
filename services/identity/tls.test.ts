// A server that takes encrypted connections alone, as managed ones do.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { good } from '../../test/certificates.ts';
import { freshDatabase } from '../../test/cluster.ts';
import { newUser, startIdentity } from '../../test/identity.ts';
import { migrate } from '../platform/migration.ts';
import { migrations } from './migrations.ts';
import { appendOnly, migrationNames } from './schema.ts';

// https://www.postgresql.org/docs/18/protocol-message-formats.html: SSLRequest
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);

/** Stands with TLS in front of a PostgreSQL of this machine. */
async function openDoor(target: number): Promise<{ port: number; unencrypted: () => number; close: () => void }> {
  const sockets = new Set<Socket>();
  let unencrypted = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('data', (first: Buffer) => {
      if (!first.equals(sslRequest)) {
        unencrypted++;
        socket.destroy();
        return;
      }
      const inner = new TLSSocket(socket, { isServer: true, ...good });
      const upstream = connect(target, '127.0.0.1');
      sockets.add(upstream);
      for (const each of [inner, upstream]) each.on('error', () => each.destroy());
      inner.pipe(upstream).pipe(inner);
      socket.write('S');
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    port: (server.address() as AddressInfo).port,
    unencrypted: () => unencrypted,
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

test('migrations and the service encrypt every connection where the address asks for it', async () => {
  const database = await freshDatabase('identity');
  const door = await openDoor(Number(new URL(database.adminUrl).port));
  const through = (address: string) => {
    const url = new URL(address);
    url.port = String(door.port);
    // The certificate is of another name; what it says is not what is tried here.
    url.searchParams.set('sslmode', 'no-verify');
    return url.href;
  };
  try {
    await migrate(through(database.ownerUrl), through(database.serviceUrl), {
      names: migrationNames,
      migrations: () => Promise.resolve(migrations),
      appendOnly,
    });
    const identity = await startIdentity(through(database.serviceUrl));
    try {
      expect(await newUser(identity.client)).toMatchObject({ id: expect.any(String) });
    } finally {
      await identity.end();
    }
    expect(door.unencrypted()).toBe(0);
  } finally {
    door.close();
    await database.drop();
  }
});
