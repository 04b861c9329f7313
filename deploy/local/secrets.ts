// Generates passwords, tokens, keys and the database port of `npm start` once, and keeps them in DATA_DIR.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { writeAtomically } from './children.ts';
import { freePort, portProblem } from './ports.ts';

/** What the processes of a deployment share, or have to themselves. */
export interface Keys {
  internalToken: string;
  /** Ed25519, PKCS #8, PEM. */
  jwtPrivateKey: string;
  /** Signs checkpoints, likewise. */
  checkpointPrivateKey: string;
  /** Encrypts secrets of second factors: `id:base64 of 32 bytes`. */
  identityEncryptionKey: string;
  /** Encrypts keys and names of subjects of personal data, likewise. */
  subjectEncryptionKey: string;
  /** Encrypts webhook secrets, likewise. */
  webhookEncryptionKey: string;
}

/** The content of `secrets.json` of the data directory, which only its owner can read. */
export interface Secrets extends Keys {
  /** The password of the embedded server's superuser. */
  postgresPassword: string;
  /** The embedded server's port; 0 if there has been none. */
  postgresPort: number;
  /** By role. */
  rolePasswords: Record<string, string>;
}

/**
 * Reads the secrets of a data directory and generates missing ones; `embedded`: whether the directory also has the database server's data. Throws
 * {@link StartFailure} where the file can't be read, belongs to another user while this one is root, or is missing next to an existing server.
 */
export async function loadSecrets(dataDirectory: string, roles: string[], embedded: boolean): Promise<Secrets> {
  const file = join(dataDirectory, 'secrets.json');
  const stored = readSecrets(file);
  // A file that root writes would be unreadable for its former owner.
  const owner = statSync(file, { throwIfNoEntry: false })?.uid ?? 0;
  if (process.getuid?.() === 0 && owner !== 0) {
    throw new StartFailure(`DATA_DIR: ${dataDirectory} belongs to user ${owner}: start as that user`);
  }
  const server = join(dataDirectory, 'postgres');
  if (embedded && stored.postgresPassword === undefined && existsSync(join(server, 'PG_VERSION'))) {
    throw new StartFailure(`DATA_DIR: ${file} is missing, and has the password of ${server}: restore it`);
  }
  const secrets: Secrets = {
    ...newKeys(),
    postgresPassword: newPassword(),
    ...stored,
    postgresPort: embedded ? await portFor(stored.postgresPort) : (stored.postgresPort ?? 0),
    rolePasswords: { ...Object.fromEntries(roles.map((role) => [role, newPassword()])), ...stored.rolePasswords },
  };
  writeAtomically(file, `${JSON.stringify(secrets, null, 2)}\n`, { flush: true });
  return secrets;
}

/** Keys of a new deployment. */
export const newKeys = (): Keys => ({
  internalToken: newPassword(),
  jwtPrivateKey: newSigningKey(),
  checkpointPrivateKey: newSigningKey(),
  identityEncryptionKey: newEncryptionKey(),
  subjectEncryptionKey: newEncryptionKey(),
  webhookEncryptionKey: newEncryptionKey(),
});

/** 256 random bits that need no escaping in a URL. */
export function newPassword(): string {
  return randomBytes(32).toString('base64url');
}

/** An Ed25519 key as PKCS #8 PEM. */
export function newSigningKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** 256 random bits with a random id. */
export function newEncryptionKey(): string {
  return `${randomBytes(4).toString('hex')}:${randomBytes(32).toString('base64')}`;
}

// The same port as last time if it is free, for tools that connect to the database.
async function portFor(last = 0): Promise<number> {
  return last !== 0 && (await portProblem('127.0.0.1', last)) === undefined ? last : freePort();
}

function readSecrets(file: string): Partial<Secrets> {
  try {
    const content: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (typeof content !== 'object' || content === null || Array.isArray(content)) throw new Error('it has no secrets');
    return content;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new StartFailure(`DATA_DIR: ${file} can't be read: ${(error as Error).message}`);
  }
}
