// Where deliveries go. A webhook may change while what is claimed waits for its turn, so it is read again at the time of sending.
import { uuidArray } from '../platform/arrays.ts';
import { allSettledOrThrow, epochMs, withClient, setTenants, type Client, type Pool } from '../platform/postgres.ts';

/** A tenant's webhook as a delivery needs it. */
export interface Destination {
  url: string;
  /** Sealed; the newest first, and in an overlap the one before. */
  secrets: string[];
  /** When the webhook was made, milliseconds since the Unix epoch: one that was made at another time is another. */
  since_ms: number;
}

/**
 * The sealed secrets of a row of `webhooks` named `w`, for {@link secretsOf}; `at`: an expression of the time. As an array they would cost a delivery
 * a twentieth of what it allocates: pg reads the text of arrays character by character.
 */
export const secretsAt = (at: string): string => `w.secret || case when w.previous_until > ${at} then ' ' || w.previous_secret else '' end`;

/** Reads what {@link secretsAt} has written. There is no blank in what is sealed. */
export function secretsOf(text: string): string[] {
  return text.includes(' ') ? text.split(' ') : [text];
}

const destinations = {
  name: 'destinations',
  text: `select w.tenant_id, w.url, w.enabled, ${epochMs('w.created_at')} as since_ms, ${secretsAt('clock_timestamp()')} as secrets from webhooks w where w.tenant_id = any ($1::uuid[])`,
};

type Configured = Destination & { enabled: boolean };

/** Reads where the deliveries of tenants (UUIDs) go, in a transaction that sees them; who has no webhook is not in the answer. */
export async function readDestinations(client: Client, tenants: string[]): Promise<Map<string, Configured>> {
  const { rows } = await client.query<{ tenant_id: string; url: string; enabled: boolean; since_ms: number; secrets: string }>({
    ...destinations,
    values: [uuidArray(tenants)],
  });
  return new Map(rows.map(({ tenant_id, secrets, ...row }) => [tenant_id, { ...row, secrets: secretsOf(secrets) }]));
}

/** Reads destinations for many who ask at once. */
export class Destinations {
  private readonly pool: Pool;
  private asked = new Set<string>();
  private next: Promise<Map<string, Configured>> | null = null;
  private running: Promise<unknown> = Promise.resolve();

  constructor(pool: Pool) {
    this.pool = pool;
  }

  /**
   * Where the tenant's deliveries (UUID) go now; null where no webhook is configured, or it is disabled. Never older than the call: who calls while a read is
   * under way shares the one after it. Throws where the database does not answer.
   */
  async current(tenant: string): Promise<Destination | null> {
    this.asked.add(tenant);
    this.next ??= this.running.then(() => {
      const tenants = [...this.asked];
      this.asked = new Set();
      this.next = null;
      const reading = this.read(tenants);
      this.running = reading.catch(() => undefined);
      return reading;
    });
    const found = (await this.next).get(tenant);
    return found?.enabled === true ? found : null;
  }

  private read(tenants: string[]): Promise<Map<string, Configured>> {
    return withClient(this.pool, async (client) => {
      const [, , found] = await allSettledOrThrow([
        client.query('begin'),
        client.query(setTenants(tenants)),
        readDestinations(client, tenants),
        client.query('commit'),
      ]);
      return found;
    });
  }
}
