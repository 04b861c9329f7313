// Whom a command calls, and as whom: the deployment, the tenant, and the credential for each route.
import { Ledger, LedgerError, type AccessKey, type SessionData, type Tenant } from '../clients/typescript/ledger.ts';
import type { ConfigFolder, Profile } from './config.ts';
import { Failure } from './failure.ts';
import { serverUrl } from './options.ts';
import { textOf, type Streams } from './prompt.ts';

/** Options of every command. */
export interface CommonOptions {
  profile?: string;
  server?: string;
  tenant?: string;
  apiKeyFile?: string;
  json?: boolean;
  csv?: boolean;
}

/** What credentials are taken from. */
interface Sources {
  env: Record<string, string | undefined>;
  streams: Streams;
  folder: ConfigFolder;
}

const defaultUrl = 'http://127.0.0.1:8080';
const logIn = 'Run: ledger login';

// Credentials are renewed a minute before they end.
const isUsable = (expires: string | undefined) => expires !== undefined && Date.parse(expires) > Date.now() + 60_000;

/** The fields of a profile that a login gives. */
export function loginFields({ token, expires_at, refresh_token, user }: SessionData): Partial<Profile> {
  return { token, token_expires_at: expires_at, refresh_token, email: user.email };
}

/** The caller of one command. */
export class Session {
  readonly profileName: string;
  readonly url: string;
  private readonly context: Sources;
  private readonly options: CommonOptions;
  private keyFile: Promise<string> | undefined;

  constructor(context: Sources, options: CommonOptions) {
    const { env, folder } = context;
    this.context = context;
    this.options = options;
    const config = folder.read();
    this.profileName = options.profile ?? (env['LEDGER_PROFILE'] || config.current);
    const named = options.server ?? (env['LEDGER_URL'] || undefined);
    const url = named ?? config.profiles[this.profileName]?.url ?? defaultUrl;
    this.url = serverUrl(url, options.server === undefined ? 'LEDGER_URL' : '--server');
  }

  /** The profile, if it is one of this deployment: its credentials go nowhere else. */
  get profile(): Profile | undefined {
    const profile = this.context.folder.read().profiles[this.profileName];
    return profile?.url === this.url ? profile : undefined;
  }

  /** The tenant's slug, if one is chosen. */
  get chosenTenant(): string | undefined {
    return this.options.tenant ?? (this.context.env['LEDGER_TENANT'] || this.profile?.tenant);
  }

  /** The tenant's slug. */
  get tenant(): string {
    const tenant = this.chosenTenant;
    if (tenant !== undefined) return tenant;
    throw new Failure('usage', 'no tenant is chosen', 'Give --tenant, set LEDGER_TENANT, or run: ledger switch');
  }

  /** Whether there is an API key that is not made from a login. */
  get hasOwnKey(): boolean {
    return this.options.apiKeyFile !== undefined || Boolean(this.context.env['LEDGER_API_KEY']) || this.profile?.api_key !== undefined;
  }

  /** The client, with the tenant if one is chosen. */
  get ledger(): Ledger {
    const tenant = this.chosenTenant;
    return new Ledger({ ...this.credentials(), ...(tenant !== undefined && { tenant }) });
  }

  /** The client of the tenant. Throws if none is chosen. */
  get tenantLedger(): Ledger {
    return new Ledger({ ...this.credentials(), tenant: this.tenant });
  }

  /** The text of an API key for the tenant's ledger. `expired`: the last one was refused. */
  async key(expired: boolean): Promise<string> {
    const { apiKeyFile } = this.options;
    if (expired && this.hasOwnKey) throw this.keyRefused();
    if (apiKeyFile !== undefined) {
      this.keyFile ??= textOf(this.context.streams.stdin, apiKeyFile).then((text) => text.trim());
      return this.keyFile;
    }
    const given = this.context.env['LEDGER_API_KEY'] || this.profile?.api_key;
    if (given) return given;
    const kept = this.profile?.access?.[this.tenant];
    // A key of a login ends with a change of the role, before its hour.
    return !expired && kept && isUsable(kept.expires_at) ? kept.key : (await this.newAccess()).key;
  }

  /** A user's token. `expired`: the last one was refused. */
  async token(expired: boolean): Promise<string> {
    const { token, token_expires_at: end } = this.profile ?? {};
    if (token !== undefined && !expired && isUsable(end)) return token;
    return this.context.folder.update(async ({ profiles }) => {
      const profile = profiles[this.profileName];
      if (profile?.refresh_token === undefined || profile.url !== this.url) throw this.notLoggedIn(profile);
      // Another command may have renewed it while this one waited.
      if (profile.token !== undefined && profile.token !== token && isUsable(profile.token_expires_at)) return profile.token;
      const { refresh_token } = profile;
      const renewed = await new Ledger({ url: this.url }).auth.refresh({ refresh_token }).catch((error: unknown) => {
        if (error instanceof LedgerError && error.status === 401) throw new Failure('credential', 'the login has ended', logIn);
        throw error;
      });
      Object.assign(profile, loginFields(renewed));
      return renewed.token;
    });
  }

  /** The scopes of the key, where it was made from a login. */
  async access(): Promise<AccessKey | undefined> {
    if (this.hasOwnKey) return undefined;
    await this.key(false);
    return this.profile?.access?.[this.tenant];
  }

  /** The user's tenants. */
  tenants(): Promise<Tenant[]> {
    return this.ledger.tenants.list({ limit: 100 }).all();
  }

  /** Changes the profile, if there is one. */
  async change(change: (profile: Profile) => void): Promise<void> {
    await this.context.folder.update(({ profiles }) => {
      const profile = profiles[this.profileName];
      if (profile?.url === this.url) change(profile);
    });
  }

  private credentials() {
    return { url: this.url, key: (expired: boolean) => this.key(expired), token: (expired: boolean) => this.token(expired) };
  }

  private async newAccess(): Promise<AccessKey> {
    const { tenant } = this;
    const { access } = await this.ledger.keys.access({});
    await this.change((profile) => {
      profile.access = { ...profile.access, [tenant]: access };
    });
    return access;
  }

  /** A login would not help: the key comes first. */
  private keyRefused(): Failure {
    const from = this.options.apiKeyFile ?? (this.context.env['LEDGER_API_KEY'] ? 'LEDGER_API_KEY' : `the profile ${this.profileName}`);
    return new Failure('credential', `the API key of ${from} was refused: it is wrong, expired or revoked`);
  }

  private notLoggedIn(other: Profile | undefined): Failure {
    if (other && other.url !== this.url) {
      return new Failure('credential', `the profile ${this.profileName} is for ${other.url}, not for ${this.url}`, logIn);
    }
    return new Failure('credential', this.hasOwnKey ? 'this needs a login: an API key is not enough' : 'you are not logged in', logIn);
  }
}
