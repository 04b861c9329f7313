// A receiver of webhooks on this machine that can be made to fail.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A receiver that listens. */
export interface DemoReceiver {
  url: string;
  /** How it answers: 204, or 500. */
  isFailing: boolean;
  /** How many deliveries it has answered. */
  deliveries: number;
  close: () => Promise<void>;
}

/** Starts a receiver on 127.0.0.1; undefined where the port is in use. Port 0 is any free one. */
export async function startReceiver(port: number): Promise<DemoReceiver | undefined> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      receiver.deliveries += 1;
      if (receiver.isFailing) response.writeHead(500, { 'content-type': 'text/plain' }).end('the shop is being restarted\n');
      else response.writeHead(204).end();
    });
  });
  const receiver: DemoReceiver = {
    url: '',
    isFailing: false,
    deliveries: 0,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return undefined;
  }
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`;
  return receiver;
}
