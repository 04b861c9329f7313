// The receiver of the webhook benchmark, in a thread of its own: checks each delivery's signature and notes when it came.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { bodySignature } from '../../services/notifier/webhook.ts';

/** The secret of every webhook of the benchmark. */
export const secret = 'secret of the benchmark';

interface Arrived {
  transactions: string[];
  /** As {@link now} tells it. */
  times: number[];
  refused: number;
}

/** Milliseconds of a clock that all threads of this process share. */
export const now = (): number => performance.timeOrigin + performance.now();

/** The other side of the thread. */
export class Door {
  /** When each transaction's delivery came first. */
  readonly times = new Map<string, number>();
  /** Deliveries whose signature was right. */
  verified = 0;
  refused = 0;
  readonly url: string;
  private readonly worker: Worker;

  private constructor(worker: Worker, port: number) {
    this.worker = worker;
    this.url = `http://127.0.0.1:${port}`;
    worker.on('message', ({ transactions, times, refused }: Arrived) => {
      this.refused += refused;
      this.verified += transactions.length;
      transactions.forEach((id, place) => this.times.has(id) || this.times.set(id, times[place]!));
    });
  }

  static async open(): Promise<Door> {
    const worker = new Worker(new URL(import.meta.url), { workerData: 'receiver' });
    const port = await new Promise<number>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    return new Door(worker, port);
  }

  /** Ends the thread with its connections. */
  async close(): Promise<void> {
    await this.worker.terminate();
  }
}

function receive(): void {
  let arrived: Arrived = { transactions: [], times: [], refused: 0 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url === '/hang') return;
      const body = Buffer.concat(chunks).toString();
      const right = request.headers['x-webhook-signature'] === bodySignature(secret, body);
      if (right) {
        arrived.times.push(now());
        arrived.transactions.push(/"transaction_id":"(\w+)"/.exec(body)?.[1] ?? '');
      } else arrived.refused++;
      response.writeHead(right ? 204 : 401).end();
    });
  });
  setInterval(() => {
    if (arrived.transactions.length + arrived.refused === 0) return;
    parentPort?.postMessage(arrived);
    arrived = { transactions: [], times: [], refused: 0 };
  }, 10);
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
}

if (!isMainThread && workerData === 'receiver') receive();
