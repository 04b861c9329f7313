// A mail server of a test, with the answers that it gives.
import { buffer } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { parseMail, type Mail } from './mails.ts';
import { until } from './polling.ts';
import { testPort } from './cluster.ts';

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
  close(): Promise<void>;
}

/** An error of SMTP with its code. */
export function smtpError(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}

/** Starts a server that takes every mail, unless `options` say otherwise: without TLS and users by default. */
export async function startMailServer(options: SMTPServerOptions = {}, port = 0): Promise<MailServer> {
  const own = port === 0 ? await testPort() : port;
  const [mails, recipients, sessions]: [Mail[], string[], MailServer['sessions']] = [[], [], []];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    // Otherwise each connection waits for a name server.
    disableReverseLookup: true,
    closeTimeout: 100,
    ...options,
    onData(stream, session, done) {
      if (options.onData) {
        options.onData(stream, session, done);
        return;
      }
      buffer(stream)
        .then((source) => parseMail(source))
        .then((mail) => {
          mails.push(mail);
          sessions.push({ secure: session.secure, user: session.user });
          done();
        }, done);
    },
    onRcptTo(address, session, done) {
      recipients.push(address.address);
      if (options.onRcptTo) options.onRcptTo(address, session, done);
      else done();
    },
  });
  server.on('error', () => undefined);
  await new Promise<void>((done) => server.listen(own, '127.0.0.1', done));
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
    close: () => new Promise((done) => server.close(done)),
  };
}
