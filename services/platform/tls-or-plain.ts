// A server that takes encrypted and plain connections on one port: for the time in which mTLS is turned on or off.
import type { Http2SecureServer, Http2Server } from 'node:http2';
import type { Socket } from 'node:net';

// The first byte of every TLS connection (RFC 8446, section 5.1); HTTP/2 without TLS begins with the letter P.
const handshake = 0x16;

/** Makes a plain server hand the connections that begin with TLS to the encrypted one, which itself does not listen, and close with it. */
export function takingBoth(plain: Http2Server, encrypted: Http2SecureServer): Http2Server {
  const toPlain = plain.listeners('connection') as ((socket: Socket) => void)[];
  plain.removeAllListeners('connection');
  plain.on('connection', (socket: Socket) => {
    // Later ones report it as well; until then an error would end the process.
    socket.on('error', () => undefined);
    socket.once('readable', () => {
      const first = socket.read(1) as Buffer | null;
      if (first === null) return socket.destroy();
      socket.unshift(first);
      if (first[0] === handshake) encrypted.emit('connection', socket);
      else for (const take of toPlain) take.call(plain, socket);
    });
  });
  const close = plain.close.bind(plain);
  plain.close = (done) => {
    encrypted.close();
    return close(done);
  };
  return plain;
}
