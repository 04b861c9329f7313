// mTLS between a gateway and an identity service, two real processes, whose certificates change while they run.
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { createClient } from '@connectrpc/connect';
import { pino } from 'pino';
import { Health } from '../proto/gen/grpc/health/v1/health_pb.js';
import { openCaller } from '../services/platform/caller.ts';
import { commonSettings, Settings } from '../services/platform/settings.ts';
import type { TlsFiles } from '../services/platform/tls-files.ts';
import { freshDatabase, testPort, type FreshDatabase } from './cluster.ts';
import { startGatewayOnly, type GatewayOnly } from './gateway-only.ts';
import { startGrpcServer } from './grpc-server.ts';
import { encryptionKey, launchIdentity, signingKey } from './identity.ts';
import { until } from './polling.ts';
import { first, second } from './process-certificates.ts';
import { currentRun } from './run.ts';

const token = 'token-of-the-test';
let database: FreshDatabase;
let identity: ReturnType<typeof launchIdentity>;
let gateway: GatewayOnly;
let port: number;
let startAgain: () => void;

/** Files with these contents. */
function filesOf(name: string, contents: typeof first): TlsFiles {
  const directory = mkdtempSync(join(currentRun().directory, `${name}-`));
  const files = { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key'), ca: join(directory, 'ca.crt') };
  fill(files, contents);
  return files;
}

function fill(files: TlsFiles, contents: typeof first): void {
  for (const name of ['cert', 'key', 'ca'] as const) writeFileSync(files[name], contents[name]);
}

const variables = ({ cert, key, ca }: TlsFiles) => ({ TLS_CERT_FILE: cert, TLS_KEY_FILE: key, TLS_CA_FILE: ca });

/** The serial number that the service presents to a client with these certificates; why it accepts none otherwise. */
function presented(contents: Partial<typeof first>): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ALPNProtocols: ['h2'], ...contents });
    let serial = '';
    socket.on('secureConnect', () => (serial = socket.getPeerCertificate().serialNumber));
    // With TLS 1.3 a server refuses after the client's handshake; one that accepts sends its HTTP/2 settings.
    socket.on('data', () => (resolve(serial), socket.destroy()));
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.on('close', () => resolve('closed'));
  });
}

let users = 0;
const signUp = async () => {
  const body = JSON.stringify({
    email: `mtls-${(users += 1)}@example.com`,
    password: 'a long enough password',
    first_name: 'Ada',
    last_name: 'Lovelace',
  });
  const answer = await fetch(`${gateway.url}/v1/auth/register`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return answer.status;
};

const ofIdentity = () => filesOf('identity', first);
let files: { identity: TlsFiles; gateway: TlsFiles };

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  port = await testPort();
  files = { identity: ofIdentity(), gateway: filesOf('gateway', first) };
  startAgain = () => {
    identity = launchIdentity({
      MAIL_DIR: mkdtempSync(join(currentRun().directory, 'mail-')),
      DATABASE_URL: database.serviceUrl,
      INTERNAL_TOKEN: token,
      JWT_PRIVATE_KEY: signingKey,
      IDENTITY_ENCRYPTION_KEY: encryptionKey,
      SUBJECT_ENCRYPTION_KEY: encryptionKey,
      PORT: String(port),
      ...variables(files.identity),
    });
  };
  startAgain();
  gateway = await startGatewayOnly({ INTERNAL_TOKEN: token, IDENTITY_ADDR: `localhost:${port}`, ...variables(files.gateway) });
  await until(signUp, (status) => status === 201);
});

afterAll(async () => {
  await gateway.stop();
  await identity.end();
  await database.drop();
});

test('a client without a certificate, of another authority, or by another name is not served', async () => {
  expect(await presented(first)).toBe('01');
  const [, end] = /^tls_certificate_expiry_seconds\S* (\S+)$/m.exec(await (await fetch(`${gateway.url}/metrics`)).text()) ?? [];
  expect(Number(end)).toBe(Math.min(...[first.cert, first.ca].map((pem) => Date.parse(new X509Certificate(pem).validTo) / 1000)));
  expect(await presented({ ca: first.ca })).toMatch(/ALERT|ECONNRESET|closed/);
  expect(await presented({ ...second, ca: first.ca })).toMatch(/ALERT|ECONNRESET|closed/);
  expect(await presented({ ...first, ca: second.ca })).toMatch(/SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE/);
  for (const options of [{}, { tls: files.gateway }]) {
    // The certificate has the name localhost, and no address.
    const caller = openCaller({ addresses: [`127.0.0.1:${port}`], token, maxMessageBytes: 1 << 20, ...options });
    await expect(createClient(Health, caller).check({}, { timeoutMs: 2_000 })).rejects.toThrow(/unavailable|deadline/);
    caller.close();
  }
});

test('both read certificates again without a restart, and keep the old ones while the new ones are no use', async () => {
  writeFileSync(files.identity.cert, second.cert);
  await until(
    () => Promise.resolve(identity.child.output()),
    (output) => output.includes('the certificates stay as they were'),
  );
  expect([await presented(first), await signUp()]).toEqual(['01', 201]);

  fill(files.identity, second);
  fill(files.gateway, second);
  await until(
    () => presented(second),
    (serial) => serial === '02',
  );
  expect(await presented({ ...first, ca: second.ca })).toMatch(/ALERT|ECONNRESET|closed/);
  // The gateway connects anew, and has not been started again.
  await identity.end();
  startAgain();
  await until(signUp, (status) => status === 201);
});

test('turned on or off step by step, processes of a step and of the next call each other', async () => {
  const files = variables(filesOf('steps', first));
  const steps = [{}, { ...files, TLS_MODE: 'accept' }, { ...files, TLS_MODE: 'call' }, files].map((step) =>
    commonSettings(new Settings({ INTERNAL_TOKEN: token, ...step }), 1),
  );
  const warnings: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) });
  const servers = await Promise.all(steps.map(({ serverTls: tls }) => startGrpcServer({ tls, tokens: [token], logger })));
  expect(warnings.map((line) => JSON.parse(line).msg)).toEqual(Array(2).fill(expect.stringMatching(/^plain calls are answered too/)));
  const answered = await Promise.all(
    steps.map(({ tls }) =>
      Promise.all(
        servers.map(async (server) => {
          const caller = openCaller({ addresses: [`localhost:${server.port}`], token, maxMessageBytes: 1 << 20, tls });
          const answer = await createClient(Health, caller)
            .check({}, { timeoutMs: 5_000 })
            .catch(() => undefined);
          caller.close();
          return answer !== undefined;
        }),
      ),
    ),
  );
  // Rows call, columns answer.
  expect(answered).toEqual([
    [true, true, true, false],
    [true, true, true, false],
    [false, true, true, true],
    [false, true, true, true],
  ]);
  await Promise.all(servers.map((server) => server.close()));
});

test('a setting that can not work is named', () => {
  const common = (env: NodeJS.ProcessEnv) => () => commonSettings(new Settings({ INTERNAL_TOKEN: token, ...env }), 1);
  const { TLS_KEY_FILE, ...rest } = variables(filesOf('settings', { ...first, key: second.key }));
  expect(common(rest)).toThrow('TLS_KEY_FILE is not set: TLS_CERT_FILE, TLS_KEY_FILE and TLS_CA_FILE belong together');
  expect(common({ TLS_MODE: 'accept' })).toThrow('TLS_MODE needs TLS_CERT_FILE, TLS_KEY_FILE and TLS_CA_FILE');
  expect(common({ ...variables(filesOf('mode', first)), TLS_MODE: 'on' })).toThrow(
    'TLS_MODE must be one of accept, call, require, not "on"',
  );
  expect(common({ ...rest, TLS_KEY_FILE })).toThrow(
    /^TLS_CERT_FILE can't be used with TLS_KEY_FILE and TLS_CA_FILE: .*key values mismatch/,
  );
});
