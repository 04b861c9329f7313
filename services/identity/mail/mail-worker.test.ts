import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import pg from 'pg';
import { Registry } from 'prom-client';
import type { SMTPServerOptions } from 'smtp-server';
import { local } from '../../../test/certificates.ts';
import { freshDatabase, testPort, type FreshDatabase } from '../../../test/cluster.ts';
import { newEmail, newTenant, newUser, startIdentity, type RunningIdentity } from '../../../test/identity.ts';
import { until } from '../../../test/polling.ts';
import { currentRun } from '../../../test/run.ts';
import { smtpError, startMailServer, type MailServer } from '../../../test/smtp.ts';
import { toUuid, uuidAt } from '../../platform/ids.ts';
import { isPermanentRejection, openMailTransport } from './mail-transport.ts';
import { MailWorker, type MailWorkerOptions } from './mail-worker.ts';

jest.setTimeout(90_000);

let database: FreshDatabase;
let admin: pg.Client;

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
});
afterAll(async () => {
  await admin.end();
  await database.drop();
});

const start = (url: string, env = {}) => startIdentity(database.serviceUrl, { MAIL_URL: url, ...env });
const rowOf = async (email: string) => {
  const { rows } = await admin.query('select attempts, sent_at, failed_at, next_attempt_at from mails where email = $1', [email]);
  return rows[0] as { attempts: number; sent_at: Date | null; failed_at: Date | null };
};
/** Waits until the service has logged a text. */
const logged = (identity: RunningIdentity, text: string) =>
  until(
    () => Promise.resolve(identity.child.output()),
    (output) => output.includes(text),
  );
const due = (email: string) => admin.query('update mails set next_attempt_at = now() where email = $1', [email]);

/** A new user to whom a verification is mailed. */
async function newMail({ client }: RunningIdentity): Promise<string> {
  const user = await newUser(client);
  await client.sendVerificationEmail({ userId: user.id });
  return user.email;
}

/** A server that takes connections and never says a word. */
async function startSilent(): Promise<{ port: number; connections: () => number; close: () => void }> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { port: (server.address() as AddressInfo).port, connections: () => sockets.size, close };
}

describe('over SMTP', () => {
  let identity: RunningIdentity;
  let server: MailServer;
  /** What the server does with a recipient, before it takes the mail. */
  const behaviour = new Map<string, NonNullable<SMTPServerOptions['onRcptTo']>>();
  const dataFaults = new Map<string, (link: string) => Error | null>();

  beforeAll(async () => {
    const port = await testPort();
    server = await startMailServer(
      {
        onRcptTo: (address, session, done) =>
          (behaviour.get(address.address) ?? ((_address, _session, next) => next()))(address, session, done),
        fault: (mail) => dataFaults.get(mail.to?.[0]?.address ?? '')?.(mail.link.href) ?? null,
      },
      port,
    );
    identity = await start(`smtp://127.0.0.1:${port}`);
  });
  afterAll(async () => {
    await identity.end();
    await server.close();
  });

  /** Registers a user whose mail the server treats so. */
  const withFault = async (set: (email: string) => void) => {
    const user = await newUser(identity.client);
    set(user.email);
    await identity.client.sendVerificationEmail({ userId: user.id });
    return user.email;
  };

  test('a mail arrives with a token that works, and its row says so', async () => {
    const email = await newMail(identity);
    const [mail] = await server.to(email);
    expect((await identity.client.verifyEmail({ token: mail!.token })).user!.emailVerified).toBe(true);
    const row = await until(
      () => rowOf(email),
      ({ sent_at }) => sent_at !== null,
    );
    expect(row).toMatchObject({ attempts: 1, failed_at: null });
    expect(await identity.metric('identity_mails_total{result="sent"')).toBeGreaterThan(0);
  });

  test('a recipient that is rejected for good is not tried again', async () => {
    const email = await withFault((to) => behaviour.set(to, (_address, _session, done) => done(smtpError(550, 'no such user'))));
    expect(
      await until(
        () => rowOf(email),
        ({ failed_at }) => failed_at !== null,
      ),
    ).toMatchObject({ attempts: 1, sent_at: null });
    await logged(identity, 'no such user');
    expect(await identity.metric('identity_mails_total{result="rejected"')).toBeGreaterThan(0);
    expect(
      await until(
        () => identity.metric('identity_mails_waiting'),
        (waiting) => waiting === 0,
      ),
    ).toBe(0);
  });

  test('a content that is rejected for good is not tried again, and its token is not logged', async () => {
    let token = '';
    const email = await withFault((to) =>
      dataFaults.set(to, (link) => {
        token = new URL(link).searchParams.get('token') ?? '';
        return smtpError(554, `blocked for ${link}`);
      }),
    );
    await until(
      () => rowOf(email),
      ({ failed_at }) => failed_at !== null,
    );
    await logged(identity, 'blocked for');
    expect(token).toMatch(/^[0-9A-Za-z]{43}$/);
    expect(identity.child.output()).not.toContain(token);
  });

  test('a mail that is rejected for a while is sent again until it is taken', async () => {
    let attempts = 0;
    const email = await withFault((to) =>
      behaviour.set(to, (_address, _session, done) => (++attempts < 3 ? done(smtpError(450, 'try later')) : done())),
    );
    await until(
      () => rowOf(email),
      (row) => row.attempts > 0,
    );
    const began = Date.now();
    await server.to(email);
    expect(Date.now() - began).toBeGreaterThan(3_000);
    expect(
      await until(
        () => rowOf(email),
        ({ sent_at }) => sent_at !== null,
      ),
    ).toMatchObject({ attempts: 3, failed_at: null });
    expect(await identity.metric('identity_mails_total{result="retried"')).toBeGreaterThan(1);
  });

  test('a mail whose server dies in the middle is sent again', async () => {
    let attempts = 0;
    const email = await withFault((to) =>
      behaviour.set(to, (_address, session, done) => {
        if (++attempts > 1) done();
        else server.drop(session.id);
      }),
    );
    await server.to(email);
    expect(attempts).toBe(2);
  });

  test('a recipient for whom the server stalls does not delay others', async () => {
    const stalled = await withFault((to) => behaviour.set(to, () => undefined));
    await until(
      () => Promise.resolve(server.recipients),
      (recipients) => recipients.includes(stalled),
    );
    const others = await Promise.all([1, 2, 3].map(() => newMail(identity)));
    for (const email of others) await server.to(email);
    expect(await rowOf(stalled)).toMatchObject({ sent_at: null, failed_at: null });
    await admin.query('update mails set expires_at = now() where email = $1', [stalled]);
  });

  test('an address with marks of a list goes to nobody else', async () => {
    const suffix = newEmail().replace('@', '.');
    const odd = [
      `ada,eve.${suffix}@example.com`,
      `eve;ada${suffix}@example.com`,
      `<eve${suffix}>@example.com`,
      `team:eve${suffix}@example.com`,
    ];
    const { client } = identity;
    const before = server.recipients.length;
    for (const email of odd) {
      const { user } = await client.register({ email, password: 'correct horse', firstName: 'Eve', lastName: 'Eve' });
      await client.sendVerificationEmail({ userId: user!.id });
      await until(
        () => rowOf(email),
        (row) => row.sent_at !== null || row.failed_at !== null,
      );
    }
    const named = server.recipients.slice(before).map((each) => each.replace(/^"(.*)"@/, '$1@'));
    expect(named.filter((each) => !odd.includes(each))).toEqual([]);
    expect(named).not.toEqual([]);
  });

  test('names can add neither a header nor a link', async () => {
    const user = await newUser(identity.client);
    const tenantId = toUuid('tenant', await newTenant(identity.client, user.id));
    const [email, id] = [newEmail(), uuidAt(Date.now())];
    const data = {
      tenant: 'Books\r\nBcc: eve@example.com\r\n\r\n<script>alert(1)</script>',
      role: 'viewer',
      invited_by: 'Eve\u2028https://evil.example.com?token=x <img src=x>',
    };
    await admin.query(`insert into invitations values ($1, $2, $3, 'viewer', $4, now(), now() + interval '7 d', null, null)`, [
      ...[tenantId, id, email, toUuid('user', user.id)],
    ]);
    await admin.query(
      `insert into mails (id, kind, email, tenant_id, invitation_id, data, created_at, expires_at, next_attempt_at, attempts)
       values ($1, 'invitation', $2, $3, $1, $4, now(), now() + interval '7 d', now(), 0)`,
      [id, email, tenantId, JSON.stringify(data)],
    );
    const [mail] = await server.to(email);
    expect(mail!.subject).toBe('Invitation to Books Bcc: eve@example.com <script>alert(1)</script>');
    expect(mail!.bcc ?? []).toEqual([]);
    expect(server.recipients).not.toContain('eve@example.com');
    expect(mail!.link.pathname).toBe('/mail/accept-invitation');
    expect(mail!.text!.match(/\w+:\/\//g)).toEqual(['http://']);
    expect(mail!.text!.trim().split('\n\n')).toHaveLength(3);
    expect(mail!.html).toContain('&#60;script&#62;');
    expect(mail!.html!.match(/<(?!\/)\w+/g)).toEqual(['<html', '<body', '<p', '<p', '<a', '<p']);
  });

  test('an invitation that was revoked before it was sent is not sent', async () => {
    const id = uuidAt(Date.now());
    const email = newEmail();
    const tenantId = toUuid('tenant', await newTenant(identity.client, (await newUser(identity.client)).id));
    await admin.query(
      `with revoked as (insert into invitations values ($3, $1, $2, 'viewer', $1, now(), now() + interval '7 d', null, now()))
       insert into mails (id, kind, email, tenant_id, invitation_id, data, created_at, expires_at, next_attempt_at, attempts)
       values ($1, 'invitation', $2, $3, $1, '{}', now(), now() + interval '7 d', now(), 0)`,
      [id, email, tenantId],
    );
    await until(
      () => rowOf(email),
      ({ failed_at }) => failed_at !== null,
    );
    expect(server.recipients).not.toContain(email);
  });

  test('replicas share the work: each mail arrives once', async () => {
    const second = await start(`smtp://127.0.0.1:${server.port}`);
    const users = await Promise.all(Array.from({ length: 8 }, () => newUser(identity.client)));
    await Promise.all(users.flatMap(({ id }) => [1, 2, 3, 4].map(() => second.client.sendVerificationEmail({ userId: id }))));
    for (const { email } of users) await server.to(email, 4);
    await until(
      async () => (await admin.query('select from mails where sent_at is null and failed_at is null and expires_at > now()')).rowCount,
      (waiting) => waiting === 0,
    );
    for (const { email } of users) expect(await server.to(email)).toHaveLength(4);
    await second.end();
  });
});

describe('a mail is not lost', () => {
  test('where the service is killed before it has sent it', async () => {
    const silent = await startSilent();
    const first = await start(`smtp://127.0.0.1:${silent.port}`);
    const email = await newMail(first);
    await until(
      () => Promise.resolve(silent.connections()),
      (connections) => connections > 0,
    );
    first.child.signal('SIGKILL');
    await first.end();
    silent.close();
    const server = await startMailServer();
    const second = await start(`smtp://127.0.0.1:${server.port}`);
    // Its lease would end in two minutes.
    await due(email);
    const [mail] = await server.to(email);
    await second.client.verifyEmail({ token: mail!.token });
    await second.end();
    await server.close();
  });

  test('where the server is away, and the service stops soon although one stalls', async () => {
    const silent = await startSilent();
    const identity = await start(`smtp://127.0.0.1:${silent.port}`);
    const email = await newMail(identity);
    await until(
      () => Promise.resolve(silent.connections()),
      (connections) => connections > 0,
    );
    const began = Date.now();
    await identity.end();
    expect(Date.now() - began).toBeLessThan(15_000);
    silent.close();
    expect(await identity.child.ended).toMatchObject({ code: 0 });
    // Aborted, it is to be tried again soon.
    expect(await rowOf(email)).toMatchObject({ sent_at: null, failed_at: null });
    const again = await start(`smtp://127.0.0.1:${silent.port}`);
    await until(
      () => rowOf(email),
      ({ attempts }) => attempts > 1,
    );
    const server = await startMailServer({}, silent.port);
    await due(email);
    await server.to(email);
    await again.end();
    await server.close();
  });
});

describe('a mail server with users', () => {
  const onAuth: SMTPServerOptions['onAuth'] = (auth, _session, done) =>
    auth.username === 'led@ger' && auth.password === 'p/w' ? done(null, { user: 'ledger' }) : done(smtpError(535, 'wrong password'));
  const encrypted = { authOptional: false, onAuth, ...local };
  const credentials = 'led%40ger:p%2Fw';
  const mail = { id: uuidAt(Date.now()), to: 'ada@example.com', subject: 'x', text: 'http://x', html: 'x' };
  const sendTo = async (url: string) => {
    const send = await openMailTransport({ mail: { server: new URL(url) }, mailFrom: 'ledger@localhost' });
    return send(mail, AbortSignal.timeout(10_000));
  };

  test.each([
    ['smtp', { disabledCommands: [] }],
    ['smtps', { secure: true }],
  ])('gets mails over %s, encrypted and with the password', async (protocol, options) => {
    const server = await startMailServer({ ...encrypted, ...options });
    const authority = join(mkdtempSync(join(currentRun().directory, 'mail-ca-')), 'ca.pem');
    writeFileSync(authority, local.cert);
    const identity = await start(`${protocol}://${credentials}@localhost:${server.port}`, { NODE_EXTRA_CA_CERTS: authority });
    const email = await newMail(identity);
    await server.to(email);
    expect(server.sessions).toEqual([{ secure: true, user: 'ledger' }]);
    await identity.end();
    await server.close();
  });

  test('that rejects the sender keeps the mail waiting, because a setting is wrong', async () => {
    const server = await startMailServer({ onMailFrom: (_address, _session, done) => done(smtpError(550, 'no such sender')) });
    const error = await sendTo(`smtp://127.0.0.1:${server.port}`).catch((thrown: unknown) => thrown);
    expect([error, isPermanentRejection(error)]).toEqual([expect.objectContaining({ responseCode: 550 }), false]);
    await server.close();
  });

  test('gets nothing where its certificate is not trusted', async () => {
    const server = await startMailServer({ ...encrypted, disabledCommands: [] });
    await expect(sendTo(`smtp://${credentials}@localhost:${server.port}`)).rejects.toThrow(/self.signed certificate/);
    expect(server.mails).toEqual([]);
    await server.close();
  });

  test('gets no password in the clear', async () => {
    let attempts = 0;
    const server = await startMailServer({ authOptional: false, allowInsecureAuth: true, onAuth: () => (attempts += 1) });
    await expect(sendTo(`smtp://${credentials}@127.0.0.1:${server.port}`)).rejects.toThrow(/STARTTLS/);
    expect(attempts).toBe(0);
    await server.close();
  });

  test('that rejects the password keeps the mails waiting', async () => {
    const server = await startMailServer({ authOptional: false, onAuth, ...local, secure: true });
    const authority = join(mkdtempSync(join(currentRun().directory, 'mail-ca-')), 'ca.pem');
    writeFileSync(authority, local.cert);
    const identity = await start(`smtps://led%40ger:wrong@localhost:${server.port}`, { NODE_EXTRA_CA_CERTS: authority });
    const email = await newMail(identity);
    await until(
      () => identity.metric('identity_mails_total{result="retried"'),
      (retried) => retried > 0,
    );
    expect(await rowOf(email)).toMatchObject({ sent_at: null, failed_at: null });
    await logged(identity, 'wrong password');
    expect(identity.child.output()).not.toContain('led@ger');
    await identity.end();
    await server.close();
  });
});

test('where no mail was sent yet the metric is 0, with which an alert compares it', async () => {
  const metrics = new Registry();
  expect(new MailWorker({ metrics } as MailWorkerOptions)).toBeDefined();
  expect(await metrics.getSingleMetricAsString('identity_mails_total')).toContain('identity_mails_total{result="sent"} 0');
});
