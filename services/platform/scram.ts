// Password verifiers for `create role`, so that no statement that PostgreSQL may log contains a password.
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';

const iterations = 4096;

/** The SCRAM-SHA-256 verifier of a password (RFC 5802, RFC 7677) with a new salt: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`. */
export function scramVerifier(password: string): string {
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(saslPrepare(password), salt, iterations, 32, 'sha256');
  const keyOf = (text: string) => createHmac('sha256', salted).update(text).digest();
  const stored = createHash('sha256').update(keyOf('Client Key')).digest('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${stored}:${keyOf('Server Key').toString('base64')}`;
}

// SASLprep (RFC 4013) as `pg` applies it at each login: special blanks become spaces, invisible characters go, the rest is normalized.
function saslPrepare(password: string): string {
  return password
    .replace(/[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000]/g, ' ')
    .replace(/\u00ad|\u034f|\u1806|[\u180b-\u180d]|[\u200c\u200d]|\u2060|[\ufe00-\ufe0f]|\ufeff/g, '')
    .normalize('NFKC');
}
