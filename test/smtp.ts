// A mail server of a test, with the answers that it gives.
import type { Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { testPort } from './cluster.ts';
import { parseMail, type Mail } from './mails.ts';
import { until } from './polling.ts';

/** A running server. */
export interface MailServer {
  port: number;
  /** What it has taken, in order. */
  mails: Mail[];
  /** Recipients that were named, also of mails that it did not take. */
  recipients: string[];
  /** Whether each mail came over TLS, and as which user. */
  sessions: { secure: boolean; user: string | undefined }[];
  /** The mails to an address; waits until there are as many as `count`. */
  to(email: string, count?: number): Promise<Mail[]>;
  /** Closes the connection of a session. */
  drop(session: string): void;
  close(): Promise<void>;
}

/** An error of SMTP with its code. */
export function smtpError(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}

/** Starts a server: without TLS and users, unless `options` say otherwise. `fault`: why it does not take a mail; null: it does. */
export async function startMailServer(
  { fault, ...options }: SMTPServerOptions & { fault?: (mail: Mail) => Error | null } = {},
  port?: number,
): Promise<MailServer> {
  const own = port ?? (await testPort());
  const [mails, recipients, sessions]: [Mail[], string[], MailServer['sessions']] = [[], [], []];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    // Otherwise each connection waits for a name server.
    disableReverseLookup: true,
    closeTimeout: 100,
    ...options,
    onRcptTo(address, session, done) {
      recipients.push(address.address);
      if (options.onRcptTo) options.onRcptTo(address, session, done);
      else done();
    },
    onData(stream, session, done) {
      const take = async () => {
        const mail = await parseMail(await buffer(stream));
        const error = fault?.(mail);
        if (error) throw error;
        mails.push(mail);
        sessions.push({ secure: session.secure, user: session.user });
      };
      take().then(() => done(), done);
    },
  });
  server.on('error', () => undefined);
  await new Promise<void>((done) => server.listen(own, '127.0.0.1', done));
  const connections = () => [...(server as unknown as { connections: Set<{ id: string; _socket: Socket }> }).connections];
  return {
    port: own,
    mails,
    recipients,
    sessions,
    to: (email, count = 1) =>
      until(
        () => Promise.resolve(mails.filter((mail) => mail.to?.some(({ address }) => address === email))),
        (found) => found.length >= count,
      ),
    drop: (session) =>
      connections()
        .find(({ id }) => id === session)
        ?._socket.destroy(),
    close: () => new Promise((done) => server.close(done)),
  };
}
