// The settings of the identity service, read once.
import type { KeyObject } from 'node:crypto';
import type { EncryptionKeys } from '../platform/secret-encryption.ts';
import { BadSetting, commonSettings, isProduction, type CommonSettings, type Settings } from '../platform/settings.ts';
import { oidcProviders, type OidcProvider } from './oidc/oidc-providers.ts';

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
  /** Where mails go: to an SMTP server, or as files into a directory. */
  mail: { server: URL } | { directory: string };
  /** Their sender, `Name <address>`. */
  mailFrom: string;
  /** The gateway's address for people, without a slash at its end: the base of links. */
  publicUrl: string;
  /** Encrypt secrets of second factors, and logins with identity providers, with the first, decrypt with all. */
  encryptionKeys: EncryptionKeys;
  /** Encrypt keys and names of subjects of personal data, likewise. */
  subjectKeys: EncryptionKeys;
  /** By name. */
  oidcProviders: ReadonlyMap<string, OidcProvider>;
}

const dayMs = 86_400_000;

/** Throws {@link BadSetting}. */
export function identityConfig(settings: Settings): IdentityConfig {
  return {
    ...commonSettings(settings, 50051),
    databaseUrl: settings.databaseUrl('DATABASE_URL'),
    signingKeys: settings.signingKeys('JWT_PRIVATE_KEY'),
    deleteAfterMs: Math.ceil(settings.decimal('TENANT_DELETE_DAYS', { max: 36_500, fallback: 30 }) * dayMs),
    ledgerAddresses: settings.addresses('LEDGER_ADDR', '127.0.0.1:50052'),
    notifierAddresses: settings.addresses('NOTIFIER_ADDR', '127.0.0.1:50053'),
    mail: mailTarget(settings),
    mailFrom: sender(settings.text('MAIL_FROM', 'Ledger <ledger@localhost>')),
    publicUrl: settings.httpUrl('PUBLIC_URL', 'http://127.0.0.1:8080'),
    encryptionKeys: settings.encryptionKeys('IDENTITY_ENCRYPTION_KEY'),
    subjectKeys: settings.encryptionKeys('SUBJECT_ENCRYPTION_KEY'),
    oidcProviders: oidcProviders(settings.optional('OIDC_PROVIDERS')),
  };
}

function mailTarget(settings: Settings): IdentityConfig['mail'] {
  const text = settings.optional('MAIL_URL');
  if (text !== undefined) return { server: mailServer(text) };
  const directory = settings.optional('MAIL_DIR');
  if (directory === undefined && isProduction(settings)) {
    throw new BadSetting('MAIL_URL', 'is not set: where NODE_ENV is production, mails need an SMTP server, or MAIL_DIR a directory');
  }
  return { directory: directory ?? '.data/mail' };
}

// The value holds a password, so no message repeats it.
function mailServer(text: string): URL {
  const form = 'smtp://user:password@host:port or smtps://…, special characters as %XX';
  try {
    const url = new URL(text);
    for (const part of [url.username, url.password]) decodeURIComponent(part);
    const isBare = /^\/?$/.test(url.pathname) && url.search + url.hash === '';
    if (/^smtps?:$/.test(url.protocol) && url.hostname !== '' && isBare) return url;
  } catch {
    // The same message.
  }
  throw new BadSetting('MAIL_URL', `must be an SMTP address: ${form}`);
}

function sender(text: string): string {
  if (/^[^<>@\p{Cc}]*<[^\s<>@]+@[^\s<>@]+>$|^[^\s<>@]+@[^\s<>@]+$/u.test(text)) return text;
  throw new BadSetting('MAIL_FROM', `must be an address or Name <address>, not ${JSON.stringify(text)}`);
}
