// Sends a mail to an SMTP server, or writes it into a directory as a file.
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTransport } from 'nodemailer';
import { writableDirectory } from '../../platform/directories.ts';
import type { IdentityConfig } from '../config.ts';
import type { MailText } from './mail-templates.ts';

/** A mail to send; `id`: UUID. */
export interface OutgoingMail extends MailText {
  id: string;
  to: string;
}

/** Sends a mail, or throws. An abort ends it at once. */
export type SendMail = (mail: OutgoingMail, signal: AbortSignal) => Promise<void>;

/** What sends mails. Throws `BadSetting` where the directory can't be used. */
export async function openMailTransport({ mail: target, mailFrom }: Pick<IdentityConfig, 'mail' | 'mailFrom'>): Promise<SendMail> {
  if ('server' in target) {
    const transport = createTransport(smtpOptions(target.server));
    return async (mail, signal) => {
      await transport.sendMail({ ...message(mail, mailFrom), signal });
    };
  }
  const { directory } = target;
  await writableDirectory('MAIL_DIR', directory);
  const transport = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
  return async (mail) => {
    const { message: content } = await transport.sendMail(message(mail, mailFrom));
    const name = `${new Date().toISOString().replaceAll(':', '')}-${mail.id}.eml`;
    const unfinished = join(directory, `${name}.part`);
    await writeFile(unfinished, content as Buffer, { mode: 0o600, flush: true });
    await rename(unfinished, join(directory, name));
  };
}

function smtpOptions({ protocol, hostname, port, username, password }: URL) {
  const secure = protocol === 'smtps:';
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (secure ? 465 : 587) : Number(port),
    secure,
    // A password must not travel in the clear.
    ...(username !== '' && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) }, requireTLS: !secure }),
    dnsTimeout: 10_000,
    connectionTimeout: 10_000,
    greetingTimeout: 30_000,
    socketTimeout: 30_000,
  };
}

function message({ id, to, subject, text, html }: OutgoingMail, from: string) {
  return {
    from,
    // As an object: text with commas would be several addresses.
    to: { name: '', address: to },
    subject,
    text,
    html,
    // Of two copies, after a crash, most mail programs show one.
    messageId: `<${id}@${/@([^\s<>@]+)>?$/.exec(from)?.[1] ?? 'localhost'}>`,
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** Whether the server has rejected this recipient or this mail for good, or the address is none. Wrong settings are not the mail's fault. */
export function isPermanentRejection(error: unknown): boolean {
  const { code, responseCode, command } = error as { code?: string; responseCode?: number; command?: string };
  if (responseCode === undefined) return code === 'EENVELOPE';
  return responseCode >= 500 && (command === 'RCPT TO' || command === 'DATA');
}
