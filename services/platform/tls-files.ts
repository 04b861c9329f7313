// The files of mTLS between the processes.
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';

/** Paths of PEM files: the process's certificate, its key, and the authorities whose certificates it accepts. */
export interface TlsFiles {
  cert: string;
  key: string;
  ca: string;
}

/** The files of a server, and whether it takes nothing but mTLS. */
export interface ServerTls extends TlsFiles {
  required: boolean;
}

/** What the files contain. */
export type TlsMaterial = Record<keyof TlsFiles, Buffer>;

/** Reads the files. Throws where one can't be read, or where they don't belong together. */
export function readTlsFiles({ cert, key, ca }: TlsFiles): TlsMaterial {
  const material = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(ca) };
  createSecureContext(material);
  return material;
}
