// The gateway's settings, read once from the environment.
import { isIP } from 'node:net';
import { compile } from '@fastify/proxy-addr';
import { BadSetting, commonSettings, type CommonSettings, type Settings } from '../services/platform/settings.ts';

/** All settings. */
export interface GatewayConfig extends CommonSettings {
  identityAddresses: string[];
  ledgerAddresses: string[];
  notifierAddresses: string[];
  auditorAddresses: string[];
  /** Addresses of proxies whose `X-Forwarded-For` is trusted. */
  trustProxy: string[];
  /** Origins whose browsers may call; `*` is any. */
  corsOrigins: string[];
  /** Where browsers reach this gateway, without a slash at its end. */
  publicUrl: string;
  /** Requests in flight, half of them for one tenant; beyond: 503. */
  maxInFlight: number;
  /** Open connections; beyond: closed. */
  maxConnections: number;
  /** How long a stopping gateway leaves connections open that are idle. */
  idleCloseMs: number;
}

/** Throws {@link BadSetting}. */
export function gatewayConfig(settings: Settings): GatewayConfig {
  const common = commonSettings(settings, 8080);
  const host = common.host.includes(':') ? `[${common.host}]` : common.host;
  return {
    ...common,
    identityAddresses: settings.addresses('IDENTITY_ADDR', '127.0.0.1:50051'),
    ledgerAddresses: settings.addresses('LEDGER_ADDR', '127.0.0.1:50052'),
    notifierAddresses: settings.addresses('NOTIFIER_ADDR', '127.0.0.1:50053'),
    auditorAddresses: settings.addresses('AUDITOR_ADDR', '127.0.0.1:50054'),
    trustProxy: settings.list('TRUST_PROXY').map(proxy),
    corsOrigins: settings.list('CORS_ORIGINS').map(origin),
    publicUrl: settings.httpUrl('PUBLIC_URL', `http://${host}:${common.port}`),
    maxInFlight: settings.integer('MAX_IN_FLIGHT', { min: 1, max: 100_000, fallback: 4096 }),
    maxConnections: settings.integer('MAX_CONNECTIONS', { min: 1, max: 1_000_000, fallback: 16_384 }),
    idleCloseMs: settings.integer('IDLE_CLOSE_SECONDS', { min: 0, max: 10, fallback: 2 }) * 1000,
  };
}

function proxy(item: string): string {
  try {
    compile(item);
    // It also accepts `10.1` and `010.0.0.1`.
    if (isIP(item.replace(/\/.*/, '')) !== 0 || ['loopback', 'linklocal', 'uniquelocal'].includes(item)) return item;
  } catch {
    // Its errors name no variable.
  }
  throw new BadSetting('TRUST_PROXY', `must be addresses or networks, comma-separated, not ${JSON.stringify(item)}`);
}

function origin(item: string): string {
  if (item !== '*' && !(URL.canParse(item) && new URL(item).origin === item)) {
    throw new BadSetting('CORS_ORIGINS', `must be origins like https://app.example.com, comma-separated, not ${JSON.stringify(item)}`);
  }
  return item;
}
