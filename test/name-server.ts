// A DNS server for tests that answers each question as the test decides.
import { createSocket } from 'node:dgram';
import ipaddr from 'ipaddr.js';

/** What a name has at the moment: addresses, or another name that has them. */
export interface Records {
  addresses: string[];
  alias?: string;
}

/** A running name server. */
export interface NameServer {
  /** `address:port`. */
  address: string;
  /** The names asked for, a line a question: `A hooks.test`. */
  asked: string[];
  close: () => Promise<void>;
}

const types: Record<number, string> = { 1: 'A', 28: 'AAAA' };

/** Starts a name server over UDP; `answer` is asked anew for every question, and every answer may be kept for zero seconds; null is none. */
export async function startNameServer(answer: (name: string, type: string, question: number) => Records | null): Promise<NameServer> {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  socket.on('message', (query, from) => {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length));
      at += 1 + length;
    }
    const type = types[query.readUInt16BE(at + 1)] ?? '';
    const name = labels.join('.').toLowerCase();
    asked.push(`${type} ${name}`);
    const answered = answer(name, type, asked.length);
    if (!answered) return;
    const { addresses, alias } = answered;
    const bytes = addresses.map((each) => ipaddr.parse(each)).filter((each) => (each.kind() === 'ipv4') === (type === 'A'));
    const owner = alias === undefined ? Buffer.from([0xc0, 12]) : nameOf(alias);
    const records = [
      ...(alias === undefined ? [] : [record(Buffer.from([0xc0, 12]), 5, nameOf(alias))]),
      ...bytes.map((each) => record(owner, type === 'A' ? 1 : 28, Buffer.from(each.toByteArray()))),
    ];
    const head = Buffer.from(query.subarray(0, 12));
    // An answer, with recursion, to one question, without further sections.
    head.writeUInt16BE(0x8180, 2);
    [1, records.length, 0, 0].forEach((count, place) => head.writeUInt16BE(count, 4 + 2 * place));
    socket.send(Buffer.concat([head, query.subarray(12, at + 5), ...records]), from.port, from.address);
  });
  await new Promise<void>((done) => socket.bind(0, '127.0.0.1', done));
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    close: () => new Promise<void>((done) => socket.close(() => done())),
  };
}

function nameOf(name: string): Buffer {
  return Buffer.concat([...name.split('.').map((label) => Buffer.from(`${String.fromCharCode(label.length)}${label}`)), Buffer.from([0])]);
}

function record(owner: Buffer, type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(type, 0);
  head.writeUInt16BE(1, 2);
  head.writeUInt16BE(data.length, 8);
  return Buffer.concat([owner, head, data]);
}
