// Encryption of secrets at rest: AES-256-GCM with the id of the secret's owner as associated data.
import { createCipheriv, createDecipheriv, randomBytes, type KeyObject } from 'node:crypto';

/** A key and its name, which each encrypted text begins with. */
export interface EncryptionKey {
  id: string;
  /** 32 bytes. */
  key: KeyObject;
}

/** Thrown for a text that can't be decrypted: unknown key, changed text, or another owner's. */
export class DecryptError extends Error {}

const maxCached = 1_000;

/** The first encrypts, all decrypt. */
export type EncryptionKeys = [EncryptionKey, ...EncryptionKey[]];

/** Encrypts with the first key, decrypts with the key that a text names. `owner`: who a text belongs to, a tenant's or user's id. */
export class SecretEncryption {
  private readonly setting: string;
  private readonly keys: Readonly<EncryptionKeys>;
  // Decrypting costs 40 µs, a third of signing and sending a delivery.
  private readonly cache = new Map<string, string>();

  /** `setting`: the name of the setting that holds the keys, for messages. */
  constructor(setting: string, keys: Readonly<EncryptionKeys>) {
    this.setting = setting;
    this.keys = keys;
  }

  get keyIds(): string[] {
    return this.keys.map(({ id }) => id);
  }

  /** `key id : base64 of nonce, ciphertext and tag`. */
  encrypt(owner: string, text: string): string {
    const { id, key } = this.keys[0];
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(owner));
    return `${id}:${Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString('base64')}`;
  }

  /** Throws {@link DecryptError}. */
  decrypt(owner: string, encrypted: string): string {
    const place = `${owner} ${encrypted}`;
    const cached = this.cache.get(place);
    if (cached !== undefined) return cached;
    const text = this.decryptOnce(owner, encrypted);
    if (this.cache.size >= maxCached) this.cache.clear();
    this.cache.set(place, text);
    return text;
  }

  /** The newest of several secrets and, where possible, those before it. Throws {@link DecryptError} where the newest can't be decrypted. */
  decryptAll(owner: string, [newest = '', ...before]: string[]): string[] {
    const others = before.flatMap((encrypted) => {
      try {
        return [this.decrypt(owner, encrypted)];
      } catch (error) {
        // A new secret replaces a lost one at once, not at the overlap's end.
        if (error instanceof DecryptError) return [];
        throw error;
      }
    });
    return [this.decrypt(owner, newest), ...others];
  }

  /** As {@link decrypt}, and keeps no copy of the text. */
  decryptOnce(owner: string, encrypted: string): string {
    const colon = encrypted.indexOf(':');
    const id = encrypted.slice(0, colon);
    const known = this.keys.find((each) => each.id === id);
    if (!known) throw new DecryptError(`a secret is encrypted with key ${id}, which ${this.setting} does not name`);
    const bytes = Buffer.from(encrypted.slice(colon + 1), 'base64');
    try {
      const decipher = createDecipheriv('aes-256-gcm', known.key, bytes.subarray(0, 12), { authTagLength: 16 });
      decipher.setAAD(Buffer.from(owner)).setAuthTag(bytes.subarray(-16));
      return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString();
    } catch (cause) {
      throw new DecryptError(`a secret can't be decrypted with key ${id} of ${this.setting}: ${(cause as Error).message}`, { cause });
    }
  }
}
