// The settings of the identity service, read once.
import { createPrivateKey, type KeyObject } from 'node:crypto';
import { BadSetting, commonSettings, type CommonSettings, type Settings } from '../platform/settings.ts';

/** The settings of the running service. */
export interface IdentityConfig extends CommonSettings {
  databaseUrl: string;
  /** Ed25519: the first signs, all verify. */
  signingKeys: [KeyObject, ...KeyObject[]];
  /** How long after it was closed a tenant is deleted, milliseconds. */
  deleteAfterMs: number;
  /** `host:port` of the ledger and of the notifier, which delete their rows of a tenant. */
  ledgerAddresses: string[];
  notifierAddresses: string[];
}

const dayMs = 86_400_000;

/** Throws {@link BadSetting}. */
export function identityConfig(settings: Settings): IdentityConfig {
  return {
    ...commonSettings(settings, 50051),
    databaseUrl: settings.databaseUrl('DATABASE_URL'),
    signingKeys: signingKeys(settings.text('JWT_PRIVATE_KEY')),
    deleteAfterMs: Math.ceil(settings.decimal('TENANT_DELETE_DAYS', { max: 36_500, fallback: 30 }) * dayMs),
    ledgerAddresses: settings.addresses('LEDGER_ADDR', '127.0.0.1:50052'),
    notifierAddresses: settings.addresses('NOTIFIER_ADDR', '127.0.0.1:50053'),
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
