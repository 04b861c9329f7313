// Encryption of personal data under a subject's own key, and the keyed hash by which a subject's name is found.
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';

/** Personal data as the log keeps it. */
export interface Sealed {
  /** 12 bytes. */
  nonce: Uint8Array;
  /** With its tag of 16 bytes. */
  ciphertext: Uint8Array;
}

/** What personal data is bound to: TypeIDs. It opens for no other tenant, transaction or subject. */
export interface Binding {
  tenantId: string;
  transactionId: string;
  subjectId: string;
}

const tagBytes = 16;

const associated = ({ tenantId, transactionId, subjectId }: Binding) => Buffer.from(JSON.stringify([tenantId, transactionId, subjectId]));

/** A new key of 32 bytes. */
export const newKey = (): Buffer => randomBytes(32);

/** Encrypts a text by AES-256-GCM under a key of 32 bytes. */
export function seal(key: Buffer, binding: Binding, text: string): Sealed {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(associated(binding));
  return { nonce, ciphertext: Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]) };
}

/** The text, or null where it was sealed under another key or for something else. */
export function open(key: Buffer, binding: Binding, { nonce, ciphertext }: Sealed): string | null {
  if (nonce.length !== 12 || ciphertext.length < tagBytes) return null;
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
  decipher.setAAD(associated(binding)).setAuthTag(ciphertext.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(ciphertext.subarray(0, -tagBytes)), decipher.final()]).toString();
  } catch {
    return null;
  }
}

/** The HMAC-SHA-256 of a name under a tenant's key: equal names are found, and nobody without the key can guess one. */
export const nameHash = (key: Buffer, name: string): Buffer => createHmac('sha256', key).update(name).digest();
