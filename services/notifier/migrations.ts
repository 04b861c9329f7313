// The notifier's migrations, oldest first, under the names that schema.ts gives.
import { Webhooks } from './migrations/0001-webhooks.ts';
import { TraceContext } from './migrations/0002-trace-context.ts';
import { Claims } from './migrations/0003-claims.ts';
import { UrlOfAnyCase } from './migrations/0004-url-of-any-case.ts';
import { MarkTimes } from './migrations/0005-mark-times.ts';
import { Statistics } from './migrations/0006-statistics.ts';
import { KafkaOffsets } from './migrations/0007-kafka-offsets.ts';

/** Migrations by name. */
export const migrations = [
  { name: '0001-webhooks', class: Webhooks },
  { name: '0002-trace-context', class: TraceContext },
  { name: '0003-claims', class: Claims },
  { name: '0004-url-of-any-case', class: UrlOfAnyCase },
  { name: '0005-mark-times', class: MarkTimes },
  { name: '0006-statistics', class: Statistics },
  { name: '0007-kafka-offsets', class: KafkaOffsets },
];
