// Limits the requests in flight: MAX_IN_FLIGHT in all, half of them for one tenant. Beyond: 503 `overloaded`.
import type { FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import { openGauge } from '../services/platform/gauges.ts';
import { ApiError } from './errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The request's slot among those in flight, while it has one. */
    slot: Slot | null;
  }
  interface FastifyContextConfig {
    /** As how many requests one of this route counts, because it has more in memory; 1 by default. */
    weight?: number;
  }
}

interface Slot {
  /** Known once the credential is checked; `''` for requests that belong to no tenant. */
  tenantId: string | undefined;
  weight: number;
}

/** Counts the requests in flight, in all and for each tenant. */
export class InFlightLimit {
  private inFlight = 0;
  private readonly perTenant = new Map<string, number>();
  private readonly max: number;

  /** `max`: requests at once. */
  constructor(max: number, metrics: Registry) {
    this.max = max;
    openGauge(
      metrics,
      'http_requests_in_flight',
      'Requests in flight, operations routes excluded; a batch or import counts as several',
      () => this.inFlight,
    );
    openGauge(metrics, 'http_requests_in_flight_max', 'Requests that may be: MAX_IN_FLIGHT', () => max);
  }

  /** Gives a request a slot, before its credential is checked; the error where all are taken. */
  enter(request: FastifyRequest, weight = 1): ApiError | undefined {
    if (this.inFlight >= this.max) return new ApiError('overloaded');
    this.inFlight += weight;
    request.slot = { tenantId: undefined, weight };
    return undefined;
  }

  /** Counts the slot for the caller's tenant; the error where that has half of all. Requests without a tenant share one half. */
  assignTenant({ slot, caller: { tenantId } }: FastifyRequest): ApiError | undefined {
    const count = this.perTenant.get(tenantId) ?? 0;
    if (count >= Math.max(1, this.max / 2)) return new ApiError('overloaded');
    if (!slot) return undefined;
    this.perTenant.set(tenantId, count + slot.weight);
    slot.tenantId = tenantId;
    return undefined;
  }

  /** Takes the slot back; a second call does nothing. */
  leave(request: FastifyRequest): void {
    const { slot } = request;
    if (!slot) return;
    request.slot = null;
    this.inFlight -= slot.weight;
    if (slot.tenantId === undefined) return;
    const count = (this.perTenant.get(slot.tenantId) ?? slot.weight) - slot.weight;
    if (count > 0) this.perTenant.set(slot.tenantId, count);
    else this.perTenant.delete(slot.tenantId);
  }
}
