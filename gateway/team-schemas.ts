// Schemas of the records of teams in answers: what members did, and who they are.
import { roles } from '../services/platform/roles.ts';
import { flag, id, long, maybe, record, string, time, word, type Schema } from './records.ts';

const hash: Schema = { ...string, pattern: '^[0-9a-f]{64}$' };

/** The schemas by name. */
export const teamSchemas: Record<string, Schema> = {
  AuditEntry: record({
    id: id('audit'),
    type: { ...string, description: 'What was done, as `member.role_changed`.' },
    actor: { ...maybe(string), description: 'Id of the user that did it; null: nobody was logged in.' },
    subject: { ...maybe(string), description: 'Id of what it was done to.' },
    address: { ...maybe(string), description: 'Of the client; null: unknown.' },
    user_agent: { ...maybe(string), description: 'Of the client, cut after 512 characters; null: it sent none.' },
    created_at: time,
    data: { type: 'object', description: 'Details by type; never a secret.' },
    sequence: { ...long, description: 'Position in the log, from 1 without gaps.' },
    hash: {
      ...hash,
      description:
        'SHA-256 of the 32 bytes of `previous_hash` and the SHA-256 of this entry without its hashes, as canonical JSON (RFC 8785). Hex.',
    },
    previous_hash: { ...hash, description: 'Hash of the entry before; 64 zeros for the first.' },
  }),
  Member: record({
    user_id: id('user'),
    email: string,
    first_name: string,
    last_name: string,
    role: word(roles),
    totp_enabled: { ...flag, description: 'Whether its second factor is on.' },
    created_at: { ...time, description: 'Member since.' },
  }),
  Invitation: record({
    id: id('inv'),
    email: string,
    role: word(roles),
    status: word(['pending', 'accepted', 'revoked', 'expired']),
    invited_by: { ...id('user'), description: 'Id of the user that sent it.' },
    created_at: time,
    expires_at: time,
  }),
};
