import { spawnSync } from 'node:child_process';
import { freshDatabase } from '../../test/cluster.ts';
import { bareEnvironment } from '../../test/run.ts';
import { commandOf } from './command.ts';
import { StartFailure } from './lifetime.ts';

test('the arguments choose migrate or serve, and others are refused', () => {
  expect(commandOf([])).toBeNull();
  expect(commandOf(['migrate'])).toBe('migrate');
  for (const args of [[''], ['serve'], ['--help'], ['migrate', '--dry-run'], ['migrate', 'migrate']]) {
    expect(() => commandOf(args)).toThrow(new StartFailure(`unknown command ${args.join(' ')}: there is migrate, or none`));
  }
});

test.each(['identity', 'ledger', 'notifier'] as const)(
  'migrate needs the two database addresses of %s and nothing else',
  async (service) => {
    const migrate = (env: NodeJS.ProcessEnv) => {
      const args = [`services/${service}/main.ts`, 'migrate'];
      const { status, stderr } = spawnSync(process.execPath, args, { env: { ...bareEnvironment, ...env }, encoding: 'utf8' });
      return [status, stderr];
    };
    const database = await freshDatabase(service);
    const [DATABASE_URL, MIGRATION_DATABASE_URL] = [database.serviceUrl, database.ownerUrl];
    expect(migrate({ DATABASE_URL })).toEqual([1, 'MIGRATION_DATABASE_URL is not set\n']);
    expect(migrate({ MIGRATION_DATABASE_URL })).toEqual([1, 'DATABASE_URL is not set\n']);
    expect(migrate({ DATABASE_URL, MIGRATION_DATABASE_URL })).toEqual([0, '']);
    await database.drop();
  },
);

test.each(['services/identity/main.ts', 'services/ledger/main.ts', 'services/notifier/main.ts', 'gateway/main.ts'])(
  '%s handles signals before it loads its parts',
  (main) => {
    // It signals itself as soon as that module is requested, which without a handler would end it.
    const hook = `import { registerHooks } from 'node:module';
      registerHooks({
        resolve(specifier, context, next) {
          if (/\\/(serving|app)\\.ts$/.test(specifier)) process.kill(process.pid, 'SIGTERM');
          return next(specifier, context);
        },
      });`;
    const args = [`--import=data:text/javascript,${encodeURIComponent(hook)}`, main];
    const { signal, stderr } = spawnSync(process.execPath, args, { env: bareEnvironment, encoding: 'utf8' });
    // Loaded without a turn of its loop, it comes to its settings first.
    expect(signal).toBeNull();
    expect(['', 'INTERNAL_TOKEN is not set\n']).toContain(stderr);
  },
);
