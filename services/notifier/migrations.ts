// The notifier's migrations, oldest first. Loaded by `migrate` only, because they load MikroORM.
import { Baseline } from './migrations/0001-baseline.ts';
import { WebhookHeaders } from './migrations/0002-webhook-headers.ts';
import { Payments } from './migrations/0003-payments.ts';
import { TenantDeletion } from './migrations/0004-tenant-deletion.ts';
import { Books } from './migrations/0005-books.ts';
import { DeliveriesOfEvents } from './migrations/0006-deliveries-of-events.ts';

/** Migrations by name, as in schema.ts. */
export const migrations = [
  { name: '0001-baseline', class: Baseline },
  { name: '0002-webhook-headers', class: WebhookHeaders },
  { name: '0003-payments', class: Payments },
  { name: '0004-tenant-deletion', class: TenantDeletion },
  { name: '0005-books', class: Books },
  { name: '0006-deliveries-of-events', class: DeliveriesOfEvents },
];
