// What the identity service consists of (users, tenants, API keys), opened in order and stopped in the opposite order.
import { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { withTimeout, type Readiness } from '../platform/health.ts';
import type { Lifetime } from '../platform/lifetime.ts';
import { openPool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import { databaseState } from '../platform/readiness.ts';
import { serveUntilEnd } from '../platform/serve.ts';
import type { Settings } from '../platform/settings.ts';
import { openLog, openMetrics } from '../platform/telemetry.ts';
import { identityConfig } from './config.ts';
import { openOrm, rows } from './database.ts';
import { Passwords } from './passwords.ts';
import { identityRoutes } from './rpc.ts';
import { migrationNames } from './schema.ts';
import { forgetSessions, openSigner } from './sessions.ts';
import { forgetFailures } from './throttle.ts';
import { strangersTurns, usersTurns } from './users.ts';

const sweepMs = 10 * 60_000;

/** Serves until the lifetime ends. Throws `BadSetting` and `StartFailure`, which say what the operator can mend. */
export async function serveIdentity(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = identityConfig(settings);
  const logger = openLog('identity', config.logLevel);
  const metrics = openMetrics('identity');
  const pool = openPool(config.databaseUrl, { max: 5, name: 'identity', logger });
  lifetime.add('pool', () => pool.end());
  await checkDatabase(pool, migrationNames);
  const orm = await openOrm(config.databaseUrl, 5, logger);
  lifetime.add('orm', () => orm.close(true));

  const sweep = setInterval(() => {
    Promise.all([forgetFailures(pool), forgetSessions(pool)]).catch((error: unknown) => logger.warn({ err: error }, 'sweep failed'));
  }, sweepMs);
  lifetime.add('sweep', () => clearInterval(sweep));

  const ask = databaseState(pool, logger);
  const readiness = async (): Promise<Readiness> => {
    // Logins need both, whose connections break apart from each other.
    const [state, isThere] = await Promise.all([
      ask(),
      withTimeout(rows(orm).execute('select 1')).then(
        () => true,
        () => false,
      ),
    ]);
    const answer = isThere ? state : 'away';
    return { ready: answer === 'ok', dependencies: { postgresql: answer } };
  };
  const turns = { strangers: strangersTurns(), users: usersTurns() };
  const parts = { orm, pool, passwords: new Passwords(metrics), signer: await openSigner(config.signingKeys), ...turns };
  await serveUntilEnd(lifetime, config, {
    services: [IdentityService],
    routes: identityRoutes(parts),
    logger,
    metrics,
    readiness,
  });
}
