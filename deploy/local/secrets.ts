// What a house generates once and keeps: passwords, tokens, keys and the port of its database server.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { writeWhole } from './children.ts';
import { freePort, isFree } from './ports.ts';

/** Kept in `secrets.json` of the data directory, which only its owner can read. */
export interface Secrets {
  internalToken: string;
  /** Ed25519, PKCS #8, PEM. */
  jwtPrivateKey: string;
  /** Seals webhook secrets: `id:base64 of 32 bytes`. */
  webhookEncryptionKey: string;
  /** Of the embedded server's superuser. */
  postgresPassword: string;
  /** 0: there has been no server. */
  postgresPort: number;
  /** By role. */
  rolePasswords: Record<string, string>;
}

/**
 * Reads the secrets of a data directory, generates those that it does not have yet; `embedded`: for the server whose databases lie there. Throws
 * {@link StartFailure} if they can't be read, are another user's and this one is root, or are missing and that server was made with them.
 */
export async function keepSecrets(dataDirectory: string, roles: string[], embedded: boolean): Promise<Secrets> {
  const file = join(dataDirectory, 'secrets.json');
  const kept = readSecrets(file);
  // Root may write where another user's house lies, who could read nothing of it any more.
  const owner = statSync(file, { throwIfNoEntry: false })?.uid ?? 0;
  if (process.getuid?.() === 0 && owner !== 0) {
    throw new StartFailure(`DATA_DIR: ${dataDirectory} is another user's (${owner}): root would take it from him`);
  }
  const server = join(dataDirectory, 'postgres');
  if (embedded && kept.postgresPassword === undefined && existsSync(join(server, 'PG_VERSION'))) {
    throw new StartFailure(`DATA_DIR: ${file} is missing, without which nobody gets into ${server}: restore it`);
  }
  const secrets: Secrets = {
    internalToken: kept.internalToken ?? newPassword(),
    jwtPrivateKey: kept.jwtPrivateKey ?? newSigningKey(),
    webhookEncryptionKey: kept.webhookEncryptionKey ?? newEncryptionKey(),
    postgresPassword: kept.postgresPassword ?? newPassword(),
    postgresPort: embedded ? await portFor(kept.postgresPort) : (kept.postgresPort ?? 0),
    rolePasswords: { ...Object.fromEntries(roles.map((role) => [role, newPassword()])), ...kept.rolePasswords },
  };
  // Who loses it can open neither the databases nor what is sealed in them.
  writeWhole(file, `${JSON.stringify(secrets, null, 2)}\n`, { flush: true });
  return secrets;
}

/** 256 random bits that need no escaping in an address. */
export function newPassword(): string {
  return randomBytes(32).toString('base64url');
}

/** An Ed25519 key as PKCS #8 PEM. */
export function newSigningKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** 256 random bits under an id of their own. */
export function newEncryptionKey(): string {
  return `${randomBytes(4).toString('hex')}:${randomBytes(32).toString('base64')}`;
}

/** The same port as last time, for those who look into the database by hand, unless another program has taken it, or it is to be another's of this house. */
async function portFor(kept = 0): Promise<number> {
  return kept !== 0 && (await isFree(kept)) ? kept : freePort();
}

function readSecrets(file: string): Partial<Secrets> {
  try {
    const kept: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (typeof kept !== 'object' || kept === null || Array.isArray(kept)) throw new Error('it holds no secrets');
    return kept;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new StartFailure(`DATA_DIR: ${file} can't be read: ${(error as Error).message}`);
  }
}
