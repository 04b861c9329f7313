// Reads environment variables at start, checks each, and names the variable that is bad or missing.
import { createPrivateKey, createSecretKey, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { unescape } from 'node:querystring';
import type { EncryptionKeys } from './secret-encryption.ts';
import { readTlsFiles, type ServerTls, type TlsFiles } from './tls-files.ts';

/** Thrown for a missing or bad variable; `run` prints its message as one line and exits with 1. */
export class BadSetting extends Error {
  constructor(name: string, problem: string) {
    super(`${name} ${problem}`);
    this.name = 'BadSetting';
  }
}

/** Typed access to environment variables. `NAME_FILE` replaces any `NAME`: the file's text without its last line break. */
export class Settings {
  private readonly env: NodeJS.ProcessEnv;

  constructor(env: NodeJS.ProcessEnv) {
    this.env = env;
  }

  /** The value, or undefined where neither the variable nor its `_FILE` is set; an empty value counts as unset. */
  optional(name: string): string | undefined {
    const value = this.env[name];
    if (value !== undefined && value !== '') return value;
    const file = this.env[`${name}_FILE`];
    if (file === undefined || file === '') return undefined;
    try {
      return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    } catch (error) {
      throw new BadSetting(`${name}_FILE`, `can't be read: ${(error as Error).message}`);
    }
  }

  /** The value or `fallback`; without one the variable is required. */
  text(name: string, fallback?: string): string {
    const value = this.optional(name) ?? fallback;
    if (value === undefined) throw new BadSetting(name, 'is not set');
    return value;
  }

  /** A whole number within bounds. */
  integer(name: string, bounds: { min: number; max: number; fallback?: number }): number {
    const value = this.text(name, bounds.fallback?.toString());
    const number = /^[0-9]{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= bounds.min && number <= bounds.max) return number;
    throw new BadSetting(name, `must be a whole number from ${bounds.min} to ${bounds.max}, not ${JSON.stringify(value)}`);
  }

  /** A decimal above zero, or zero where `orZero`, at most `max`. */
  decimal(name: string, { max, fallback, orZero = false }: { max: number; fallback: number; orZero?: boolean }): number {
    const value = this.text(name, fallback.toString());
    const number = /^[0-9]{1,15}(\.[0-9]{1,15})?$/.test(value) ? Number(value) : Number.NaN;
    if ((number > 0 || (orZero && number === 0)) && number <= max) return number;
    const bounds = orZero ? `from 0 to ${max}` : `above 0, at most ${max}`;
    throw new BadSetting(name, `must be a decimal ${bounds}, not ${JSON.stringify(value)}`);
  }

  /** One of the given words. */
  oneOf<const Word extends string>(name: string, words: readonly Word[], fallback: Word): Word {
    const value = this.optional(name) ?? fallback;
    const word = words.find((each) => each === value);
    if (word === undefined) throw new BadSetting(name, `must be one of ${words.join(', ')}, not ${JSON.stringify(value)}`);
    return word;
  }

  /** A comma list without empty items; empty where the variable is unset. */
  list(name: string): string[] {
    return (this.optional(name) ?? '')
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '');
  }

  /** The base of http or https addresses, without a slash at its end. */
  httpUrl(name: string, fallback: string): string {
    const value = this.text(name, fallback);
    const url = URL.canParse(value) ? new URL(value) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.username + url.password + url.search + url.hash !== '') {
      throw new BadSetting(name, `must be an http or https address like https://ledger.example.com, not ${JSON.stringify(value)}`);
    }
    return url.href.replace(/\/+$/, '');
  }

  /** A TCP port; 0 lets the system choose. */
  port(name: string, fallback?: number): number {
    return this.integer(name, { min: 0, max: 65535, ...(fallback === undefined ? {} : { fallback }) });
  }

  /** A port that may be absent or `off`. */
  optionalPort(name: string): number | undefined {
    const value = this.optional(name);
    return value === undefined || value === 'off' ? undefined : this.port(name);
  }

  /** `host:port`, or several, comma-separated. */
  addresses(name: string, fallback?: string): string[] {
    const items = this.text(name, fallback)
      .split(',')
      .map((item) => item.trim());
    for (const item of items) {
      const port = Number(/^(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})$/.exec(item)?.[1]);
      if (!(port >= 1 && port <= 65535))
        throw new BadSetting(
          name,
          `must be host:port or several, comma-separated, with ports from 1 to 65535, not ${JSON.stringify(item)}`,
        );
    }
    return items;
  }

  /** A PostgreSQL URL with a user; its TLS files are readable, and it replaces none of the settings of {@link connectionOptions}. */
  databaseUrl(name: string): string {
    const value = this.text(name);
    // The value holds a password, so no message repeats it.
    if (!isDatabaseUrl(value)) {
      const form = 'postgres://user:password@host:port/database, special characters as %XX';
      throw new BadSetting(name, `must be a PostgreSQL address of one host: ${form}`);
    }
    const { searchParams } = new URL(value);
    checkTls(name, searchParams);
    const reserved = reservedParameters.find((each) => searchParams.has(each));
    if (reserved !== undefined) throw new BadSetting(name, `must not set ${reserved}: each connection sets its own`);
    return value;
  }

  /** Ed25519 private keys as PKCS #8 PEM, one after the other. */
  signingKeys(name: string): [KeyObject, ...KeyObject[]] {
    const text = this.text(name);
    const bad = () => new BadSetting(name, 'must be an Ed25519 private key as PKCS #8 PEM');
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

  /** `id:base64 of 32 bytes`, or several, comma-separated. */
  encryptionKeys(name: string): EncryptionKeys {
    // The value is a secret, so the message does not repeat it.
    const bad = (problem: string) => new BadSetting(name, problem);
    const keys = this.text(name)
      .split(',')
      .map((item) => {
        const [, id, encoded = ''] = /^\s*([A-Za-z0-9._-]{1,64}):([A-Za-z0-9+/]+=*)\s*$/.exec(item) ?? [];
        const bytes = Buffer.from(encoded, 'base64');
        if (id === undefined || bytes.length !== 32) throw bad('must be id:base64 of 32 bytes, or several, comma-separated');
        return { id, key: createSecretKey(bytes) };
      });
    if (new Set(keys.map(({ id }) => id)).size < keys.length) throw bad('names a key twice');
    return keys as EncryptionKeys;
  }
}

const reservedParameters = ['options', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'query_timeout'];

// The driver takes an unknown sslmode for TLS, and a missing file for a server that is down.
const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

function checkTls(name: string, parameters: URLSearchParams): void {
  // Of a repeated parameter the driver takes the last.
  const last = (parameter: string) => parameters.getAll(parameter).at(-1);
  if (!['true', '1', '0'].includes(last('ssl') ?? '0'))
    throw new BadSetting(name, 'has an unknown ssl: it must be true, 1 or 0, or sslmode instead');
  if (!sslModes.includes(last('sslmode') ?? 'disable'))
    throw new BadSetting(name, `has an unknown sslmode: it must be one of ${sslModes.join(', ')}`);
  for (const file of ['sslrootcert', 'sslcert', 'sslkey']) {
    const path = last(file);
    try {
      if (path) readFileSync(path);
    } catch (error) {
      throw new BadSetting(name, `names a file by ${file} that can't be read: ${(error as Error).message}`);
    }
  }
}

function isDatabaseUrl(value: string): boolean {
  try {
    const { protocol, username, password, hostname, pathname } = new URL(value);
    for (const part of [username, password, pathname]) decodeURIComponent(part);
    return /^postgres(ql)?:$/.test(protocol) && username !== '' && !hostname.includes(',');
  } catch {
    return false;
  }
}

/** The parts of `host:port`; an IPv6 host comes without its brackets. */
export function hostAndPort(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) };
}

/** Settings of every process. */
export interface CommonSettings {
  /** Address to listen on. */
  host: string;
  /** Port of the service itself. */
  port: number;
  /** Port of health and metrics over plain HTTP; undefined is off. */
  opsPort: number | undefined;
  /** Bearer tokens that are accepted from internal callers; the first is sent. */
  internalTokens: string[];
  /** mTLS of gRPC calls to others; undefined is off. */
  tls: TlsFiles | undefined;
  /** mTLS of gRPC calls from others; undefined is off. */
  serverTls: ServerTls | undefined;
  /** Largest gRPC message in either direction. */
  grpcMaxMessageBytes: number;
  /** Calls that one gRPC connection may have open. */
  grpcMaxStreams: number;
  logLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  /** Where traces go; undefined: nothing is traced. */
  tracing: TracingSettings | undefined;
}

/** Settings of traces, named as in OpenTelemetry's specification. */
export interface TracingSettings {
  /** Takes OTLP over HTTP. */
  url: string;
  /** Sent with each export. */
  headers: Record<string, string>;
  /** Share of the requests that are recorded, 0 to 1. */
  ratio: number;
  /** Whether a caller that sends a trace context decides for its requests. */
  followsCaller: boolean;
}

/** Reads the settings of every process. Throws {@link BadSetting}. */
export function commonSettings(settings: Settings, fallbackPort: number): CommonSettings {
  const internalTokens = settings.list('INTERNAL_TOKEN');
  if (internalTokens.length === 0) throw new BadSetting('INTERNAL_TOKEN', 'is not set');
  // It travels in a header.
  if (!internalTokens.every((token) => /^[\x20-\x7e]+$/.test(token))) throw new BadSetting('INTERNAL_TOKEN', 'must be printable ASCII');
  return {
    host: settings.text('HOST', '127.0.0.1'),
    port: settings.port('PORT', fallbackPort),
    opsPort: settings.optionalPort('OPS_PORT'),
    internalTokens,
    ...tlsSettings(settings),
    grpcMaxMessageBytes: settings.integer('GRPC_MAX_MESSAGE_BYTES', { min: 8 << 20, max: 256 << 20, fallback: 8 << 20 }),
    grpcMaxStreams: settings.integer('GRPC_MAX_STREAMS', { min: 1, max: 1_000_000, fallback: 1_000 }),
    logLevel: settings.oneOf('LOG_LEVEL', ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info'),
    tracing: tracingSettings(settings),
  };
}

function tracingSettings(settings: Settings): TracingSettings | undefined {
  const headers = settings.list('OTEL_EXPORTER_OTLP_HEADERS').map((item) => {
    // The value may be a secret, so the message does not repeat it.
    if (!/^[A-Za-z0-9-]+=[\x20-\x7e]+$/.test(item))
      throw new BadSetting('OTEL_EXPORTER_OTLP_HEADERS', 'must be name=value or several, comma-separated');
    const [name = '', ...value] = item.split('=');
    return [name, unescape(value.join('='))] as const;
  });
  const sampling = {
    ratio: settings.decimal('OTEL_TRACES_SAMPLER_ARG', { max: 1, fallback: 1, orZero: true }),
    followsCaller:
      settings.oneOf('OTEL_TRACES_SAMPLER', ['parentbased_traceidratio', 'traceidratio'], 'parentbased_traceidratio') !== 'traceidratio',
  };
  if (settings.optional('OTEL_EXPORTER_OTLP_ENDPOINT') === undefined) return undefined;
  return { url: `${settings.httpUrl('OTEL_EXPORTER_OTLP_ENDPOINT', '')}/v1/traces`, headers: Object.fromEntries(headers), ...sampling };
}

/** The steps of turning mTLS on, one after the other in all processes: take it too, call with it too, take nothing else. */
function tlsSettings(settings: Settings): Pick<CommonSettings, 'tls' | 'serverTls'> {
  const files = tlsFiles(settings);
  const mode = settings.oneOf('TLS_MODE', ['accept', 'call', 'require'], 'require');
  if (!files && settings.optional('TLS_MODE') !== undefined)
    throw new BadSetting('TLS_MODE', 'needs TLS_CERT_FILE, TLS_KEY_FILE and TLS_CA_FILE');
  return { tls: mode === 'accept' ? undefined : files, serverTls: files && { ...files, required: mode === 'require' } };
}

function tlsFiles(settings: Settings): TlsFiles | undefined {
  // The paths: their content is read again while the process runs.
  const [cert, key, ca] = [settings.optional('TLS_CERT_FILE'), settings.optional('TLS_KEY_FILE'), settings.optional('TLS_CA_FILE')];
  if (cert === undefined && key === undefined && ca === undefined) return undefined;
  if (cert === undefined || key === undefined || ca === undefined) {
    const missing = cert === undefined ? 'TLS_CERT_FILE' : key === undefined ? 'TLS_KEY_FILE' : 'TLS_CA_FILE';
    throw new BadSetting(missing, 'is not set: TLS_CERT_FILE, TLS_KEY_FILE and TLS_CA_FILE belong together');
  }
  try {
    readTlsFiles({ cert, key, ca });
  } catch (error) {
    throw new BadSetting('TLS_CERT_FILE', `can't be used with TLS_KEY_FILE and TLS_CA_FILE: ${(error as Error).message}`);
  }
  return { cert, key, ca };
}

/** Whether this is production, which refuses insecure settings. */
export function isProduction(settings: Settings): boolean {
  return settings.optional('NODE_ENV') === 'production';
}
