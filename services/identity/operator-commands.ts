// The operator's commands on API keys: `keys list` and `keys revoke`.
import { InvalidArgumentError, type Command } from 'commander';
import type { MikroORM } from '@mikro-orm/postgresql';
import { toId, toUuid } from '../platform/ids.ts';
import { BadArgument, addCommand, setAction, tenantArgument, type Given } from '../platform/operator-program.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import type { Settings } from '../platform/settings.ts';
import { openLog, type Logger } from '../platform/telemetry.ts';
import { expiryOf } from './api-keys.ts';
import { idOfKeyText } from './credentials.ts';
import { openOrm } from './database.ts';
import type { ApiKeyRow } from './entities.ts';
import { keysOfTenant, revokeKeys, tenantOfKey } from './operator-keys.ts';
import { migrationNames } from './schema.ts';

const exampleTenant = 'tenant_01jd1zq5v8e6n9w2k4m7p3r5t8';
const logger: Logger = openLog('identity', 'silent');

interface Identity {
  pool: Pool;
  orm: MikroORM;
}

type IdentityAction = <Options>(command: Command, work: (identity: Identity, given: Given<Options>) => Promise<boolean>) => void;

/** Adds the commands, on the database of `DATABASE_URL`. */
export function addIdentityCommands(program: Command, settings: Settings): void {
  const onIdentity: IdentityAction = (command, work) =>
    setAction(command, async (given) => {
      const url = settings.databaseUrl('DATABASE_URL');
      const pool = openPool(url, { name: 'identity command', max: 1, logger });
      try {
        await checkDatabase(pool, migrationNames);
        const orm = await openOrm(url, 1, logger);
        try {
          return await work({ pool, orm }, given as Parameters<typeof work>[1]);
        } finally {
          await orm.close(true);
        }
      } finally {
        await pool.end();
      }
    });
  const keys = program.command('keys').description('API keys of tenants, and access keys of their members.').helpCommand(false);
  addList(keys, onIdentity);
  addRevoke(keys, onIdentity);
}

function addList(keys: Command, onIdentity: IdentityAction): void {
  const command = addCommand(keys, 'list', {
    description: 'Print the keys of a tenant that work, also the access keys of members, which last an hour.',
    examples: [`identity keys list --tenant ${exampleTenant}`, `identity keys list --tenant ${exampleTenant} --all --json`],
  })
    .requiredOption('--tenant <id>', 'the tenant', tenantArgument)
    .option('--all', 'also those that are revoked or expired', false);
  onIdentity<{ tenant: string; all: boolean }>(command, async ({ orm }, { options: { tenant, all }, output }) => {
    const found = await keysOfTenant(orm, tenant);
    if (!found) throw noTenant(tenant);
    const listed = found.filter(({ status }) => all || status === 'active');
    for (const key of listed) {
      const { id, kind, name, last4, scopes, expires_at: expiresAt } = shown(key);
      const item = { type: 'key', ...shown(key), status: key.status };
      const expires = expiresAt === null ? '' : `, until ${expiresAt}`;
      output.print(item, `${id} ${kind} ${JSON.stringify(name)} …${last4} ${scopes.join(' ')}, ${key.status}${expires}`);
    }
    output.print({ type: 'summary', keys: listed.length }, `${listed.length} keys`);
    return true;
  });
}

interface RevokeOptions {
  key?: string;
  tenant?: string;
  all?: true;
}

function addRevoke(keys: Command, onIdentity: IdentityAction): void {
  const command = addCommand(keys, 'revoke', {
    description:
      'Revoke a key, or those of a tenant. Gateways refuse it within 5 seconds. The tenant’s audit log names the actor operator.',
    examples: [
      'identity keys revoke --key key_01jd1zq5v8e6n9w2k4m7p3r5t8',
      `identity keys revoke --tenant ${exampleTenant}`,
      `identity keys revoke --tenant ${exampleTenant} --all`,
    ],
  })
    .option('--key <id>', 'this key, by its id or its text', keyArgument)
    .option('--tenant <id>', 'every API key of this tenant', tenantArgument)
    .option('--all', 'with --tenant: the access keys of its members, too');
  onIdentity<RevokeOptions>(command, async ({ pool, orm }, { options: { key, tenant, all }, output }) => {
    if ((key === undefined) === (tenant === undefined)) throw new BadArgument('one of --key and --tenant is needed');
    if (key !== undefined && all) throw new BadArgument('--all goes with --tenant');
    const of = tenant ?? (await tenantOfKey(pool, key ?? ''));
    if (of === undefined) throw new BadArgument(`--key: there is no key ${toId('key', key ?? '')}`);
    const revoked = await revokeKeys(orm, of, key !== undefined ? { id: key } : all ? 'all' : 'api keys');
    if (!revoked) throw noTenant(of);
    for (const each of revoked) {
      const { id, kind, name } = shown(each);
      output.print({ type: 'key', ...shown(each), status: 'revoked' }, `${id} ${kind} ${JSON.stringify(name)} revoked`);
    }
    output.print({ type: 'summary', tenant: toId('tenant', of), revoked: revoked.length }, `${revoked.length} revoked`);
    return true;
  });
}

/** What is printed of a key; nothing of its text but the last four characters. */
function shown(key: ApiKeyRow) {
  const { id, tenantId, memberId, name, scopes, last4, createdAt } = key;
  return {
    id: toId('key', id),
    tenant: toId('tenant', tenantId),
    kind: memberId === null ? 'api_key' : 'access_key',
    member: memberId === null ? null : toId('user', memberId),
    ...{ name, scopes, last4 },
    created_at: createdAt.toISOString(),
    expires_at: expiryOf(key)?.toISOString() ?? null,
  };
}

function keyArgument(text: string): string {
  const uuid = toUuid('key', idOfKeyText(text) ?? text);
  if (uuid === null) throw new InvalidArgumentError("It is not a key's id, such as key_01jd1zq5v8e6n9w2k4m7p3r5t8.");
  return uuid;
}

const noTenant = (tenant: string) => new BadArgument(`--tenant: there is no tenant ${toId('tenant', tenant)}`);
