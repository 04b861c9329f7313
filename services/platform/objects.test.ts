import { connect, type ClientHttp2Session } from 'node:http2';
import { create, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { LedgerService, PostTransactionsRequestSchema as Batch } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { makesMoreThan } from './objects.ts';
import { serve, type Served } from './serve.ts';
import { openLog } from './telemetry.ts';

/** So many bytes of a record, again and again. */
const repeated = (record: number[], bytes: number) => Buffer.alloc(bytes - (bytes % record.length), Buffer.from(record));

/** A posting (field 1 of a batch) that holds these bytes. */
function posting(bytes: Uint8Array): Buffer {
  const length = [0, 7, 14, 21].map((shift) => ((bytes.length >> shift) & 127) | (shift < 21 ? 128 : 0));
  return Buffer.concat([Buffer.from([0x0a, ...length]), bytes]);
}

/** As many postings and entries as are legal. */
function largest(): Uint8Array {
  const entry = { accountCode: 'CUSTOMER-WALLETS-NGN', amount: '1234567890.12', side: 'debit', currency: 'NGN' };
  const each = { tenantId: `tenant_${'0'.repeat(26)}`, description: 'many', entries: Array.from({ length: 200 }, () => entry) };
  return toBinary(Batch, create(Batch, { postings: Array.from({ length: 1000 }, () => each) }));
}

// Each as many as `bytes` have room for.
const shapes: [string, (bytes: number) => Buffer][] = [
  ['empty postings', (bytes) => repeated([0x0a, 0], bytes)],
  ['empty entries of one posting', (bytes) => posting(repeated([0x32, 0], bytes))],
  ['unknown numbers', (bytes) => repeated([0x78, 0], bytes)],
  ['unknown fixed numbers', (bytes) => repeated([0x7d, 0, 0, 0, 0], bytes)],
  ['unknown fixed numbers of 8 bytes', (bytes) => repeated([0x79, 0, 0, 0, 0, 0, 0, 0, 0], bytes)],
  ['unknown texts', (bytes) => repeated([0x7a, 1, 97], bytes)],
  ['unknown groups', (bytes) => repeated([0x7b, 0x7c], bytes)],
  ['unknown fields of one posting', (bytes) => posting(repeated([0x78, 0], bytes))],
  ['the same field', (bytes) => repeated([0x10, 1], bytes)],
];

describe('counting', () => {
  test.each<[string, number, Uint8Array]>([
    ['postings', 7, repeated([0x0a, 0], 14)],
    ['a posting and its entries', 7, posting(repeated([0x32, 0], 12))],
    ['entries with what they hold', 5, posting(repeated([0x32, 3, 0x12, 1, 49], 20))],
    ['fields that are not known', 4, Buffer.from([0x78, 0, 0x7a, 1, 97, 0x7d, 0, 0, 0, 0, 0x79, 0, 0, 0, 0, 0, 0, 0, 0])],
    ['a number of ten bytes that is not known', 1, Buffer.from([0x78, ...Array<number>(9).fill(255), 1])],
    ['the largest legal batch', 1000 + 200 * 1000, largest()],
  ])('finds %s exactly', (_, count, bytes) => {
    expect([makesMoreThan(count, Batch, bytes), makesMoreThan(count - 1, Batch, bytes)]).toEqual([false, true]);
  });

  test('of known fields 16 are allowed for each object', () => {
    const bools = (count: number) => repeated([0x10, 1], 2 * count);
    expect([makesMoreThan(3, Batch, bools(48)), makesMoreThan(3, Batch, bools(49))]).toEqual([false, true]);
  });

  test.each(shapes)('%s are too many, of which one after the other may be refused', (_, make) => {
    expect(makesMoreThan(1000, Batch, make(100_000))).toBe(true);
  });

  test('bytes that are no message throw, or are left to decoding', () => {
    expect(() => makesMoreThan(0, Batch, Buffer.from([0x0a, 0xff]))).toThrow();
    expect(makesMoreThan(1, Batch, Buffer.from([0x12, 100, 0]))).toBe(false);
  });
});

describe('a service', () => {
  let server: Served;
  let session: ClientHttp2Session;
  let answered = 0;

  beforeAll(async () => {
    server = await serve({
      host: '127.0.0.1',
      port: 0,
      services: [LedgerService],
      routes: (router) => {
        router.service(LedgerService, { postTransactions: ({ postings }) => ((answered += postings.length), {}) });
      },
      tokens: ['right'],
      maxMessageBytes: 32 << 20,
      logger: openLog('test', 'silent'),
      metrics: new Registry(),
      readiness: () => Promise.resolve({ ready: true, dependencies: {} }),
    });
    session = connect(`http://127.0.0.1:${server.port}`);
  });
  afterAll(async () => {
    session.close();
    await server.close();
  });
  beforeEach(() => {
    answered = 0;
  });

  async function call(message: Uint8Array, contentType = 'application/grpc'): Promise<Record<string, unknown>> {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/ledger.v1.LedgerService/PostTransactions',
      'content-type': contentType,
      te: 'trailers',
      authorization: 'Bearer right',
    });
    const said: Record<string, unknown> = {};
    stream.on('response', (given) => Object.assign(said, given));
    stream.on('trailers', (given) => Object.assign(said, given));
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    stream.end(contentType === 'application/json' ? message : Buffer.concat([head, message]));
    await new Promise((done, fail) => stream.resume().on('end', done).on('error', fail));
    stream.close();
    return said;
  }

  async function timed(message: Uint8Array): Promise<{ said: Record<string, unknown>; ms: number }> {
    const started = performance.now();
    return { said: await call(message), ms: performance.now() - started };
  }

  test('answers the largest legal batch, and refuses as many bytes of small objects without taking longer', async () => {
    const legal = largest();
    // The best of some: what else the machine does is not of interest.
    const best: Record<string, number> = {};
    const note = (name: string, ms: number) => (best[name] = Math.min(best[name] ?? Infinity, ms));
    const hostile = shapes.map(([name, make]) => [name, make(legal.length)] as const);
    for (let round = 0; round < 3; round++) {
      const { said, ms } = await timed(legal);
      note('legal', ms);
      expect(said['grpc-status']).toBe('0');
      for (const [name, message] of hostile) {
        const refused = await timed(message);
        note(name, refused.ms);
        expect([name, refused.said['grpc-status']]).toEqual([name, String(Code.InvalidArgument)]);
        expect(decodeURIComponent(String(refused.said['grpc-message']))).toMatch(/^the message holds more than \d+ others$/);
      }
    }
    expect(answered).toBe(3 * 1000);
    // Decoded, empty postings took ten times as long.
    for (const [name, ms] of Object.entries(best)) expect([name, ms < 2 * (best['legal'] ?? 0)]).toEqual([name, true]);
  });

  test('takes a mebibyte of what is no plain gRPC, and no more', async () => {
    const text = (bytes: number) => Buffer.from(`{"postings":[]}${' '.repeat(bytes - 15)}`);
    expect((await call(text(1 << 20), 'application/json'))[':status']).toBe(200);
    expect((await call(text((1 << 20) + 1), 'application/json'))[':status']).toBe(429);
    expect((await call(text(1 << 20), 'application/grpc+json'))['grpc-status']).toBe('0');
    expect((await call(text((1 << 20) + 1), 'application/grpc+json'))['grpc-status']).toBe(String(Code.ResourceExhausted));
  });
});
