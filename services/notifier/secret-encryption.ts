// Encryption of webhook secrets and headers at rest: AES-256-GCM with the tenant's id as associated data.
import { createCipheriv, createDecipheriv, randomBytes, type KeyObject } from 'node:crypto';

/** A key and its name, which each encrypted text begins with. */
export interface EncryptionKey {
  id: string;
  /** 32 bytes. */
  key: KeyObject;
}

/** Thrown for a text that can't be decrypted: unknown key, changed text, or another tenant's. */
export class DecryptError extends Error {}

const maxCached = 1_000;

/** Encrypts with the first key, decrypts with the key that a text names. */
export class SecretEncryption {
  private readonly keys: readonly [EncryptionKey, ...EncryptionKey[]];
  // Decrypting costs 40 µs, a third of signing and sending a delivery.
  private readonly cache = new Map<string, string>();

  constructor(keys: readonly [EncryptionKey, ...EncryptionKey[]]) {
    this.keys = keys;
  }

  get keyIds(): string[] {
    return this.keys.map(({ id }) => id);
  }

  /** `key id : base64 of nonce, ciphertext and tag`. */
  encrypt(tenant: string, text: string): string {
    const { id, key } = this.keys[0];
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(tenant));
    return `${id}:${Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString('base64')}`;
  }

  /** Throws {@link DecryptError}. */
  decrypt(tenant: string, encrypted: string): string {
    const place = `${tenant} ${encrypted}`;
    const cached = this.cache.get(place);
    if (cached !== undefined) return cached;
    const text = this.read(tenant, encrypted);
    if (this.cache.size >= maxCached) this.cache.clear();
    this.cache.set(place, text);
    return text;
  }

  /** The newest of a webhook's secrets and, where possible, those before it. Throws {@link DecryptError} where the newest can't be decrypted. */
  decryptAll(tenant: string, [newest = '', ...before]: string[]): string[] {
    const others = before.flatMap((encrypted) => {
      try {
        return [this.decrypt(tenant, encrypted)];
      } catch (error) {
        // A new secret replaces a lost one at once, not at the overlap's end.
        if (error instanceof DecryptError) return [];
        throw error;
      }
    });
    return [this.decrypt(tenant, newest), ...others];
  }

  private read(tenant: string, encrypted: string): string {
    const colon = encrypted.indexOf(':');
    const id = encrypted.slice(0, colon);
    const known = this.keys.find((each) => each.id === id);
    if (!known)
      throw new DecryptError(`a webhook’s secret or headers are encrypted with key ${id}, which WEBHOOK_ENCRYPTION_KEY does not name`);
    const bytes = Buffer.from(encrypted.slice(colon + 1), 'base64');
    try {
      const decipher = createDecipheriv('aes-256-gcm', known.key, bytes.subarray(0, 12), { authTagLength: 16 });
      decipher.setAAD(Buffer.from(tenant)).setAuthTag(bytes.subarray(-16));
      return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString();
    } catch (cause) {
      throw new DecryptError(`a webhook’s secret or headers can't be decrypted with key ${id}: ${(cause as Error).message}`, { cause });
    }
  }
}

/** A new secret in the form of Standard Webhooks: `whsec_` and the base64 of 32 random bytes. */
export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}
