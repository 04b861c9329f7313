// A witness of transparency logs, which checks what it is sent as https://c2sp.org/tlog-witness says, over HTTP in the test's process.
import { createPublicKey, generateKeyPairSync, hash, sign, verify, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { isConsistent } from './rfc9162.ts';

/** A running witness. */
export interface TestWitness {
  /** For the setting `WITNESSES`. */
  line: string;
  vkey: string;
  url: string;
  /** Status codes that it has answered, the newest last. */
  answers: number[];
  /** What it has cosigned, by origin. */
  logs: Map<string, { size: number; root: Buffer }>;
  /** Cosigns checkpoints of a log with this verifier key. */
  trust: (vkey: string) => void;
  /** What it does instead of its work: answers 503, or with a signature of another note. */
  fault: 'unavailable' | 'forged' | undefined;
  close: () => Promise<void>;
}

const sha256 = (data: Buffer) => hash('sha256', data, 'buffer');

/** The parts of a verifier key. */
function partsOf(vkey: string): { name: string; id: string; key: KeyObject } {
  const [, name = '', id = '', base64 = ''] = /^(.+)\+([0-9a-f]{8})\+(.+)$/.exec(vkey) ?? [];
  const x = Buffer.from(base64, 'base64').subarray(1).toString('base64url');
  return { name, id, key: createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }) };
}

/** Starts a witness with a key of its own, on any port. */
export async function startWitness(name: string): Promise<TestWitness> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const typed = Buffer.concat([Buffer.of(4), publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)]);
  const id = sha256(Buffer.concat([Buffer.from(`${name}\n`), typed])).subarray(0, 4);
  const trusted = new Map<string, ReturnType<typeof partsOf>[]>();
  const logs: TestWitness['logs'] = new Map();
  const cosigned = (body: string): string => {
    const time = Buffer.alloc(8);
    time.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 1000)));
    const signature = sign(null, Buffer.from(`cosignature/v1\ntime ${time.readBigUInt64BE()}\n${body}`), privateKey);
    return `— ${name} ${Buffer.concat([id, time, signature]).toString('base64')}\n`;
  };
  const answer = async (request: IncomingMessage): Promise<{ status: number; body?: string; type?: string }> => {
    if (witness.fault === 'unavailable') return { status: 503 };
    if (request.method !== 'POST' || request.url !== '/add-checkpoint') return { status: 404 };
    const [, old = '', lines = '', body = '', signatures = ''] =
      /^old (0|[1-9][0-9]*)\n((?:[A-Za-z0-9+/]{43}=\n){0,63})\n((?:[^\n]+\n){3})\n((?:— [^\n]+\n)+)$/.exec(await text(request)) ?? [];
    const [origin = '', size = '', root = ''] = body.split('\n');
    if (!/^(0|[1-9][0-9]*)$/.test(size) || Number(old) > Number(size)) return { status: 400 };
    const keys = trusted.get(origin);
    if (!keys) return { status: 404 };
    const isSigned = signatures.split('\n').some((line) => {
      const [, by, base64 = ''] = /^— (\S+) (\S+)$/.exec(line) ?? [];
      const bytes = Buffer.from(base64, 'base64');
      const known = keys.find((each) => each.name === by && each.id === bytes.subarray(0, 4).toString('hex'));
      return known !== undefined && verify(null, Buffer.from(body), known.key, bytes.subarray(4));
    });
    if (!isSigned) return { status: 403 };
    const last = logs.get(origin) ?? { size: 0, root: Buffer.alloc(0) };
    if (Number(old) !== last.size) return { status: 409, body: `${last.size}\n`, type: 'text/x.tlog.size' };
    const now = { size: Number(size), root: Buffer.from(root, 'base64') };
    const path = lines
      .split('\n')
      .filter(Boolean)
      .map((line) => Buffer.from(line, 'base64'));
    if (last.size === now.size && !last.root.equals(now.root)) return { status: 409 };
    if (last.size === 0 ? path.length > 0 : !isConsistent(last.size, now.size, last.root, now.root, path)) return { status: 422 };
    logs.set(origin, now);
    return {
      status: 200,
      body: `— ${name} ${Buffer.alloc(76).toString('base64')}\n${cosigned(witness.fault === 'forged' ? `${body}x` : body)}`,
    };
  };
  const server = createServer((request, response) => {
    void answer(request).then(({ status, body = '', type = 'text/plain' }) => {
      witness.answers.push(status);
      response.writeHead(status, { 'content-type': type }).end(body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const vkey = `${name}+${id.toString('hex')}+${typed.toString('base64')}`;
  const witness: TestWitness = {
    line: `${vkey} ${url}`,
    vkey,
    url,
    answers: [],
    logs,
    trust: (of) => {
      const parts = partsOf(of);
      trusted.set(parts.name, [...(trusted.get(parts.name) ?? []), parts]);
    },
    fault: undefined,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return witness;
}
