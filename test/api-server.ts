// A real Kubernetes API server on its etcd, without nodes or controllers: what it takes and refuses, and what it makes of an object.
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { Agent, fetch } from 'undici';
import { join } from 'node:path';
import { root } from '../deploy/local/plan.ts';
import { newChildren, testPort } from './cluster.ts';
import type { Manifest } from './kubernetes.ts';
import { until } from './polling.ts';
import { bareEnvironment, currentRun } from './run.ts';

/** Whether both programs are installed: `.ci/tools etcd kube-apiserver`. */
export const hasApiServer = ['etcd', 'kube-apiserver'].every((name) => spawnSync(name, ['--version']).status === 0);

/** A server with an empty store. */
export interface ApiServer {
  /** Runs a line of shell in the root of the tree, where kubectl talks to the server. Throws what it has printed where it fails or warns. */
  shell: (line: string, input?: string) => string;
  /** Asks the server to make an object, as if, and with an error for each unknown field. Resolves to the status and the answer. */
  tryCreate: (path: string, object: Manifest) => Promise<{ status: number; body: Manifest }>;
  get: (path: string) => Promise<Manifest>;
  end: () => Promise<unknown>;
}

/** Starts one on ports of its own. */
export async function startApiServer(): Promise<ApiServer> {
  const directory = mkdtempSync(join(currentRun().directory, 'api-server-'));
  const children = newChildren();
  const [etcd, peers, port] = [await testPort(), await testPort(), await testPort()];
  const etcdUrl = `http://127.0.0.1:${etcd}`;
  const peerUrl = `http://127.0.0.1:${peers}`;
  const flags = (of: Record<string, string>) => Object.entries(of).map(([name, value]) => `--${name}=${value}`);
  children.start({
    name: 'etcd',
    command: 'etcd',
    args: flags({
      'data-dir': join(directory, 'etcd'),
      'listen-client-urls': etcdUrl,
      'advertise-client-urls': etcdUrl,
      'listen-peer-urls': peerUrl,
      'initial-advertise-peer-urls': peerUrl,
      'initial-cluster': `default=${peerUrl}`,
      'unsafe-no-fsync': 'true',
    }),
    env: bareEnvironment,
  });
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const file = (name: string, text: string) => (writeFileSync(join(directory, name), text), join(directory, name));
  const token = 'token-of-the-test';
  const server = children.start({
    name: 'kube-apiserver',
    command: 'kube-apiserver',
    args: flags({
      'etcd-servers': etcdUrl,
      'bind-address': '127.0.0.1',
      'secure-port': String(port),
      'cert-dir': join(directory, 'certificates'),
      'service-cluster-ip-range': '10.96.0.0/16',
      'service-account-issuer': 'https://kubernetes.default.svc',
      'service-account-key-file': file('service-accounts.pem', publicKey),
      'service-account-signing-key-file': file('service-accounts.key', privateKey),
      'token-auth-file': file('tokens.csv', `${token},test,test,system:masters\n`),
      'authorization-mode': 'RBAC',
    }),
    env: bareEnvironment,
  });
  const url = `https://127.0.0.1:${port}`;
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  const call = async (path: string, body?: Manifest) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const answer = await fetch(`${url}${path}`, { headers, dispatcher, ...sent });
    return { status: answer.status, text: await answer.text() };
  };
  await until(
    () => {
      if (!server.running()) throw new Error(`the API server has ended: ${server.output().slice(-2_000)}`);
      return call('/readyz').catch((error: unknown) => ({ status: 0, text: String(error) }));
    },
    ({ status }) => status === 200,
  );
  const home = join(directory, 'home');
  mkdirSync(home);
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  };
  const env = { ...bareEnvironment, HOME: home, KUBECONFIG: file('kubeconfig', JSON.stringify(config)) };
  return {
    shell: (line, input) => {
      const { status, stdout, stderr } = spawnSync('sh', ['-euc', line], { cwd: root, env, input, encoding: 'utf8' });
      if (status !== 0 || stderr !== '') throw new Error(`${line}\n${stdout}${stderr}`);
      return stdout;
    },
    tryCreate: async (path, object) => {
      const { status, text } = await call(`${path}?dryRun=All&fieldValidation=Strict`, object);
      return { status, body: JSON.parse(text) as Manifest };
    },
    get: async (path) => JSON.parse((await call(path)).text) as Manifest,
    end: async () => {
      await dispatcher.close();
      return children.end();
    },
  };
}
