// Mails to send, written with the change that causes them, and the tokens that they carry.
import type { EntityManager } from '@mikro-orm/postgresql';
import { rateLimitMetadata } from '../../platform/errors.ts';
import { uuidAt } from '../../platform/ids.ts';
import { hashOf } from '../credentials.ts';
import { Refusal } from '../refusal.ts';

/** What a mail is for. */
export type MailKind = 'verification' | 'reset' | 'invitation';

/** A mail of the outbox; ids are UUIDs. */
export interface Mail {
  kind: MailKind;
  email: string;
  userId?: string | undefined;
  /** Of an invitation only, as `invitationId`. */
  tenantId?: string | undefined;
  invitationId?: string | undefined;
  /** What its template needs; never a token. */
  data: Record<string, string>;
  /** When its tokens end. */
  expiresAt: Date;
}

/** Mails to one address in {@link mailWindowSeconds}, of all kinds and tenants together. */
const maxMails = 5;
/** For so long mails count. */
export const mailWindowSeconds = 3600;

/**
 * Writes a mail, which is sent after the transaction. Throws `rate_limited` beyond 5 mails an hour to its address, in any case. `nowMs`: milliseconds
 * since the Unix epoch.
 */
export async function enqueueMail(em: EntityManager, mail: Mail, nowMs: number): Promise<void> {
  const { kind, email, userId = null, tenantId = null, invitationId = null, data, expiresAt } = mail;
  // Of two mails at once the second counts the first.
  await em.execute('select pg_advisory_xact_lock(hashtextextended(lower(?), 1))', [email]);
  const newest = await em.execute<{ ms: number }[]>(
    `select (extract(epoch from created_at) * 1000)::float8 as ms from mails
     where lower(email) = lower(?) and created_at > ? order by created_at desc limit ?`,
    [email, new Date(nowMs - mailWindowSeconds * 1000), maxMails],
  );
  const oldest = newest[maxMails - 1];
  if (oldest) throw tooManyMails(nowMs - oldest.ms);
  const now = new Date(nowMs);
  await em.execute(
    `insert into mails (id, kind, email, user_id, tenant_id, invitation_id, data, created_at, expires_at, next_attempt_at, attempts)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
    [uuidAt(nowMs), kind, email, userId, tenantId, invitationId, JSON.stringify(data), now, expiresAt, now],
  );
}

function tooManyMails(ageMs: number): Refusal {
  const reset = Math.min(mailWindowSeconds, Math.max(1, mailWindowSeconds - Math.floor(ageMs / 1000)));
  return new Refusal('rate_limited', 'too many mails to this address, try again later', {
    retryAfter: reset,
    metadata: rateLimitMetadata({ policy: 'mail', quota: maxMails, window: mailWindowSeconds, remaining: 0, reset }),
  });
}

/** What a token was mailed for; ids are UUIDs. */
export interface SpentMail {
  id: string;
  email: string;
  userId: string | null;
  tenantId: string | null;
  invitationId: string | null;
}

/** The mail of a token that is good now. Throws `token_invalid` where it is unknown, of another kind, used or expired. */
export async function mailOfToken(em: EntityManager, kind: MailKind, token: string, lock: '' | 'for update of m' = ''): Promise<SpentMail> {
  const [mail] = await em.execute<SpentMail[]>(
    `select m.id, m.email, m.user_id as "userId", m.tenant_id as "tenantId", m.invitation_id as "invitationId"
     from mail_tokens t join mails m on m.id = t.mail_id
     where t.hash = ? and t.spent_at is null and m.kind = ? and m.expires_at > clock_timestamp() ${lock}`,
    [hashOf(token), kind],
  );
  if (!mail) throw tokenInvalid();
  return mail;
}

/**
 * Uses a mailed token, and with it all tokens of its mail. Of two uses at once the second waits for the end of the first. Throws as
 * {@link mailOfToken}.
 */
export async function spendToken(em: EntityManager, kind: MailKind, token: string): Promise<SpentMail> {
  const mail = await mailOfToken(em, kind, token, 'for update of m');
  // A statement of its own: the one that waited for the lock sees tokens as they were before. A further attempt to send may have made a further one.
  const spent = await em.execute<{ hash: string }[]>(
    `update mail_tokens set spent_at = clock_timestamp() where mail_id = ?
       and not exists (select from mail_tokens where mail_id = ? and spent_at is not null) returning hash`,
    [mail.id, mail.id],
  );
  if (spent.length === 0) throw tokenInvalid();
  return mail;
}

/** The error of a mailed token. It names no reason, so that a token that was found somewhere tells nothing. */
export function tokenInvalid(): Refusal {
  return new Refusal('token_invalid', 'the token is unknown, used or expired', { field: 'token', tag: 'token_invalid' });
}
