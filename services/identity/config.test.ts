import { generateKeyPairSync } from 'node:crypto';
import { newEncryptionKey, newSigningKey } from '../../deploy/local/secrets.ts';
import { BadSetting, Settings } from '../platform/settings.ts';
import { identityConfig } from './config.ts';

const good = {
  DATABASE_URL: 'postgres://identity:secret@127.0.0.1/identity',
  INTERNAL_TOKEN: 'token',
  JWT_PRIVATE_KEY: newSigningKey(),
  IDENTITY_ENCRYPTION_KEY: newEncryptionKey(),
  SUBJECT_ENCRYPTION_KEY: newEncryptionKey(),
};

const read = (change: NodeJS.ProcessEnv = {}) => identityConfig(new Settings({ ...good, ...change }));
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

test('without other words the service listens on port 50051 of this machine, and plain HTTP is off', () => {
  expect(read()).toMatchObject({ host: '127.0.0.1', port: 50051, opsPort: undefined, internalTokens: ['token'] });
});

test.each(Object.keys(good))('%s is required and named where it is missing', (name) => {
  expect(() => read({ [name]: '' })).toThrow(new BadSetting(name, 'is not set'));
});

test.each([
  ['no PEM', 'secret'],
  ['not an Ed25519 key', rsa],
  ['cut short', newSigningKey().replace(/[A-Za-z0-9+/=]{10}\n-----END/, '\n-----END')],
  ['followed by another kind', newSigningKey() + rsa],
  ['followed by another format', newSigningKey() + rsa.replaceAll('PRIVATE KEY', 'RSA PRIVATE KEY')],
  ['behind one that was cut short', newSigningKey().slice(0, 60) + '\n' + newSigningKey()],
])('a signing key that is %s is named without its content', (_, value) => {
  expect(() => read({ JWT_PRIVATE_KEY: value })).toThrow('JWT_PRIVATE_KEY must be an Ed25519 private key as PKCS #8 PEM');
});

test('a closed tenant is deleted after so many days, 30 by default', () => {
  expect(read()).toMatchObject({
    deleteAfterMs: 30 * 86_400_000,
    ledgerAddresses: ['127.0.0.1:50052'],
    notifierAddresses: ['127.0.0.1:50053'],
  });
  expect(read({ TENANT_DELETE_DAYS: '0.0001' }).deleteAfterMs).toBe(8_640);
});

test.each(['0', '-1', '1e3', '0.0', '.5', '36501', 'Infinity', ' 1'])('TENANT_DELETE_DAYS %j is rejected', (value) => {
  const message = `must be a decimal above 0, at most 36500, not ${JSON.stringify(value)}`;
  expect(() => read({ TENANT_DELETE_DAYS: value })).toThrow(new BadSetting('TENANT_DELETE_DAYS', message));
});

test.each([
  [{ MAIL_URL: 'smtps://user:pass%40word@smtp.example.com:465' }, { server: new URL('smtps://user:pass%40word@smtp.example.com:465') }],
  [{ MAIL_URL: 'smtp://[::1]', MAIL_DIR: '/mail', NODE_ENV: 'production' }, { server: new URL('smtp://[::1]') }],
  [{ MAIL_DIR: '/mail', NODE_ENV: 'production' }, { directory: '/mail' }],
  [{}, { directory: '.data/mail' }],
])('mails go to the server, or into the directory (%#)', (given, mail) => {
  expect(read(given)).toMatchObject({ mail, mailFrom: 'Ledger <ledger@localhost>', publicUrl: 'http://127.0.0.1:8080' });
});

test('production does not start where mails would go nowhere', () => {
  expect(() => read({ NODE_ENV: 'production' })).toThrow(/^MAIL_URL is not set: where NODE_ENV is production, .* or MAIL_DIR/);
});

test.each([
  'smtp.example.com',
  'https://u:secret@h',
  'smtp://',
  'smtp://u:100%secret@h',
  'smtp://u:secret@h/x',
  'smtp://u:secret@h?pool=1',
])('a mail server that can’t be one is named without its content (%#)', (value) => {
  const message = /^MAIL_URL must be an SMTP address: smtp:\/\/user:password@host:port or smtps:\/\/…, special characters as %XX$/;
  expect(() => read({ MAIL_URL: value })).toThrow(message);
});

test.each(['Ledger', 'Ledger <ledger>', 'Ledger <a@b>\nBcc: <c@d>', '<a@b> <c@d>'])('%j is no sender of mails', (value) => {
  expect(() => read({ MAIL_FROM: value })).toThrow(/^MAIL_FROM must be an address or Name <address>, not "/);
});

test('links begin with the public address, with or without a slash at its end', () => {
  expect(read({ PUBLIC_URL: 'https://example.com/ledger/' }).publicUrl).toBe('https://example.com/ledger');
  for (const bad of ['example.com', 'ftp://example.com', 'https://u@example.com', 'https://example.com?a=b']) {
    expect(() => read({ PUBLIC_URL: bad })).toThrow(/^PUBLIC_URL must be an http or https address/);
  }
});

test('several signing keys may be given: the first signs', () => {
  const [first, second] = [newSigningKey(), newSigningKey()];
  const { signingKeys } = read({ JWT_PRIVATE_KEY: `${first}${second}` });
  expect(signingKeys.map((key) => key.export({ type: 'pkcs8', format: 'pem' }))).toEqual([first, second]);
});

test.each([
  'mysql://identity:secret@127.0.0.1/identity',
  'postgres://127.0.0.1/identity',
  'postgres://identity:100%secret@127.0.0.1/identity',
  'postgres://identity:secret@127.0.0.1,127.0.0.2/identity',
])('a database address that can’t be one is named without its content (%#)', (value) => {
  const message =
    /^DATABASE_URL must be a PostgreSQL address of one host: postgres:\/\/user:password@host:port\/database, special characters as %XX$/;
  expect(() => read({ DATABASE_URL: value })).toThrow(message);
});

test.each([
  [
    'sslmode=requir',
    /^DATABASE_URL has an unknown sslmode: it must be one of disable, prefer, require, verify-ca, verify-full, no-verify$/,
  ],
  ['sslmode=', /^DATABASE_URL has an unknown sslmode/],
  ['sslmode=verify-full&sslrootcert=/no/such/file', /^DATABASE_URL names a file by sslrootcert that can't be read: ENOENT/],
  ['sslcert=/no/such/file', /^DATABASE_URL names a file by sslcert that can't be read: ENOENT/],
  ['sslkey=/no/such/file', /^DATABASE_URL names a file by sslkey that can't be read: ENOENT/],
  ['sslmode=disable&sslmode=requir', /^DATABASE_URL has an unknown sslmode/],
  ['sslrootcert=&sslrootcert=/no/such/file', /^DATABASE_URL names a file by sslrootcert/],
  ['ssl=false', /^DATABASE_URL has an unknown ssl: it must be true, 1 or 0, or sslmode instead$/],
  ['ssl=true&ssl=false', /^DATABASE_URL has an unknown ssl/],
  ['statement_timeout=0', /^DATABASE_URL must not set statement_timeout: each connection sets its own$/],
  ['options=-c%20synchronous_commit%3Doff', /^DATABASE_URL must not set options/],
  ['lock_timeout=60000', /^DATABASE_URL must not set lock_timeout/],
  ['query_timeout=1', /^DATABASE_URL must not set query_timeout/],
  ['sslmode=disable&idle_in_transaction_session_timeout=0', /^DATABASE_URL must not set idle_in_transaction_session_timeout/],
])('an address of a database with %s is refused at once', (parameters, message) => {
  expect(() => read({ DATABASE_URL: `${good.DATABASE_URL}?${parameters}` })).toThrow(message);
});

test.each([
  ...['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'].map((word) => `sslmode=${word}`),
  ...['true', '1', '0'].map((word) => `ssl=${word}`),
  'ssl=false&ssl=true',
  'sslrootcert=&sslcert=&sslkey=',
  `sslmode=verify-full&sslrootcert=${import.meta.filename}`,
])('an address of a database with %s is taken', (parameters) => {
  expect(read({ DATABASE_URL: `${good.DATABASE_URL}?${parameters}` }).databaseUrl).toContain(parameters);
});

const provider = { issuer: 'https://accounts.example.com', client_id: 'ledger', client_secret: 'the secret' };

test('identity providers are read by name, from the variable or a file, and http is for this machine', () => {
  const local = { ...provider, issuer: 'http://127.0.0.1:4000/realm', scopes: ['openid'] };
  const { oidcProviders } = read({ OIDC_PROVIDERS: JSON.stringify({ google: provider, 'my-idp': local }) });
  const common = { clientId: 'ledger', clientSecret: 'the secret' };
  expect([...oidcProviders.values()]).toEqual([
    { name: 'google', issuer: new URL(provider.issuer), ...common, scopes: ['openid', 'email', 'profile'] },
    { name: 'my-idp', issuer: new URL(local.issuer), ...common, scopes: ['openid'] },
  ]);
  for (const issuer of ['http://localhost:1', 'http://[::1]:1']) read({ OIDC_PROVIDERS: JSON.stringify({ one: { ...provider, issuer } }) });
  expect(read().oidcProviders.size).toBe(0);
  expect(() => read({ OIDC_PROVIDERS_FILE: '/no/such/file' })).toThrow(/^OIDC_PROVIDERS_FILE can't be read/);
});

test.each([
  ['{"one":{"client_secret":"the secret"', 'is not valid JSON'],
  ['[]', 'must be an object of providers by name'],
  [{ One: provider }, 'names a provider "One": a name has 1 to 32 lower-case letters, digits and hyphens'],
  [{ ['x'.repeat(33)]: provider }, /^OIDC_PROVIDERS names a provider "x{33}"/],
  [{ '-a': provider }, /^OIDC_PROVIDERS names a provider "-a"/],
  [{ one: 'the secret' }, 'of one must be an object with issuer, client_id and client_secret'],
  [{ one: { ...provider, 'the secret': 1 } }, 'of one has a member other than issuer, client_id, client_secret, scopes'],
  ...['issuer', 'client_id', 'client_secret'].flatMap((name): [object, string][] => [
    [{ one: { ...provider, [name]: undefined } }, `of one needs ${name}, a text`],
    [{ one: { ...provider, [name]: 5 } }, `of one needs ${name}, a text`],
    [{ one: { ...provider, [name]: '' } }, `of one needs ${name}, a text`],
  ]),
  ...[
    ...['accounts.example.com', 'http://accounts.example.com', 'ftp://accounts.example.com', 'https://a:the%20secret@accounts.example.com'],
    ...[
      'http://127.0.0.1.example.com',
      'https://accounts.example.com?a=1',
      'https://accounts.example.com/.well-known/openid-configuration',
    ],
  ].map((issuer): [object, RegExp] => [
    { one: { ...provider, issuer } },
    /^OIDC_PROVIDERS of one needs an issuer that is an https address/,
  ]),
  ...['openid', [], ['email'], ['openid', 'a b'], ['openid', 5]].map((scopes): [object, RegExp] => [
    { one: { ...provider, scopes } },
    /^OIDC_PROVIDERS of one needs scopes/,
  ]),
])('identity providers %j are refused, without the secret', (value, message) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const thrown = (() => {
    try {
      read({ OIDC_PROVIDERS: text });
    } catch (error) {
      return error as Error;
    }
    return undefined;
  })();
  expect(thrown).toBeInstanceOf(BadSetting);
  expect(thrown!.message).toMatch(typeof message === 'string' ? `OIDC_PROVIDERS ${message}` : message);
  expect(thrown!.message).not.toContain('secret"');
  expect(thrown!.message).not.toMatch(/the.{0,3}secret/);
});
