// `login`, `logout`, `whoami`, `switch`, `profiles`: who the user of this machine is.
import type { Command } from 'commander';
import { Ledger, LedgerError, type SessionData } from '../clients/typescript/ledger.ts';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import type { Profile } from './config.ts';
import { Failure } from './failure.ts';
import type { Item } from './output.ts';
import { textOf } from './prompt.ts';
import { type CommonOptions, loginFields, type Session } from './session.ts';

interface LoginOptions extends CommonOptions {
  email?: string;
  passwordFile?: string;
  apiKey?: boolean;
}

const group = 'Session:';

/** Adds the commands. */
export function addLogin(program: Command, context: Context): void {
  const login = program.command('login').helpGroup(group).description('Log in, and keep the session in the config folder.');
  login.option('--email <address>', 'email address; asked for by default');
  login.option('--password-file <file>', 'file with the password, - for standard input; asked for by default');
  login.option('--api-key', 'keep an API key instead of a login; it is asked for, or read with --api-key-file');
  withExamples(
    withCommonOptions(login),
    'ledger login --server https://ledger.example.com --email ada@example.com',
    'ledger login --profile ci --api-key --api-key-file key.txt --tenant acme',
  );
  login.action((options: LoginOptions) => (options.apiKey ? keepKey(options, context) : logIn(options, context)));

  const logout = program.command('logout').helpGroup(group).description('End the session, and forget the profile.');
  withExamples(withCommonOptions(logout), 'ledger logout', 'ledger logout --profile ci');
  logout.action((options: CommonOptions) => logOut(options, context));

  const whoami = program.command('whoami').helpGroup(group).description('Show the deployment, user, tenant and scopes that commands use.');
  withExamples(withCommonOptions(whoami), 'ledger whoami', 'ledger whoami --json');
  whoami.action(async (options: CommonOptions) => context.output(options).item(await identity(context.session(options))));

  const change = program.command('switch').helpGroup(group).description('Choose the tenant of the profile.');
  change.argument('[slug]', 'tenant; asked for by default');
  withExamples(withCommonOptions(change), 'ledger switch acme', 'ledger switch');
  change.action((slug: string | undefined, options: CommonOptions) => switchTenant(slug, options, context));

  addProfiles(program, context);
}

function addProfiles(program: Command, context: Context): void {
  const profiles = program.command('profiles').helpGroup(group).description('List the profiles, or use or remove one.');
  withExamples(withCommonOptions(profiles), 'ledger profiles', 'ledger profiles use production', 'ledger profiles remove ci');
  profiles.action((options: CommonOptions) => {
    const { current, profiles: all } = context.folder.read();
    const rows = Object.entries(all).map(([name, { url, email, tenant, api_key: key }]) => {
      const credential = key === undefined ? (email ?? null) : `API key …${key.slice(-4)}`;
      return { current: name === current ? '*' : '', name, server: url, tenant: tenant ?? null, credential };
    });
    const output = context.output(options);
    output.items(rows);
    if (rows.length === 0) output.note('None. Run: ledger login');
  });
  for (const [verb, about] of [
    ['use', 'Make a profile the current one.'],
    ['remove', 'Forget a profile. Its session ends with logout.'],
  ] as const) {
    profiles
      .command(`${verb} <name>`)
      .description(about)
      .helpOption('-h, --help', 'show this help')
      .action(async (name: string) => {
        await context.folder.update((config) => {
          if (!Object.hasOwn(config.profiles, name)) throw new Failure('notFound', `there is no profile ${name}`, 'Run: ledger profiles');
          if (verb === 'use') config.current = name;
          else Reflect.deleteProperty(config.profiles, name);
        });
      });
  }
}

async function logIn(options: LoginOptions, context: Context): Promise<void> {
  const session = context.session(options);
  const output = context.output(options);
  if (session.url.startsWith('http:') && !/^https?:\/\/(localhost|127\.|\[::1\])/.test(session.url)) {
    output.note(`${session.url} is not encrypted: others on the way can read the password.`);
  }
  const email = options.email ?? (await context.prompt.text('Email', 'Give --email.'));
  const password =
    options.passwordFile === undefined
      ? await context.prompt.secret('Password', 'Give --password-file FILE, or - for standard input.')
      : (await textOf(context.streams.stdin, options.passwordFile)).replace(/\r?\n$/, '');
  const opened = await openSession(session.url, { email, password }, context);
  const client = new Ledger({ url: session.url, token: opened.token });
  const tenants = await client.tenants.list({ limit: 100 }).all();
  const slugs = tenants.map(({ slug }) => slug);
  const wanted = session.chosenTenant;
  const tenant = wanted !== undefined && slugs.includes(wanted) ? wanted : slugs.length === 1 ? slugs[0] : undefined;
  await keep(session, { url: session.url, ...loginFields(opened), ...(tenant !== undefined && { tenant }) }, context);
  output.note(`Logged in to ${session.url} as ${opened.user.email}.`);
  if (options.tenant !== undefined && !slugs.includes(options.tenant)) throw notMember(options.tenant, slugs);
  if (tenant !== undefined) output.note(`Tenant: ${tenant}`);
  else
    output.note(
      slugs.length === 0 ? 'You have no tenant. Run: ledger tenants create' : `Choose one with: ledger switch (${slugs.join(', ')})`,
    );
}

async function openSession(url: string, body: { email: string; password: string }, context: Context): Promise<SessionData> {
  const { auth } = new Ledger({ url });
  try {
    return await auth.login(body);
  } catch (error) {
    if (!(error instanceof LedgerError && error.code === 'totp_required')) throw error;
    const code = await context.prompt.secret('Code of the second factor', 'Scripts log in with an API key: --api-key.');
    return auth.login({ ...body, totp_code: code });
  }
}

async function keepKey(options: LoginOptions, context: Context): Promise<void> {
  const session = context.session(options);
  const { tenant } = session;
  const key =
    options.apiKeyFile === undefined
      ? await context.prompt.secret('API key', 'Give --api-key-file FILE, or - for standard input.')
      : await session.key(false);
  // Any route tells a wrong key from one without the scope.
  await new Ledger({ url: session.url, tenant, key }).accounts
    .list({ limit: 1 })
    .page()
    .catch((error: unknown) => {
      if (!(error instanceof LedgerError && error.code === 'forbidden')) throw error;
    });
  await keep(session, { url: session.url, tenant, api_key: key }, context);
  context.output(options).note(`Profile ${session.profileName} has the key for ${tenant} at ${session.url}.`);
}

async function keep(session: Session, profile: Profile, context: Context): Promise<void> {
  await context.folder.update((config) => {
    config.profiles[session.profileName] = profile;
    config.current = session.profileName;
  });
}

async function logOut(options: CommonOptions, context: Context): Promise<void> {
  const { profileName } = context.session(options);
  const profile = context.folder.read().profiles[profileName];
  const output = context.output(options);
  if (!profile) return output.note(`There is no profile ${profileName}.`);
  if (profile.refresh_token !== undefined) {
    await new Ledger({ url: profile.url }).auth.logout({ refresh_token: profile.refresh_token });
  }
  await context.folder.update((config) => {
    Reflect.deleteProperty(config.profiles, profileName);
    if (config.current === profileName) config.current = Object.keys(config.profiles)[0] ?? 'default';
  });
  output.note(`Logged out of ${profile.url}.`);
}

/** What `whoami` shows. */
async function identity(session: Session): Promise<Item> {
  const { profileName, url, chosenTenant, hasOwnKey } = session;
  const where = { profile: session.profile ? profileName : null, server: url, tenant: chosenTenant ?? null };
  if (hasOwnKey) {
    const key = await session.key(false);
    await session.ledger.accounts
      .list({ limit: 1 })
      .page()
      .catch((error: unknown) => {
        if (!(error instanceof LedgerError && error.code === 'forbidden')) throw error;
      });
    return { ...where, credential: `API key …${key.slice(-4)}` };
  }
  const { user } = await session.ledger.user.get();
  const tenants = await session.tenants();
  const tenant = tenants.find(({ slug }) => slug === chosenTenant);
  const access = tenant && (await session.access());
  return {
    ...where,
    credential: 'login',
    user: user.email,
    user_id: user.id,
    role: tenant?.role ?? null,
    scopes: access?.scopes.join(' ') ?? null,
  };
}

async function switchTenant(slug: string | undefined, options: CommonOptions, context: Context): Promise<void> {
  const session = context.session(options);
  if (!session.profile) throw new Failure('credential', 'you are not logged in', 'Run: ledger login');
  const slugs = (await session.tenants()).map((tenant) => tenant.slug);
  const choices = slugs.map((value) => ({ value, label: value }));
  const chosen = slug ?? (await context.prompt.choice('Tenant', choices, `Give one of ${slugs.join(', ')}.`));
  if (!slugs.includes(chosen)) throw notMember(chosen, slugs);
  await session.change((profile) => {
    profile.tenant = chosen;
  });
  context.output(options).note(`Tenant: ${chosen}`);
}

function notMember(slug: string, slugs: string[]): Failure {
  return new Failure('notFound', `you are no member of a tenant ${slug}`, slugs.length > 0 ? `There are: ${slugs.join(', ')}` : undefined);
}
