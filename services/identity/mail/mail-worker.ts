// Sends the mails of the outbox: leases them, makes their tokens, sends each, records the result.
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import { openGauges } from '../../platform/gauges.ts';
import { inTransaction, type Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { hashOf, newToken } from '../credentials.ts';
import { renderMail } from './mail-templates.ts';
import { isPermanentRejection, type SendMail } from './mail-transport.ts';
import type { MailKind } from './mails.ts';

/** What the worker needs. */
export interface MailWorkerOptions {
  pool: Pool;
  send: SendMail;
  /** Base of the links. */
  publicUrl: string;
  logger: Logger;
  metrics: Registry;
}

/** Mails in flight in one process: each has a connection to the server. */
const concurrency = 10;
/** One whole attempt, so that a server that stalls keeps others waiting no longer. */
const attemptMs = 60_000;
/** Longer than an attempt: another replica repeats what a killed one had leased. */
const leaseSeconds = 120;
const pollMs = 500;

interface Lease {
  id: string;
  kind: MailKind;
  email: string;
  user_id: string | null;
  tenant_id: string | null;
  invitation_id: string | null;
  data: string;
  attempts: number;
}

/** How an attempt ended. `skipped`: there is nobody to send to any more. */
type Result = 'sent' | 'skipped' | 'rejected' | 'retried';

const lease = {
  name: 'mail_lease',
  text: `with due as materialized (
      select id from mails where sent_at is null and failed_at is null and next_attempt_at <= now() and expires_at > now()
      order by next_attempt_at limit $1 for update skip locked)
    update mails set attempts = attempts + 1, next_attempt_at = now() + interval '${leaseSeconds} s' from due where mails.id = due.id
    returning mails.id, kind, email, user_id, tenant_id, invitation_id, data, attempts`,
};

// The stored address, never the typed one: lower() also takes some other letters for those of a registered address.
const recipients: Record<MailKind, { text: string; values: (mail: Lease) => unknown[] }> = {
  verification: {
    text: 'select email from users where id = $1 and lower(email) = lower($2) and email_verified_at is null',
    values: ({ user_id, email }) => [user_id, email],
  },
  reset: { text: 'select email from users where lower(email) = lower($1)', values: ({ email }) => [email] },
  invitation: {
    text: `select email from invitations where tenant_id = $1 and id = $2 and accepted_at is null and revoked_at is null and expires_at > now()`,
    values: ({ tenant_id, invitation_id }) => [tenant_id, invitation_id],
  },
};

/** Sends mails until it is stopped. */
export class MailWorker {
  private readonly options: MailWorkerOptions;
  private readonly mails: Counter<'result'>;
  private readonly aborting = new AbortController();
  private readonly stopping = new AbortController();
  private readonly inFlight = new Set<Promise<void>>();
  private loop: Promise<void> = Promise.resolve();

  constructor(options: MailWorkerOptions) {
    this.options = options;
    const { metrics, pool } = options;
    this.mails = new Counter({
      name: 'identity_mails_total',
      help: 'Attempts to send a mail by result: sent, retried, rejected, skipped',
      labelNames: ['result'],
      registers: [metrics],
    });
    // Alerts count what is added, so a series has to be there before its first mail.
    for (const result of ['sent', 'rejected']) this.mails.inc({ result }, 0);
    const gauge = openGauges(metrics, async () => {
      const { rows } = await pool.query<{ waiting: number }>(
        'select count(*)::int as waiting from mails where sent_at is null and failed_at is null and expires_at > now()',
      );
      return rows[0]?.waiting ?? 0;
    });
    gauge('identity_mails_waiting', 'Mails that are not sent yet', (waiting) => waiting);
  }

  /** Starts to send. */
  start(): void {
    this.loop = this.run();
  }

  /** Begins nothing more, and waits for what is in flight; after `graceMs` it aborts the rest, which another attempt repeats. */
  async stop(graceMs: number): Promise<void> {
    this.stopping.abort();
    const timer = setTimeout(() => this.aborting.abort(), graceMs);
    await this.loop;
    await Promise.all(this.inFlight);
    clearTimeout(timer);
  }

  private async run(): Promise<void> {
    const { pool, logger } = this.options;
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const free = concurrency - this.inFlight.size;
      const leased = await pool.query<Lease>({ ...lease, values: [free] }).catch((error: unknown) => {
        logger.warn({ err: error }, 'leasing mails failed');
      });
      for (const mail of leased?.rows ?? []) {
        const attempt = this.attempt(mail)
          .catch((error: unknown) => logger.warn({ err: error, mail: mail.id }, 'mail attempt failed'))
          .finally(() => this.inFlight.delete(attempt));
        this.inFlight.add(attempt);
      }
      const isBusy = (leased?.rows.length ?? 0) === free;
      if (isBusy) await Promise.race(this.inFlight);
      else await pause(pollMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Sends one mail and records how that ended. Throws where the database fails: the mail is tried again after its lease. */
  private async attempt(mail: Lease): Promise<void> {
    const { pool, logger, publicUrl, send } = this.options;
    const { id, kind, attempts } = mail;
    const token = newToken();
    const to = await this.issue(mail, hashOf(token));
    let result: Result = 'sent';
    let error: string | undefined;
    if (to === null) result = 'skipped';
    else {
      const text = renderMail(kind, JSON.parse(mail.data) as Record<string, string>, publicUrl, token);
      try {
        await send({ id, to, ...text }, AbortSignal.any([this.aborting.signal, AbortSignal.timeout(attemptMs)]));
      } catch (thrown) {
        result = isPermanentRejection(thrown) ? 'rejected' : 'retried';
        // A server may repeat the link that it rejects.
        error = (thrown as Error).message.replaceAll(token, '…').slice(0, 500);
      }
    }
    await pool.query({ ...outcomes[result], values: result === 'retried' ? [id, retrySeconds(attempts)] : [id] });
    this.mails.inc({ result });
    logger[error === undefined ? 'info' : 'warn']({ mail: id, kind, attempts, result, ...(error !== undefined && { error }) }, 'mail');
  }

  /** Stores the hash of a further token and returns the address to send it to, or null where there is none. */
  private issue(mail: Lease, hash: string): Promise<string | null> {
    const { text, values } = recipients[mail.kind];
    return inTransaction(this.options.pool, mail.tenant_id === null ? [] : [mail.tenant_id], async (client) => {
      const { rows } = await client.query<{ email: string }>(text, values(mail));
      if (!rows[0]) return null;
      // An earlier attempt may have arrived, and its token have been used.
      const { rowCount } = await client.query(
        `insert into mail_tokens (hash, mail_id, created_at) select $1, id, now() from mails where id = $2 and expires_at > now()
           and not exists (select from mail_tokens where mail_id = $2 and spent_at is not null)`,
        [hash, mail.id],
      );
      return rowCount === 0 ? null : rows[0].email;
    });
  }
}

/** 2 s after the first attempt, then twice as long each time, at most an hour. */
function retrySeconds(attempts: number): number {
  return Math.min(3600, 2 ** attempts);
}

const outcomes: Record<Result, { name: string; text: string }> = {
  sent: { name: 'mail_sent', text: 'update mails set sent_at = now() where id = $1' },
  skipped: { name: 'mail_skipped', text: 'update mails set failed_at = now() where id = $1' },
  rejected: { name: 'mail_rejected', text: 'update mails set failed_at = now() where id = $1' },
  retried: { name: 'mail_retried', text: 'update mails set next_attempt_at = now() + make_interval(secs => $2) where id = $1' },
};
