// The receiver of webhook benchmarks, in a thread of its own: checks each delivery's signature and notes when it arrived.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { bodySignature } from '../../services/notifier/webhook.ts';

/** The secret of every webhook of the benchmarks. */
export const secret = 'secret of the benchmark';

interface Arrived {
  keys: string[];
  /** As {@link now} tells it. */
  times: number[];
  wrong: number;
}

/** Milliseconds of a clock that all threads of this process share. */
export const now = (): number => performance.timeOrigin + performance.now();

/** The main thread's side. */
export class BenchReceiver {
  /** When the delivery of each posting first arrived, by idempotency key. */
  readonly times = new Map<string, number>();
  /** Deliveries with a right signature. */
  verified = 0;
  wrong = 0;
  readonly url: string;
  private readonly worker: Worker;

  private constructor(worker: Worker, port: number) {
    this.worker = worker;
    this.url = `http://127.0.0.1:${port}`;
    worker.on('message', ({ keys, times, wrong }: Arrived) => {
      this.wrong += wrong;
      this.verified += keys.length;
      keys.forEach((key, index) => this.times.has(key) || this.times.set(key, times[index]!));
    });
  }

  static async open(): Promise<BenchReceiver> {
    const worker = new Worker(new URL(import.meta.url), { workerData: 'receiver' });
    const port = await new Promise<number>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    return new BenchReceiver(worker, port);
  }

  async close(): Promise<void> {
    await this.worker.terminate();
  }
}

function receive(): void {
  let arrived: Arrived = { keys: [], times: [], wrong: 0 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const isRight = request.headers['x-webhook-signature'] === bodySignature(secret, body);
      if (isRight) {
        arrived.times.push(now());
        arrived.keys.push(/"idempotency_key":"([^"]+)"/.exec(body)?.[1] ?? '');
      } else arrived.wrong++;
      response.writeHead(isRight ? 204 : 401).end();
    });
  });
  setInterval(() => {
    if (arrived.keys.length + arrived.wrong === 0) return;
    parentPort?.postMessage(arrived);
    arrived = { keys: [], times: [], wrong: 0 };
  }, 10);
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
}

if (!isMainThread && workerData === 'receiver') receive();
