// Tenants' endpoints as this process knows them: how many requests each has to answer at a time and whose turn it is, how much is claimed for
// it in advance, and where its deliveries go.
import { toId } from '../platform/ids.ts';
import type { Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import type { Lease } from './leases.ts';
import { Destinations, type Destination } from './destinations.ts';

// An endpoint that answers quickly is kept supplied: so many times what it answers at a time are claimed for it, and wait here while earlier
// ones are recorded and new ones claimed. (One tenant, 32 at a time, busy machine: 510 deliveries/s without, 1,100 with.)
const supply = 8;

// Where half of what may be under way is, an endpoint that has not answered quickly, or does not answer all, has this part of its places: those of many
// that hang would else take all. (A notifier with 1,024 descriptors, 45 tenants whose receivers hang: of 272 deliveries of another one 241 were still waiting after 75 s.)
const crowdedPart = 8;

const rememberedEndpoints = 10_000;

/**
 * What was claimed or read longer ago, milliseconds, does not say where a delivery goes: it is read again. Each read serves all of its tenant's
 * deliveries for so long, and a delivery that had not to wait needs none.
 */
const freshMs = 50;

/** One tenant's endpoint as this process knows it. */
export interface Endpoint {
  /** Claimed and not recorded. */
  claimed: number;
  /** Requests under way that took their turn. */
  open: number;
  /** Told true when it is their turn, false when they had better go. */
  waiting: ((turn: boolean) => void)[];
  /** Requests under way that have been for long. */
  slow: number;
  /** The last answer came soon. */
  quick: boolean;
  /** The last claim met deliveries that nobody is to get: there may be many, of a webhook that is deleted. */
  swept: boolean;
  /** Where its deliveries went when that was last read. */
  known: { at: number; destination: Promise<Destination | null> } | null;
}

/** What endpoints need. */
export interface EndpointsOptions {
  pool: Pool;
  logger: Logger;
  /** Requests of this process that one tenant's endpoint has to answer at a time. */
  perTenant: number;
}

/** The endpoints that this process delivers to, by tenant (UUID). */
export class Endpoints {
  private readonly perTenant: number;
  private readonly logger: Logger;
  private readonly destinations: Destinations;
  private readonly endpoints = new Map<string, Endpoint>();

  constructor({ pool, logger, perTenant }: EndpointsOptions) {
    this.perTenant = perTenant;
    this.logger = logger;
    this.destinations = new Destinations(pool);
  }

  /** A tenant's endpoint, the same one as long as something of it is claimed. */
  of(tenant: string): Endpoint {
    let endpoint = this.endpoints.get(tenant);
    if (!endpoint)
      this.endpoints.set(tenant, (endpoint = { claimed: 0, open: 0, slow: 0, waiting: [], quick: false, swept: false, known: null }));
    return endpoint;
  }

  /** How many deliveries of a tenant may be claimed at a time; `isCrowded`: of what may be under way, more than half is. */
  claimable(tenant: string, isCrowded: boolean): number {
    const endpoint = this.endpoints.get(tenant);
    if (endpoint?.quick === true && !(isCrowded && endpoint.slow > 0)) return this.perTenant * supply;
    return isCrowded ? Math.ceil(this.perTenant / crowdedPart) : this.perTenant;
  }

  /** Whether a tenant's next claim looks for many that are to fail. */
  sweeps(tenant: string): boolean {
    return this.endpoints.get(tenant)?.swept === true;
  }

  /** Notes of which tenants deliveries were claimed, and of which some failed because there is nowhere to send them. */
  claimed(claimed: Lease[], failed: string[]): void {
    for (const { tenant } of claimed) this.of(tenant).swept = false;
    for (const tenant of failed) this.of(tenant).swept = true;
  }

  /** Forgets those of which nothing is claimed, where there are many: that one was quick is worth remembering, but not for ever. */
  forgetIdle(): void {
    if (this.endpoints.size < rememberedEndpoints) return;
    for (const [tenant, { claimed }] of this.endpoints) if (claimed === 0) this.endpoints.delete(tenant);
  }

  /** Whether a request may begin, which ends with `leave`, or had better go: at once where it may, else when that is known. */
  turnAt(endpoint: Endpoint): true | Promise<boolean> {
    if (endpoint.open < this.perTenant) {
      endpoint.open++;
      return true;
    }
    return new Promise((done) => endpoint.waiting.push(done));
  }

  /** Ends a turn; once for each. Who leaves hands over his place. */
  leave(endpoint: Endpoint): void {
    const next = endpoint.waiting.shift();
    if (next) next(true);
    else endpoint.open--;
  }

  /** Sends away what waits, which was claimed in advance, rather than have it wait for a receiver that may hang. */
  slowDown(endpoint: Endpoint): void {
    endpoint.quick = false;
    for (const each of endpoint.waiting.splice(0)) each(false);
  }

  /**
   * Where a delivery goes that was claimed at `claimedAt` (of `performance.now()`); null where its webhook is gone, another or disabled since, or
   * could not be read. At once where that need not be read again.
   */
  destination(claimed: Lease, claimedAt: number, endpoint: Endpoint): Destination | Promise<Destination | null> {
    const now = performance.now();
    return now - claimedAt <= freshMs ? claimed.destination : this.readAgain(claimed, now, endpoint);
  }

  private async readAgain({ tenant, destination, id }: Lease, now: number, endpoint: Endpoint): Promise<Destination | null> {
    if (!endpoint.known || now - endpoint.known.at > freshMs) {
      endpoint.known = { at: now, destination: this.destinations.current(tenant) };
    }
    try {
      const known = await endpoint.known.destination;
      return known?.since_ms === destination.since_ms ? known : null;
    } catch (error) {
      this.logger.warn({ err: error, delivery_id: toId('wh_delivery', id) }, 'destination could not be read');
      return null;
    }
  }
}
