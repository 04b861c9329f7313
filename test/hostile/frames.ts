// HTTP/2 by hand, for clients that do what no library does: frames as bytes over a socket of their own (RFC 9113, HPACK without indexing).
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** Types of frames. */
export const type = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7, windowUpdate: 8, continuation: 9 };

/** Flags of frames; an acknowledgement has that of an end of the stream. */
export const flag = { none: 0, endStream: 1, endHeaders: 4 };

/** One frame. */
export function frame(kind: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(kind, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A number as the payload of a frame. */
export function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A block of header fields, each written out. */
export function block(fields: Record<string, string>): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value);
    const length = bytes.length < 127 ? [bytes.length] : [127];
    for (let rest = bytes.length - 127; rest >= 0; rest = rest < 128 ? -1 : Math.floor(rest / 128)) {
      length.push(rest < 128 ? rest : (rest % 128) + 128);
    }
    return Buffer.concat([Buffer.from(length), bytes]);
  };
  return Buffer.concat(Object.entries(fields).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

/** A gRPC message as it travels in DATA. */
export function message(bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([0]), number(bytes.length), bytes]);
}

const preface = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(type.settings, flag.none, 0)]);

/** What became of an attack. */
export interface Attack {
  connections: number;
  /** Pieces that were sent. */
  sent: number;
  /** Connections that the server has ended. */
  ended: number;
  /** Error codes of GOAWAY frames, with how often each came. */
  goaways: Map<number, number>;
}

/** A connection that has said who it is, as one of HTTP/2. */
export interface Peer {
  socket: Socket;
  /** Set once the server has ended it. */
  ended: boolean;
  /** Error codes of GOAWAY frames. */
  goaways: number[];
  /** Frames of PING that came, which are answers to ours. */
  pings: number;
  /** Resolves when the bytes may be followed by more, or the connection has ended. */
  send(bytes: Uint8Array): Promise<void>;
}

/** Opens a connection. `deaf`: what the server says is never read. */
export function open(port: number, { deaf = false } = {}): Promise<Peer> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const peer: Peer = {
      socket,
      ended: false,
      goaways: [],
      pings: 0,
      send: (bytes) =>
        new Promise((sent) => {
          if (peer.ended || socket.write(bytes)) setImmediate(sent);
          else {
            const go = () => {
              socket.off('drain', go).off('close', go);
              sent();
            };
            socket.on('drain', go).on('close', go);
          }
        }),
    };
    let rest = Buffer.alloc(0);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      peer.ended = true;
      resolve(peer);
    });
    if (!deaf) {
      socket.on('data', (chunk: Buffer) => {
        rest = Buffer.concat([rest, chunk]);
        while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
          const length = rest.readUIntBE(0, 3);
          if (rest[3] === type.ping) peer.pings += 1;
          if (rest[3] === type.goaway) peer.goaways.push(rest.readUInt32BE(9 + 4));
          rest = rest.subarray(9 + length);
        }
      });
    }
    socket.on('connect', () => {
      socket.write(preface);
      resolve(peer);
    });
  });
}

/**
 * Sends the pieces, in order and as fast as the server takes them, on several connections at once, each opened anew when the server ends it
 * or all pieces are sent; goes on for that many seconds.
 */
export async function attack(
  port: number,
  pieces: Buffer[],
  { seconds = 3, connections = 4, deaf = false, rest = 0 } = {},
): Promise<Attack> {
  const seen: Attack = { connections: 0, sent: 0, ended: 0, goaways: new Map() };
  const until = Date.now() + seconds * 1000;
  const one = async () => {
    while (Date.now() < until) {
      const peer = await open(port, { deaf });
      seen.connections += 1;
      for (const piece of pieces) {
        if (peer.ended || Date.now() > until) break;
        // One that is deaf may be left waiting for ever.
        await Promise.race([peer.send(piece), pause(Math.max(0, until - Date.now()), undefined, { ref: false })]);
        seen.sent += 1;
        if (rest > 0) await pause(rest);
      }
      // The last words of the server are heard.
      for (const end = Date.now() + 100; !peer.ended && Date.now() < end;) await pause(5);
      if (peer.ended) seen.ended += 1;
      for (const code of peer.goaways) seen.goaways.set(code, (seen.goaways.get(code) ?? 0) + 1);
      peer.socket.destroy();
    }
  };
  await Promise.all(Array.from({ length: connections }, one));
  return seen;
}
