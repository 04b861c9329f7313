// The settings of the identity service, read once.
import { createPrivateKey, type KeyObject } from 'node:crypto';
import type { EncryptionKeys } from '../platform/secret-encryption.ts';
import { BadSetting, commonSettings, type CommonSettings, type Settings } from '../platform/settings.ts';
import { oidcProviders, type OidcProvider } from './oidc-providers.ts';

/** The settings of the running service. */
export interface IdentityConfig extends CommonSettings {
  databaseUrl: string;
  /** Ed25519: the first signs, all verify. */
  signingKeys: [KeyObject, ...KeyObject[]];
  /** Encrypt secrets of second factors and logins with identity providers with the first, decrypt with all. */
  encryptionKeys: EncryptionKeys;
  /** By name. */
  oidcProviders: ReadonlyMap<string, OidcProvider>;
}

/** Throws {@link BadSetting}. */
export function identityConfig(settings: Settings): IdentityConfig {
  return {
    ...commonSettings(settings, 50051),
    databaseUrl: settings.databaseUrl('DATABASE_URL'),
    signingKeys: signingKeys(settings.text('JWT_PRIVATE_KEY')),
    encryptionKeys: settings.encryptionKeys('IDENTITY_ENCRYPTION_KEY'),
    oidcProviders: oidcProviders(settings.optional('OIDC_PROVIDERS')),
  };
}

function signingKeys(text: string): [KeyObject, ...KeyObject[]] {
  const bad = () => new BadSetting('JWT_PRIVATE_KEY', 'must be an Ed25519 private key as PKCS #8 PEM');
  const [first, ...others] = (text.match(/-----BEGIN PRIVATE KEY-----[^-]*-----END PRIVATE KEY-----/g) ?? []).map((pem) => {
    try {
      const key = createPrivateKey(pem);
      if (key.asymmetricKeyType === 'ed25519') return key;
    } catch {
      // The same message as for another kind of key.
    }
    throw bad();
  });
  // A key of another format, or a truncated one, would be ignored silently.
  if (!first || (text.match(/-----BEGIN /g) ?? []).length > 1 + others.length) throw bad();
  return [first, ...others];
}
