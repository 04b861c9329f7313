// Events out to the notifier over gRPC, where there is no Kafka between.
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../../proto/gen/grpc/health/v1/health_pb.js';
import { NotifierService } from '../../../proto/gen/notifier/v1/notifier_pb.js';
import { tenantId, toUuid } from '../../platform/ids.ts';
import { openCaller } from '../../platform/caller.ts';
import { balanceEventsOf, withBalanceEvents } from '../../platform/balance-events.ts';
import { encoders } from '../encoding.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';

/** A call to the notifier may take so long, milliseconds. */
const timeoutMs = 15_000;

// The notifier is there, but fails over something of one tenant, or waited in vain for a row of his that somebody holds.
const ofSome = new Set([Code.Internal, Code.Unknown, Code.DataLoss, Code.Aborted]);

/** Opens the way to the notifier; `addresses` are `host:port`. */
export function grpcPublisher(addresses: string[], token: string, maxMessageBytes: number): EventSink {
  const caller = openCaller({ addresses, token, maxMessageBytes, encoders });
  const notifier = createClient(NotifierService, caller);
  const health = createClient(Health, caller);
  // Whether the one that answered last derives updates. An older one is sent them behind their postings, as it takes what comes later for a gap.
  let derives = false;
  return {
    name: 'notifier',
    derives: true,
    publish: async (events) => {
      try {
        const spared = derives;
        const told = spared ? events : events.flatMap(withBalanceEvents);
        const { updatesDerived } = await notifier.ingest({ events: told, deriveUpdates: true }, { timeoutMs });
        derives = updatesDerived;
        const left = spared && !updatesDerived ? events.flatMap(balanceEventsOf) : [];
        if (left.length > 0) await notifier.ingest({ events: left }, { timeoutMs });
      } catch (error) {
        const code = error instanceof ConnectError ? error.code : undefined;
        if (code === Code.InvalidArgument || code === Code.OutOfRange) throw new EventRejected((error as Error).message);
        if (code !== undefined && ofSome.has(code)) throw new EventsDeferred((error as Error).message);
        throw error;
      }
    },
    pass: async (stretches) => {
      const asked = stretches.map(({ tenant, mark, through, createdMs }) => {
        return { tenantId: tenantId(tenant), after: mark, through, createdMs };
      });
      try {
        const { wantedTenantIds } = await notifier.pass({ stretches: asked }, { timeoutMs });
        return new Set(wantedTenantIds.map((id) => toUuid('tenant', id) ?? ''));
      } catch (error) {
        const code = error instanceof ConnectError ? error.code : undefined;
        // One that is older than this, or fails over one of them: then events are told apart.
        if (code === Code.Unimplemented || code === Code.InvalidArgument || (code !== undefined && ofSome.has(code)))
          return new Set(stretches.map(({ tenant }) => tenant));
        throw error;
      }
    },
    probe: async () => {
      const { status } = await health.check({}, { timeoutMs: 2_000 });
      if (status !== Serving.SERVING) throw new Error('the notifier is not ready');
    },
    close: () => {
      caller.close();
      return Promise.resolve();
    },
  };
}
