// Webhook secrets at rest: AES-256-GCM, the tenant's id as associated data, so that a row copied to another tenant opens for nobody.
import { createCipheriv, createDecipheriv, randomBytes, type KeyObject } from 'node:crypto';

/** A key and the name under which texts sealed with it are found again. */
export interface EncryptionKey {
  id: string;
  /** 32 bytes. */
  key: KeyObject;
}

/** Thrown for a text that can't be opened: its key is not known, it was changed, or it was sealed for another tenant. */
export class DecryptError extends Error {}

const remembered = 1_000;

/** Seals with the first key, opens with whichever sealed. */
export class SecretEncryption {
  private readonly keys: readonly [EncryptionKey, ...EncryptionKey[]];
  // Opening one costs 40 µs, a third of what signing and sending a delivery does.
  private readonly opened = new Map<string, string>();

  constructor(keys: readonly [EncryptionKey, ...EncryptionKey[]]) {
    this.keys = keys;
  }

  /** Of all keys. */
  get keyIds(): string[] {
    return this.keys.map(({ id }) => id);
  }

  /** `key id : base64 of nonce, ciphertext and tag`. */
  seal(tenant: string, text: string): string {
    const { id, key } = this.keys[0];
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(tenant));
    return `${id}:${Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString('base64')}`;
  }

  /** Throws {@link DecryptError}. */
  open(tenant: string, sealed: string): string {
    const place = `${tenant} ${sealed}`;
    const known = this.opened.get(place);
    if (known !== undefined) return known;
    const text = this.read(tenant, sealed);
    // Stryker disable next-line all: what is remembered changes no answer
    if (this.opened.size >= remembered) this.opened.clear();
    // Stryker disable next-line all: what is remembered changes no answer
    this.opened.set(place, text);
    return text;
  }

  /** The newest of a webhook's secrets and, as far as they can be opened, those before it. Throws {@link DecryptError} where the newest can't be. */
  openAll(tenant: string, [newest = '', ...before]: string[]): string[] {
    const openable = before.flatMap((sealed) => {
      try {
        return [this.open(tenant, sealed)];
      } catch (error) {
        // Who makes a new secret because this one is lost would otherwise wait for the overlap's end.
        if (error instanceof DecryptError) return [];
        throw error;
      }
    });
    return [this.open(tenant, newest), ...openable];
  }

  private read(tenant: string, sealed: string): string {
    const colon = sealed.indexOf(':');
    const id = sealed.slice(0, colon);
    const known = this.keys.find((each) => each.id === id);
    if (!known) throw new DecryptError(`a webhook secret is sealed with key ${id}, which WEBHOOK_ENCRYPTION_KEY does not name`);
    const bytes = Buffer.from(sealed.slice(colon + 1), 'base64');
    try {
      const decipher = createDecipheriv('aes-256-gcm', known.key, bytes.subarray(0, 12), { authTagLength: 16 });
      decipher.setAAD(Buffer.from(tenant)).setAuthTag(bytes.subarray(-16));
      return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString();
    } catch (cause) {
      throw new DecryptError(`a webhook secret can't be opened with key ${id}: ${(cause as Error).message}`, { cause });
    }
  }
}

/** A new secret as Standard Webhooks has it: `whsec_` and the base64 of 32 random bytes. */
export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}
