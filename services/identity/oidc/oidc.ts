// Logins with identity providers: from the provider's answer to a code, from a code to a user and a session.
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { v7 as uuidv7 } from 'uuid';
import { auditUser, type Origin } from '../audit.ts';
import { hashOf, newToken } from '../credentials.ts';
import { databaseNow, entityManager } from '../database.ts';
import { User, type UserRow } from '../entities.ts';
import * as field from '../fields.ts';
import type { OidcIdentity } from './oidc-client.ts';
import { Refusal } from '../refusal.ts';
import { lockSession } from '../sessions.ts';

/** How long a code is valid. */
const codeSeconds = 60;

/** The identity of a code that the database knows. */
interface Code {
  provider: string;
  issuer: string;
  subject: string;
  email: string;
  email_verified: boolean;
  first_name: string;
  last_name: string;
}

const isValid = `hash = ? and spent_at is null and expires_at > now()`;
const invalidCode = () => new Refusal('unauthenticated', 'the code is unknown, used or expired');

/** Keeps a verified identity for 60 seconds under a new code, which it returns. */
export async function createCode(orm: MikroORM, provider: string, { issuer, subject, claims }: OidcIdentity): Promise<string> {
  const code = newToken();
  const email = emailOf(claims['email']);
  const isVerified = email !== '' && (claims['email_verified'] === true || claims['email_verified'] === 'true');
  const names = namesOf(claims, email);
  await entityManager(orm).execute(
    `insert into oidc_codes (hash, provider, issuer, subject, email, email_verified, first_name, last_name, created_at, expires_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, now(), now() + interval '${codeSeconds} s')`,
    [hashOf(code), provider, issuer, subject, email, isVerified, ...names],
  );
  return code;
}

/** The user whom a code would log in; null: it would create one. Throws `unauthenticated` (code), `email_taken`. */
export async function userOfCode(em: EntityManager, code: string): Promise<UserRow | null> {
  const [found] = await em.execute<Code[]>(`select * from oidc_codes where ${isValid}`, [hashOf(code)]);
  if (!found) throw invalidCode();
  return (await userOfIdentity(em, found))?.user ?? null;
}

/**
 * Spends a code: the user of its identity, joined by email or created where there is none. `checked`: the user (UUID) whose second factor was checked.
 * Throws as {@link userOfCode}, and `totp_required`; then the code stays valid.
 */
export async function spendCode(orm: MikroORM, code: string, checked: string | undefined, origin: Origin | undefined): Promise<UserRow> {
  return entityManager(orm).transactional(async (em) => {
    const spent = await spend(em, code);
    const found = await userOfIdentity(em, spent);
    // It may have been turned on after the check.
    if (found?.user.totpSecret != null && found.user.id !== checked)
      throw new Refusal('totp_required', 'a code of the second factor is required');
    if (found?.isLinked) return found.user;
    const nowMs = await databaseNow(em);
    const user = found?.user ?? (await createUser(em, spent, origin, nowMs));
    await link(em, spent, user.id, origin, nowMs);
    return user;
  });
}

/** Spends a code of this provider and joins its identity to a user. Throws `unauthenticated`, `email_taken`; then the code stays valid. */
export async function linkCode(
  orm: MikroORM,
  given: { userId: string; sessionId: string; provider: string; code: string; origin?: Origin | undefined },
): Promise<UserRow> {
  return entityManager(orm).transactional(async (em) => {
    const spent = await spend(em, given.code);
    if (spent.provider !== given.provider) throw invalidCode();
    const user = await em.findOneOrFail(User, { id: await lockSession(em, given.userId, given.sessionId) });
    const linked = await linkedUser(em, spent);
    if (linked && linked.id !== user.id) throw taken('another user has this identity');
    if (!linked) await link(em, spent, user.id, given.origin, await databaseNow(em));
    return user;
  });
}

async function spend(em: EntityManager, code: string): Promise<Code> {
  // The update decides between two calls at once: the second waits for the row, then finds it spent.
  const [spent] = await em.execute<Code[]>(`update oidc_codes set spent_at = now() where ${isValid} returning *`, [hashOf(code)]);
  if (!spent) throw invalidCode();
  // Two codes of one new identity would create two users.
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [`${spent.issuer} ${spent.subject}`]);
  return spent;
}

async function userOfIdentity(em: EntityManager, code: Code): Promise<{ user: UserRow; isLinked: boolean } | null> {
  const linked = await linkedUser(em, code);
  if (linked) return { user: linked, isLinked: true };
  if (code.email === '') throw new Refusal('unauthenticated', 'the identity provider gave no email address, which a new user needs');
  const [found] = await em.execute<{ id: string }[]>('select id from users where lower(email) = lower(?)', [code.email]);
  if (!found) return null;
  const user = await em.findOneOrFail(User, { id: found.id });
  // Verified on one side only, another person may claim the address. The database's `lower` makes more letters equal than
  // mail servers do.
  if (!code.email_verified || user.emailVerifiedAt === null || !isSameAddress(code.email, user.email)) throw taken(emailTaken);
  return { user, isLinked: false };
}

async function linkedUser(em: EntityManager, { issuer, subject }: Code): Promise<UserRow | null> {
  const [found] = await em.execute<{ user_id: string }[]>('select user_id from oidc_identities where issuer = ? and subject = ?', [
    issuer,
    subject,
  ]);
  return found ? em.findOneOrFail(User, { id: found.user_id }) : null;
}

async function createUser(em: EntityManager, code: Code, origin: Origin | undefined, nowMs: number): Promise<UserRow> {
  const id = uuidv7();
  const now = new Date(nowMs);
  const inserted = await em.execute<{ id: string }[]>(
    `insert into users (id, email, first_name, last_name, status, email_verified_at, created_at) values (?, ?, ?, ?, 'active', ?, ?)
     on conflict do nothing returning id`,
    [id, code.email, code.first_name, code.last_name, code.email_verified ? now : null, now],
  );
  // Registered meanwhile.
  if (inserted.length === 0) throw taken(emailTaken);
  await auditUser(em, id, { type: 'user.registered', byUser: true, origin, data: { provider: code.provider } }, nowMs);
  return em.findOneOrFail(User, { id });
}

async function link(em: EntityManager, code: Code, userId: string, origin: Origin | undefined, nowMs: number): Promise<void> {
  const { issuer, subject, provider } = code;
  await em.execute('insert into oidc_identities (issuer, subject, provider, user_id, created_at) values (?, ?, ?, ?, ?)', [
    ...[issuer, subject, provider, userId, new Date(nowMs)],
  ]);
  await auditUser(em, userId, { type: 'identity.linked', byUser: true, origin, data: { provider, issuer } }, nowMs);
}

const emailTaken = 'another user has this email: log in as that user and link the identity';

function taken(message: string): Refusal {
  return new Refusal('email_taken', message, { field: 'code', tag: 'unique' });
}

function isSameAddress(one: string, other: string): boolean {
  const [first, second] = [one, other].map((each) => each.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()));
  return first === second;
}

/** The address that a provider names; empty for one that no user can have. */
function emailOf(claim: unknown): string {
  try {
    return typeof claim === 'string' ? field.email('email', claim) : '';
  } catch {
    return '';
  }
}

/** First and last name, neither empty: as given, from the whole name, or from the address. */
function namesOf(claims: Record<string, unknown>, email: string): [first: string, last: string] {
  const text = (claim: unknown) => (typeof claim === 'string' ? claim.toWellFormed().replaceAll('\0', '').trim() : '');
  const [, head = '', rest = ''] = /^(\S*)\s*(.*)$/su.exec(text(claims['name'])) ?? [];
  const first = text(claims['given_name']) || head || email.split('@')[0] || '-';
  const last = text(claims['family_name']) || rest || '-';
  const short = (name: string) => Array.from(name).slice(0, 255).join('');
  return [short(first), short(last)];
}
