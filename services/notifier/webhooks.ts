// A tenant's webhook: create, replace, change, delete, rotate the secret.
import { inTransaction, epochMs, readTenant, type Connections, type Statement } from '../platform/postgres.ts';
import type { RateLimitStatus } from '../platform/errors.ts';
import type { SecretEncryption } from '../platform/secret-encryption.ts';
import type { Targets } from './addresses.ts';
import { eventsOf, headersOf, integer, secretOf, targetOf } from './fields.ts';
import { admit, type Quotas } from './limits.ts';
import { Refusal } from './refusal.ts';
import { newSecret } from './webhook.ts';

/** What the use cases use. */
export interface WebhookContext {
  pool: Connections;
  secrets: SecretEncryption;
  targets: Targets;
  quotas: Quotas;
}

/** A tenant's webhook without its secret and the values of its headers. */
export interface WebhookRow {
  url: string;
  events: string[];
  enabled: boolean;
  header_names: string[];
  /** Milliseconds since the Unix epoch. */
  created_ms: number;
  updated_ms: number;
}

const columns = `url, events, enabled, header_names, ${epochMs('created_at')} as created_ms, ${epochMs('updated_at')} as updated_ms`;

/** Reads the webhook of the tenant that is `$1`. */
export const selectWebhook = { name: 'webhook', text: `select ${columns} from webhooks where tenant_id = $1` };

/** The refusal where no webhook is configured. */
export function notConfigured(): Refusal {
  return new Refusal('webhook_not_configured', 'webhook not configured');
}

/** The tenant's webhook (UUID), or null where none is configured. */
export async function readWebhook(pool: Connections, tenant: string): Promise<WebhookRow | null> {
  const statement: Statement = { ...selectWebhook, values: [tenant] };
  const [rows] = await readTenant<[WebhookRow[]]>(pool, tenant, statement);
  return rows[0] ?? null;
}

/** Configuration of a webhook. */
export interface Configuration {
  url: string;
  events: string[];
  secret?: string | undefined;
  enabled?: boolean | undefined;
  /** Replaces all of them; absent where a webhook is configured: none. */
  headers?: readonly { name: string; value?: string | undefined }[] | undefined;
}

/**
 * Creates or replaces the tenant's webhook. `secret` in the answer is set where it is new: sent, or generated because there was none.
 * Refused: `validation_failed`, `rate_limited`.
 */
export async function configure(
  context: WebhookContext,
  tenant: string,
  given: Configuration,
): Promise<{ webhook: WebhookRow; secret: string | null; created: boolean; rateLimit: RateLimitStatus }> {
  const url = await targetOf(context.targets, given.url);
  const events = eventsOf(given.events);
  const ownSecret = given.secret === undefined ? null : secretOf(given.secret);
  const [names, headers] = encryptHeaders(context, tenant, given.headers ?? []);
  const rateLimit = await admit(context.pool, context.quotas, tenant, 'webhook-config');
  return inTransaction(context.pool, [tenant], async (client) => {
    const generated = newSecret();
    // Of two at once, one creates it and the other replaces it.
    const { rows } = await client.query<WebhookRow & { created: boolean }>(
      `insert into webhooks as w (tenant_id, url, events, enabled, secret, header_names, headers, created_at, updated_at)
       values ($1, $2, $3, $4, $5, $7, $8, clock_timestamp(), clock_timestamp())
       on conflict (tenant_id) do update set url = excluded.url, events = excluded.events, enabled = excluded.enabled,
         header_names = excluded.header_names, headers = excluded.headers, updated_at = excluded.updated_at,
         secret = case when $6 then excluded.secret else w.secret end,
         previous_secret = case when $6 then null else w.previous_secret end,
         previous_until = case when $6 then null else w.previous_until end
       returning ${columns}, xmax = 0 as created`,
      [
        tenant,
        url,
        events,
        given.enabled ?? true,
        context.secrets.encrypt(tenant, ownSecret ?? generated),
        ownSecret !== null,
        names,
        headers,
      ],
    );
    const row = rows[0] as WebhookRow & { created: boolean };
    return { webhook: row, secret: ownSecret ?? (row.created ? generated : null), created: row.created, rateLimit };
  });
}

/** Changes the fields that are set. A new secret replaces the old one at once. Refused: `validation_failed`, `webhook_not_configured`. */
export async function update(
  context: WebhookContext,
  tenant: string,
  given: { [Name in keyof Configuration]?: Configuration[Name] | undefined },
): Promise<{ webhook: WebhookRow; secret: string | null }> {
  const url = given.url === undefined ? null : await targetOf(context.targets, given.url);
  const events = given.events === undefined ? null : eventsOf(given.events);
  const secret = given.secret === undefined ? null : secretOf(given.secret);
  const [names, headers] = given.headers === undefined ? [null, null] : encryptHeaders(context, tenant, given.headers);
  const webhook = await change(
    context.pool,
    tenant,
    `url = coalesce($2, url), events = coalesce($3, events), enabled = coalesce($4, enabled), secret = coalesce($5, secret),
     previous_secret = case when $5 is null then previous_secret end, previous_until = case when $5 is null then previous_until end,
     header_names = coalesce($6, header_names), headers = case when $6 is null then headers else $7 end`,
    [url, events, given.enabled ?? null, secret === null ? null : context.secrets.encrypt(tenant, secret), names, headers],
  );
  return { webhook, secret };
}

const maxOverlapSeconds = 30 * 86_400;

/**
 * Generates a new secret; for `overlapSeconds` deliveries are signed with the one before, too. Refused: `validation_failed`,
 * `webhook_not_configured`.
 */
export async function rotate(
  context: WebhookContext,
  tenant: string,
  overlapSeconds = 86_400,
): Promise<{ webhook: WebhookRow; secret: string }> {
  const overlap = integer('overlap_seconds', overlapSeconds, 0, maxOverlapSeconds);
  const secret = newSecret();
  const webhook = await change(
    context.pool,
    tenant,
    `secret = $2, previous_secret = case when $3::int > 0 then secret end,
     previous_until = case when $3::int > 0 then clock_timestamp() + $3::int * interval '1 second' end`,
    [context.secrets.encrypt(tenant, secret), overlap],
  );
  return { webhook, secret };
}

/** Deletes the webhook. Pending deliveries fail when they are due. Refused: `webhook_not_configured`. */
export async function remove(pool: Connections, tenant: string): Promise<void> {
  const result = await inTransaction(pool, [tenant], (client) => client.query('delete from webhooks where tenant_id = $1', [tenant]));
  if (result.rowCount === 0) throw notConfigured();
}

/** The names, and all of it encrypted; null: no headers. */
function encryptHeaders(
  { secrets }: WebhookContext,
  tenant: string,
  given: NonNullable<Configuration['headers']>,
): [string[], string | null] {
  const headers = headersOf(given);
  const names = Object.keys(headers);
  return [names, names.length === 0 ? null : secrets.encrypt(tenant, JSON.stringify(headers))];
}

function change(pool: Connections, tenant: string, assignments: string, values: unknown[]): Promise<WebhookRow> {
  return inTransaction(pool, [tenant], async (client) => {
    const { rows } = await client.query<WebhookRow>(
      `update webhooks set updated_at = clock_timestamp(), ${assignments} where tenant_id = $1 returning ${columns}`,
      [tenant, ...values],
    );
    if (!rows[0]) throw notConfigured();
    return rows[0];
  });
}
