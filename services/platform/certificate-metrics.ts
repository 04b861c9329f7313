// When the certificates of mTLS end, for Prometheus.
import { X509Certificate } from 'node:crypto';
import type { Registry } from 'prom-client';
import { openGauge } from './gauges.ts';
import { readTlsFiles, type TlsFiles } from './tls-files.ts';

/** Adds the gauge of the earliest end among the process's certificate, its chain and its authorities. NaN: files that can't be read. */
export function measureCertificates(metrics: Registry, files: TlsFiles): void {
  const help = 'Earliest end among the certificates of TLS_CERT_FILE and TLS_CA_FILE, Unix time';
  openGauge(metrics, 'tls_certificate_expiry_seconds', help, () => {
    try {
      const { cert, ca } = readTlsFiles(files);
      const certificates = `${String(cert)}${String(ca)}`.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [];
      return Math.min(...certificates.map((pem) => Date.parse(new X509Certificate(pem).validTo))) / 1000;
    } catch {
      return NaN;
    }
  });
}
