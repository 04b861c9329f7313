// The notifier's migrations, oldest first, under the names that schema.ts gives.
import { Webhooks } from './migrations/0001-webhooks.ts';

/** Migrations by name. */
export const migrations = [{ name: '0001-webhooks', class: Webhooks }];
