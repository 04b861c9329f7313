// What the calls of this service work with, opened once at its start.
import type { MikroORM } from '@mikro-orm/postgresql';
import { FairSemaphore } from '../platform/fair-semaphore.ts';
import type { Pool } from '../platform/postgres.ts';
import type { SecretEncryption } from '../platform/secret-encryption.ts';
import type { OidcClient } from './oidc/oidc-client.ts';
import type { Passwords } from './passwords.ts';
import type { Signer } from './sessions.ts';
import type { Erasures } from './vault/erasures.ts';
import type { Vault } from './vault/vault.ts';

/** The opened parts. */
export interface Parts {
  orm: MikroORM;
  pool: Pool;
  passwords: Passwords;
  signer: Signer;
  oidc: OidcClient;
  /** Encrypts secrets of second factors; their owner is the user's UUID. */
  secrets: SecretEncryption;
  unauthenticated: FairSemaphore;
  users: FairSemaphore;
  /** Limits the database work of the vault. */
  tenants: FairSemaphore;
  vault: Vault;
  erasures: Erasures;
  /** How long after it was closed a tenant is deleted, milliseconds. */
  deleteAfterMs: number;
}

/**
 * Limits the database work of unauthenticated clients, fairly by address: two of five connections stay free to verify keys. Throws
 * {@link Overloaded} where too many wait.
 */
export const unauthenticatedLimit = (): FairSemaphore =>
  new FairSemaphore({ max: 3, maxPerKey: 3, maxWaiting: 1_000, maxWaitingPerKey: 1_000, timeoutMs: 5_000 });

/** Limits the database work of users, fairly by user. */
export const userLimit = (): FairSemaphore => new FairSemaphore({ max: 5, maxPerKey: 3, timeoutMs: 5_000 });

/** Limits the database work of the vault, fairly by tenant. */
export const tenantLimit = (): FairSemaphore => new FairSemaphore({ max: 4, maxPerKey: 3, timeoutMs: 5_000 });
