// Sessions: signed access tokens that anyone can verify, and refresh tokens that work once.
import { createPublicKey, type KeyObject } from 'node:crypto';
import { SignJWT, calculateJwkThumbprint, type JWK } from 'jose';
import { sql, type EntityManager, type MikroORM } from '@mikro-orm/postgresql';
import { v7 as uuidv7 } from 'uuid';
import { toId } from '../platform/ids.ts';
import { auditUser, lockUser, type Origin } from './audit.ts';
import { hashOf, newRefreshToken } from './credentials.ts';
import { databaseNow, entityManager } from './database.ts';
import { Refusal } from './refusal.ts';
import * as field from './fields.ts';
import { RefreshToken, Session as SessionRow, User, type UserRow } from './entities.ts';

/** Lifetime of a token, seconds. */
const tokenSeconds = 3600;
/** Lifetime of a refresh token, seconds. */
const refreshSeconds = 30 * 86_400;

/** The credentials of a session. */
export interface Session {
  token: string;
  expiresMs: number;
  refreshToken: string;
}

/** How a session was opened. */
export interface SessionOrigin {
  method: 'password' | 'oidc';
  origin: Origin | undefined;
  /** The user's hash when its credentials were checked: a new password that was set meanwhile ends this login too. */
  passwordHash: string | null;
}

/** Signs tokens, and publishes what verifies them. */
export interface Signer {
  /** A JSON Web Key Set (RFC 7517) as text. */
  keySet: string;
  /** `nowMs`: from when the token lives, milliseconds since the Unix epoch. `sessionId`: claim `sid`. */
  sign(userId: string, nowMs: number, sessionId?: string): Promise<{ token: string; expiresMs: number }>;
}

/** A signer over Ed25519 keys: the first signs; all verify, so that keys can be rotated without ending sessions. */
export async function openSigner(keys: readonly [KeyObject, ...KeyObject[]]): Promise<Signer> {
  const published: JWK[] = await Promise.all(
    keys.map(async (key) => {
      const jwk = createPublicKey(key).export({ format: 'jwk' }) as JWK;
      return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: 'EdDSA', use: 'sig' };
    }),
  );
  const header = { alg: 'EdDSA', typ: 'JWT', kid: published[0]?.kid ?? '' };
  return {
    keySet: JSON.stringify({ keys: published }),
    async sign(userId, nowMs, sessionId) {
      const now = Math.floor(nowMs / 1000);
      const token = await new SignJWT({ ...(sessionId !== undefined && { sid: sessionId }) })
        .setProtectedHeader(header)
        .setIssuer('ledger')
        .setAudience('ledger')
        .setSubject(userId)
        .setIssuedAt(now)
        .setExpirationTime(now + tokenSeconds)
        .sign(keys[0]);
      return { token, expiresMs: (now + tokenSeconds) * 1000 };
    },
  };
}

/** Opens a session for a user whose credentials were verified. `how`: by what. Throws `unauthenticated` where the password has changed. */
export async function openSession(orm: MikroORM, signer: Signer, userId: string, how: SessionOrigin): Promise<Session> {
  const id = uuidv7();
  const { nowMs, text } = await entityManager(orm).transactional(async (em) => {
    const opened = await databaseNow(em);
    const { method, origin } = how;
    // It locks the user.
    await auditUser(em, userId, { type: 'login.succeeded', byUser: true, origin, data: { method } }, opened);
    const stands = await em.findOne(User, { id: userId, passwordHash: how.passwordHash }, { refresh: true });
    if (!stands) throw new Refusal('unauthenticated', 'a new password was set meanwhile: log in again');
    const { text: first, row } = nextToken(id, opened);
    await em.insert(SessionRow, { id, userId, createdAt: row.createdAt, expiresAt: row.expiresAt, endedAt: null });
    await em.insert(RefreshToken, row);
    return { nowMs: opened, text: first };
  });
  return { ...(await signer.sign(toId('user', userId), nowMs, id)), refreshToken: text };
}

/**
 * Exchanges a refresh token for a new session. A token that was spent before may be stolen: the whole family ends (RFC 9700, section 4.14.2).
 * Throws `unauthenticated`.
 */
export async function refreshSession(
  orm: MikroORM,
  signer: Signer,
  given: string,
  origin: Origin,
): Promise<{ session: Session; user: UserRow }> {
  const hash = hashOf(given);
  const renewed = await entityManager(orm).transactional(async (em) => {
    // The update decides between two calls at once: the second waits for the row, then finds the token spent.
    const spent = await em.nativeUpdate(RefreshToken, { hash, spentAt: null, expiresAt: { $gt: sql.now() } }, { spentAt: sql.now() });
    const token = await em.findOne(RefreshToken, { hash });
    if (!token) return null;
    if (spent === 0) {
      if (token.spentAt) await revokeReused(em, token.sessionId, origin);
      return null;
    }
    const family = await em.findOne(SessionRow, { id: token.sessionId });
    const user = family && !family.revokedAt ? await em.findOne(User, { id: family.userId }) : null;
    if (!user) return null;
    const nowMs = await databaseNow(em);
    const next = nextToken(token.sessionId, nowMs);
    await em.insert(RefreshToken, next.row);
    await em.nativeUpdate(SessionRow, { id: token.sessionId }, { expiresAt: next.row.expiresAt });
    return { user, sessionId: family?.id ?? '', nowMs, text: next.text };
  });
  if (!renewed) throw new Refusal('unauthenticated', 'invalid refresh token');
  const signed = await signer.sign(toId('user', renewed.user.id), renewed.nowMs, renewed.sessionId);
  return { session: { ...signed, refreshToken: renewed.text }, user: renewed.user };
}

async function revokeReused(em: EntityManager, sessionId: string, origin: Origin): Promise<void> {
  const { userId } = await em.findOneOrFail(SessionRow, { id: sessionId });
  await lockUser(em, userId);
  if ((await em.nativeUpdate(SessionRow, { id: sessionId, revokedAt: null }, { revokedAt: sql.now() })) === 0) return;
  const change = { type: 'session.revoked', byUser: false, origin, data: { reason: 'refresh_token_reused' } };
  await auditUser(em, userId, change, await databaseNow(em));
}

/** Ends the session of a refresh token, spent or not. An unknown token, or a second call, changes nothing. */
export async function closeSession(orm: MikroORM, given: string): Promise<void> {
  const em = entityManager(orm);
  const token = await em.findOne(RefreshToken, { hash: hashOf(given) });
  if (token) await em.nativeUpdate(SessionRow, { id: token.sessionId, revokedAt: null }, { revokedAt: sql.now() });
}

/** The user of a token, if no new password ended the session of the token. Throws `unauthenticated`. `sessionId`: empty for a token without one. */
export async function sessionUser(em: EntityManager, userId: string, sessionId: string): Promise<string> {
  const id = field.uuidOf('user', userId, ended);
  const session = uuidPattern.test(sessionId) ? sessionId : null;
  const [found] = await em.execute<{ id: string }[]>(
    `select id from users where id = ? and not exists (select from sessions where id = ? and user_id = users.id and ended_at is not null)`,
    [id, session],
  );
  if (!found) throw ended();
  return id;
}

/**
 * As {@link sessionUser}, and until the transaction ends no new password ends the session: for what must not outlive it. Locks the user, after the
 * tenant.
 */
export async function lockSession(em: EntityManager, userId: string, sessionId: string): Promise<string> {
  await lockUser(em, field.uuidOf('user', userId, ended));
  return sessionUser(em, userId, sessionId);
}

/** Ends all sessions of a user but one, with their refresh and access tokens. `exceptId`: as in a token, null or empty: none. */
export async function endSessions(em: EntityManager, userId: string, exceptId: string | null, nowMs: number): Promise<void> {
  const now = new Date(nowMs);
  await em.execute(
    `update sessions set ended_at = ?, revoked_at = coalesce(revoked_at, ?) where user_id = ? and ended_at is null and id::text is distinct from ?`,
    [now, now, userId, exceptId],
  );
}

const ended = () => new Refusal('unauthenticated', 'unknown user, or the session was ended by a new password');

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function nextToken(sessionId: string, nowMs: number) {
  const text = newRefreshToken();
  const expiresAt = new Date(nowMs + refreshSeconds * 1000);
  return { text, row: { hash: hashOf(text), sessionId, createdAt: new Date(nowMs), expiresAt } };
}
