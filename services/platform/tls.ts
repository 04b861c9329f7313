// mTLS between the processes: certificates that are read again when their files change.
import type { SecureContextOptions } from 'node:tls';
import { credentials, experimental, type ChannelCredentials } from '@grpc/grpc-js';
import { readTlsFiles, type TlsFiles, type TlsMaterial } from './tls-files.ts';

const readEveryMs = 5_000;

/** What the files contain now; `changed` is called when that is something else. What can't be used leaves things as they are. */
class Certificates {
  current: TlsMaterial;
  private readonly timer: NodeJS.Timeout;
  private failure = '';

  constructor(files: TlsFiles, changed: (material: TlsMaterial) => void) {
    this.current = readTlsFiles(files);
    this.timer = setInterval(() => {
      try {
        const read = readTlsFiles(files);
        this.failure = '';
        if ((['cert', 'key', 'ca'] as const).every((name) => read[name].equals(this.current[name]))) return;
        this.current = read;
        changed(read);
      } catch (error) {
        const { message } = error as Error;
        if (message !== this.failure) process.stderr.write(`the certificates stay as they were: ${message}\n`);
        this.failure = message;
      }
    }, readEveryMs).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }
}

/** What a server presents and accepts; `changed` is called with what takes its place. */
export function serverTls(
  files: TlsFiles,
  changed: (options: SecureContextOptions) => void,
): { options: SecureContextOptions; close: () => void } {
  const optionsOf = (material: TlsMaterial): SecureContextOptions => ({ ...material, minVersion: 'TLSv1.3' });
  const certificates = new Certificates(files, (material) => changed(optionsOf(material)));
  return { options: optionsOf(certificates.current), close: () => certificates.close() };
}

/** The credentials of a caller's channels: each new connection has what the files contain then. Without files nothing is encrypted. */
export function channelTls(files: TlsFiles | undefined): { credentials: ChannelCredentials; close: () => void } {
  if (!files) return { credentials: credentials.createInsecure(), close: () => undefined };
  const listeners = new Map<unknown, () => void>();
  const certificates = new Certificates(files, () => listeners.forEach((tell) => tell()));
  const add = (listener: unknown, tell: () => void) => {
    listeners.set(listener, tell);
    tell();
  };
  const remove = (listener: unknown) => listeners.delete(listener);
  const provider: experimental.CertificateProvider = {
    addCaCertificateListener: (listener) => add(listener, () => listener({ caCertificate: certificates.current.ca })),
    removeCaCertificateListener: remove,
    addIdentityCertificateListener: (listener) =>
      add(listener, () => listener({ certificate: certificates.current.cert, privateKey: certificates.current.key })),
    removeIdentityCertificateListener: remove,
  };
  return { credentials: experimental.createCertificateProviderChannelCredentials(provider, provider), close: () => certificates.close() };
}
