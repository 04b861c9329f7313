// Opens the parts of the identity service in order, and stops them in the opposite order.
import { createClient } from '@connectrpc/connect';
import { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { VaultService } from '../../proto/gen/identity/v1/vault_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import { openCaller, type Caller } from '../platform/caller.ts';
import { withTimeout, type Readiness } from '../platform/health.ts';
import type { Lifetime } from '../platform/lifetime.ts';
import { openPool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import { databaseState } from '../platform/readiness.ts';
import { SecretEncryption } from '../platform/secret-encryption.ts';
import { serveUntilEnd } from '../platform/serve.ts';
import type { Settings } from '../platform/settings.ts';
import { openLog, openMetrics } from '../platform/telemetry.ts';
import { openTracing } from '../platform/tracing.ts';
import { identityConfig } from './config.ts';
import { openOrm, entityManager } from './database.ts';
import { openMailTransport } from './mail/mail-transport.ts';
import { MailWorker } from './mail/mail-worker.ts';
import { OidcClient } from './oidc/oidc-client.ts';
import { tenantLimit, unauthenticatedLimit, userLimit, type Parts } from './parts.ts';
import { Passwords } from './passwords.ts';
import { deleteExpired } from './retention.ts';
import { identityRoutes } from './rpc.ts';
import { migrationNames } from './schema.ts';
import { openSigner } from './sessions.ts';
import { TenantDeletions } from './tenant-deletion.ts';
import { Erasures } from './vault/erasures.ts';
import { Vault } from './vault/vault.ts';

const retentionMs = 10 * 60_000;
/** How long a stop waits for mails that are being sent. */
const mailGraceMs = 5_000;

/** Serves until the lifetime ends. Throws `BadSetting` and `StartFailure`, whose messages name the fix. */
export async function serveIdentity(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = identityConfig(settings);
  const logger = openLog('identity', config.logLevel);
  const metrics = openMetrics('identity');
  await openTracing('identity', config.tracing, { lifetime, logger, metrics });
  const pool = openPool(config.databaseUrl, { max: 5, name: 'identity', logger, metrics });
  lifetime.add('pool', () => pool.end());
  await checkDatabase(pool, migrationNames);
  const orm = await openOrm(config.databaseUrl, 5, logger, metrics);
  lifetime.add('orm', () => orm.close(true));

  const retention = setInterval(() => {
    deleteExpired(pool).catch((error: unknown) => logger.warn({ err: error }, 'retention job failed'));
  }, retentionMs);
  lifetime.add('retention job', () => clearInterval(retention));

  const send = await openMailTransport(config);
  const mails = new MailWorker({ pool, send, publicUrl: config.publicUrl, logger, metrics });
  mails.start();
  lifetime.add('mails', () => mails.stop(mailGraceMs));

  const callers: Caller[] = [];
  const call = (addresses: string[]) => {
    const caller = openCaller({
      addresses,
      token: config.internalTokens[0] ?? '',
      tls: config.tls,
      maxMessageBytes: config.grpcMaxMessageBytes,
    });
    callers.push(caller);
    return caller;
  };
  lifetime.add('callers', () => callers.forEach((caller) => caller.close()));
  const openServices = () => ({
    ledger: createClient(LedgerService, call(config.ledgerAddresses)),
    notifier: createClient(NotifierService, call(config.notifierAddresses)),
  });
  const deletions = new TenantDeletions({ pool, openServices, logger, metrics });
  lifetime.add('deletions', () => deletions.stop());
  const openLedger = () => createClient(LedgerService, call(config.ledgerAddresses));
  const erasures = new Erasures({ pool, openLedger, logger, metrics });
  lifetime.add('erasures', () => erasures.stop());

  const ask = databaseState(pool, logger);
  const readiness = async (): Promise<Readiness> => {
    // Logins need both pools, whose connections fail independently.
    const [state, isReachable] = await Promise.all([
      ask(),
      withTimeout(entityManager(orm).execute('select 1')).then(
        () => true,
        () => false,
      ),
    ]);
    const answer = isReachable ? state : 'away';
    return { ready: answer === 'ok', dependencies: { postgresql: answer } };
  };
  const { signingKeys, encryptionKeys, subjectKeys, deleteAfterMs } = config;
  const secrets = new SecretEncryption('IDENTITY_ENCRYPTION_KEY', encryptionKeys);
  const parts: Parts = {
    ...{ orm, pool, deleteAfterMs, secrets, erasures },
    vault: new Vault(pool, new SecretEncryption('SUBJECT_ENCRYPTION_KEY', subjectKeys), logger),
    oidc: new OidcClient(config.oidcProviders, secrets),
    passwords: new Passwords(metrics),
    signer: await openSigner(signingKeys),
    unauthenticated: unauthenticatedLimit(),
    users: userLimit(),
    tenants: tenantLimit(),
  };
  await serveUntilEnd(lifetime, config, {
    services: [IdentityService, VaultService],
    routes: identityRoutes(parts),
    logger,
    metrics,
    readiness,
  });
}
