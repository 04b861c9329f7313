// Every route, in the order of the document.
import type { App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { accessRoutes } from './access.ts';
import { accountRoutes } from './accounts.ts';
import { auditRoutes } from './audit.ts';
import { balanceRoutes } from './balances.ts';
import { batchRoutes } from './batch.ts';
import { chartRoutes } from './chart.ts';
import { deliveryRoutes } from './deliveries.ts';
import { eventRoutes } from './events.ts';
import { importRoutes } from './import.ts';
import { keyRoutes } from './keys.ts';
import { mailRoutes } from './mail.ts';
import { newAccountRoutes } from './new-accounts.ts';
import { holdReads, holdRoutes } from './holds.ts';
import { oidcRoutes, type OidcSettings } from './oidc.ts';
import { operationRoutes, type Operations } from './operations.ts';
import { exchangeRoutes } from './exchange.ts';
import { postingRoutes } from './postings.ts';
import { reversalRoutes } from './reversals.ts';
import { tenantStateRoutes } from './tenant-states.ts';
import { tenantRoutes } from './tenants.ts';
import { transactionRoutes } from './transactions.ts';
import { userRoutes } from './users.ts';
import { velocityRoutes } from './velocity.ts';
import { webhookRoutes } from './webhooks.ts';

/** Registers them. */
export function registerRoutes(app: App, parts: Services & Operations & OidcSettings): void {
  userRoutes(app, parts);
  mailRoutes(app, parts);
  oidcRoutes(app, parts);
  tenantRoutes(app, parts);
  tenantStateRoutes(app, parts);
  keyRoutes(app, parts);
  accessRoutes(app, parts);
  auditRoutes(app, parts);
  chartRoutes(app, parts);
  newAccountRoutes(app, parts);
  accountRoutes(app, parts);
  velocityRoutes(app, parts);
  postingRoutes(app, parts);
  exchangeRoutes(app, parts);
  reversalRoutes(app, parts);
  batchRoutes(app, parts);
  importRoutes(app, parts);
  transactionRoutes(app, parts);
  holdRoutes(app, parts);
  holdReads(app, parts);
  balanceRoutes(app, parts);
  eventRoutes(app, parts);
  webhookRoutes(app, parts);
  deliveryRoutes(app, parts);
  operationRoutes(app, parts);
}
