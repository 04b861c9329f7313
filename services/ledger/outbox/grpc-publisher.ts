// Publishes events to the notifier over gRPC, for deployments without Kafka.
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../../proto/gen/grpc/health/v1/health_pb.js';
import { NotifierService } from '../../../proto/gen/notifier/v1/notifier_pb.js';
import { openCaller } from '../../platform/caller.ts';
import { tenantId, toUuid } from '../../platform/ids.ts';
import type { TlsFiles } from '../../platform/tls-files.ts';
import { encoders } from '../encoding.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';

const timeoutMs = 15_000;

/** The event itself is at fault. */
const rejections = new Set([Code.InvalidArgument, Code.OutOfRange]);
/** The notifier is up but fails over something of one tenant, such as a locked or unreadable row. */
const deferrals = new Set([Code.Internal, Code.Unknown, Code.DataLoss, Code.Aborted]);

const isCode = (error: unknown, codes: ReadonlySet<Code>): error is ConnectError => error instanceof ConnectError && codes.has(error.code);

/** Opens the publisher; `addresses` are `host:port` of notifiers. Connects on the first call. */
export function grpcPublisher(addresses: string[], token: string, maxMessageBytes: number, tls?: TlsFiles): EventSink {
  const caller = openCaller({ addresses, token, tls, maxMessageBytes, encoders });
  const notifier = createClient(NotifierService, caller);
  const health = createClient(Health, caller);
  return {
    name: 'notifier',
    derivesEvents: true,
    publish: async (events) => {
      try {
        await notifier.ingest({ events, deriveUpdates: true }, { timeoutMs });
      } catch (error) {
        if (isCode(error, rejections)) throw new EventRejected(error.message);
        if (isCode(error, deferrals)) throw new EventsDeferred(error.message);
        throw error;
      }
    },
    skip: async (ranges) => {
      const stretches = ranges.map(({ tenant, published, through, createdMs }) => {
        return { tenantId: tenantId(tenant), after: published, through, createdMs };
      });
      try {
        const { wantedTenantIds } = await notifier.pass({ stretches }, { timeoutMs });
        return new Set(wantedTenantIds.map((id) => toUuid('tenant', id) ?? ''));
      } catch (error) {
        // One tenant is at fault, and publishing finds out which.
        if (isCode(error, rejections) || isCode(error, deferrals)) return new Set(ranges.map(({ tenant }) => tenant));
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
