// Subjects of personal data: their keys and names, and what is sealed under them. No key leaves this service.
import { bytesArray, textArray, uuidArray } from '../../platform/arrays.ts';
import { newUuid, toId } from '../../platform/ids.ts';
import { epochMs, inTransaction, readTenant, type Pool } from '../../platform/postgres.ts';
import { DecryptError, type SecretEncryption } from '../../platform/secret-encryption.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { Refusal } from '../refusal.ts';
import { nameHash, newKey, open, seal, type Sealed } from './subject-keys.ts';

/** Data of one subject, a JSON value as text. */
export interface Personal {
  subject: string;
  data: string;
}

/** Sealed data and the subject's UUID. */
export interface SealedItem extends Sealed {
  subject: string;
}

/** What became of sealed data. */
export interface Opened {
  state: 'open' | 'sealed' | 'erased';
  personal?: Personal;
}

/** A subject that was erased, and what the ledger has to append about it. Times are milliseconds since the Unix epoch. */
export interface Erasure {
  tenant: string;
  subject: string;
  reason: string;
  actor: string;
  request_id: string;
  erased_ms: number;
}

/** The columns of an {@link Erasure}. */
export const erasureColumns = `tenant_id as tenant, subject_id as subject, reason, actor, request_id, ${epochMs('erased_at')} as erased_ms`;

interface SubjectRow {
  id: string;
  name_hash: Buffer;
  secret: string;
}

const keyLength = 44;
const maxCached = 10_000;
const maxAttempts = 3;

/** The vault of all tenants. Nothing of a subject is cached, so that what is erased is gone with the commit. */
export class Vault {
  private readonly pool: Pool;
  private readonly secrets: SecretEncryption;
  private readonly logger: Logger;
  /** By tenant (UUID): keys of name hashes, which never change. */
  private readonly hashKeys = new Map<string, Buffer>();

  /** `secrets`: encrypts keys and names; their owner is the tenant, and the subject, by UUID. */
  constructor(pool: Pool, secrets: SecretEncryption, logger: Logger) {
    this.pool = pool;
    this.secrets = secrets;
    this.logger = logger;
  }

  /** Seals data of one tenant (UUID) for transactions (TypeIDs), in this order. Makes subjects that are unknown. Throws `tenant_not_found`. */
  async seal(tenant: string, all: (Personal & { transactionId: string })[]): Promise<SealedItem[]> {
    const subjects = await this.subjectsOf(tenant, [...new Set(all.map(({ subject }) => subject))]);
    return all.map(({ subject: name, data, transactionId }) => {
      const { id: subject, key } = subjects.get(name) as { id: string; key: Buffer };
      return { subject, ...seal(key, { tenantId: toId('tenant', tenant), transactionId, subjectId: toId('subj', subject) }, data) };
    });
  }

  /** Opens sealed data, in this order. `statesOnly`: answers no data. */
  async open(tenant: string, all: (SealedItem & { transactionId: string })[], statesOnly: boolean): Promise<Opened[]> {
    const ids = [...new Set(all.map(({ subject }) => subject))];
    const [rows] = await readTenant<[(Omit<SubjectRow, 'secret'> & { secret: string | null })[]]>(this.pool, tenant, {
      name: 'vault_open',
      text: 'select id, secret from subjects where tenant_id = $1 and id = any($2::uuid[])',
      values: [tenant, uuidArray(ids)],
    });
    const known = new Map(
      rows.map(({ id, secret }) => [id, secret === null || statesOnly ? secret : this.readableSubject(tenant, { id, secret })]),
    );
    return all.map(({ subject, transactionId, ...sealed }) => {
      const found = known.get(subject);
      if (found === null) return { state: 'erased' };
      if (found === undefined || typeof found === 'string') return { state: 'sealed' };
      const data = open(found.key, { tenantId: toId('tenant', tenant), transactionId, subjectId: toId('subj', subject) }, sealed);
      return data === null ? { state: 'sealed' } : { state: 'open', personal: { subject: found.name, data } };
    });
  }

  /** The UUID of a subject by its name. Throws `subject_not_found`, also of an erased one. */
  async find(tenant: string, name: string): Promise<string> {
    const hash = await this.hashOf(tenant, name);
    const [rows] = await readTenant<[SubjectRow[]]>(this.pool, tenant, this.byHashes(tenant, [hash]));
    if (!rows[0]) throw unknownSubject();
    return rows[0].id;
  }

  /**
   * Deletes a subject's key and name, and notes the erasure, which is to be finished in the ledger. Answers the one that is not finished where the
   * name's newest subject is erased already. Throws `subject_not_found`.
   */
  async erase(
    tenant: string,
    name: string,
    { reason, actor, requestId }: { reason: string; actor: string; requestId: string },
  ): Promise<Erasure> {
    const hash = await this.hashOf(tenant, name);
    const { rows } = await inTransaction(this.pool, [tenant], async (client) => {
      const noted = await client.query<Erasure>(
        `with erased as (
            update subjects set secret = null, name_hash = null, erased_at = clock_timestamp()
            where tenant_id = $1 and name_hash = $2 returning id, erased_at)
          insert into erasures (tenant_id, subject_id, name_hash, reason, actor, request_id, erased_at, next_attempt_at)
          select $1, id, $2, $3, $4, $5, erased_at, erased_at + interval '${leaseSeconds} s' from erased returning ${erasureColumns}`,
        [tenant, hash, reason, actor, requestId],
      );
      if (noted.rowCount === 1) return noted;
      const unfinished = `select ${erasureColumns} from erasures where tenant_id = $1 and name_hash = $2 order by erased_at desc limit 1`;
      return client.query<Erasure>(unfinished, [tenant, hash]);
    });
    if (!rows[0]) throw unknownSubject();
    return rows[0];
  }

  private async subjectsOf(tenant: string, names: string[]): Promise<Map<string, { id: string; key: Buffer }>> {
    const hashKey = await this.hashKeyOf(tenant, true);
    // In one order, because replicas that make the same subjects wait for each other.
    const wanted = names.map((name) => ({ name, hash: nameHash(hashKey, name) })).sort((one, other) => one.hash.compare(other.hash));
    for (let attempt = 1; ; attempt++) {
      const hashes = wanted.map(({ hash }) => hash);
      const [rows] = await readTenant<[SubjectRow[]]>(this.pool, tenant, this.byHashes(tenant, hashes));
      const found = new Map(rows.map((row) => [row.name_hash.toString('hex'), this.subjectOf(tenant, row)]));
      const missing = wanted.filter(({ hash }) => !found.has(hash.toString('hex')));
      if (missing.length === 0) return new Map([...found.values()].map((subject) => [subject.name, subject]));
      // Erased between making and reading, again and again.
      if (attempt === maxAttempts) throw new Refusal('unavailable', 'a subject is being erased', { retryAfter: 1 });
      await this.make(tenant, missing);
    }
  }

  private async make(tenant: string, subjects: { name: string; hash: Buffer }[]): Promise<void> {
    const made = subjects.map(({ name, hash }) => {
      const id = newUuid();
      return { id, hash, secret: this.secrets.encrypt(`${tenant} ${id}`, newKey().toString('base64') + name) };
    });
    await inTransaction(this.pool, [tenant], (client) =>
      client.query(
        `insert into subjects (tenant_id, id, name_hash, secret, created_at)
          select $1, id, hash, secret, clock_timestamp() from unnest($2::uuid[], $3::bytea[], $4::text[]) as made (id, hash, secret)
          on conflict (tenant_id, name_hash) do nothing`,
        [
          tenant,
          uuidArray(made.map(({ id }) => id)),
          bytesArray(made.map(({ hash }) => hash)),
          textArray(made.map(({ secret }) => secret)),
        ],
      ),
    );
  }

  private subjectOf(tenant: string, { id, secret }: Pick<SubjectRow, 'id' | 'secret'>): { id: string; key: Buffer; name: string } {
    const text = this.secrets.decryptOnce(`${tenant} ${id}`, secret);
    return { id, key: Buffer.from(text.slice(0, keyLength), 'base64'), name: text.slice(keyLength) };
  }

  // Without its encryption key a subject's data stays sealed: the transactions must be readable all the same.
  private readableSubject(tenant: string, row: Pick<SubjectRow, 'id' | 'secret'>) {
    try {
      return this.subjectOf(tenant, row);
    } catch (error) {
      if (!(error instanceof DecryptError)) throw error;
      this.logger.error({ err: error, tenant: toId('tenant', tenant), subject: toId('subj', row.id) }, 'personal data cannot be opened');
      return undefined;
    }
  }

  private byHashes(tenant: string, hashes: Buffer[]) {
    const text = 'select id, name_hash, secret from subjects where tenant_id = $1 and name_hash = any($2::bytea[])';
    return { name: 'vault_by_name', text, values: [tenant, bytesArray(hashes)] };
  }

  private async hashOf(tenant: string, name: string): Promise<Buffer> {
    const key = await this.hashKeyOf(tenant, false);
    return nameHash(key, name);
  }

  /** Makes the key where the tenant has none; without `make` throws `subject_not_found`. */
  private async hashKeyOf(tenant: string, make: boolean): Promise<Buffer> {
    const cached = this.hashKeys.get(tenant);
    if (cached) return cached;
    const owner = `${tenant} names`;
    const { rows } = await inTransaction(this.pool, [tenant], async (client) => {
      if (make) {
        const key = this.secrets.encrypt(owner, newKey().toString('base64'));
        await client.query(
          'insert into vaults (tenant_id, hash_key, created_at) values ($1, $2, clock_timestamp()) on conflict do nothing',
          [tenant, key],
        );
      }
      return client.query<{ hash_key: string }>('select hash_key from vaults where tenant_id = $1', [tenant]);
    }).catch((error: unknown) => {
      throw (error as { code?: unknown }).code === '23503' ? new Refusal('tenant_not_found', 'tenant not found') : error;
    });
    if (!rows[0]) throw unknownSubject();
    const key = Buffer.from(this.secrets.decryptOnce(owner, rows[0].hash_key), 'base64');
    if (this.hashKeys.size >= maxCached) this.hashKeys.clear();
    this.hashKeys.set(tenant, key);
    return key;
  }
}

/** How long the call that erases has for the ledger, before the job takes over. */
export const leaseSeconds = 15;

function unknownSubject(): Refusal {
  return new Refusal('subject_not_found', 'no subject has this name');
}
