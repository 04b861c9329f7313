import { spawnSync } from 'node:child_process';
import { bareEnvironment } from '../../test/run.ts';
import { commandOf } from './command.ts';
import { StartFailure } from './lifetime.ts';

test('a service is told to migrate or to serve, and refuses what it would pass over', () => {
  expect(commandOf([])).toBeNull();
  expect(commandOf(['migrate'])).toBe('migrate');
  for (const args of [[''], ['serve'], ['--help'], ['migrate', '--dry-run'], ['migrate', 'migrate']]) {
    expect(() => commandOf(args)).toThrow(new StartFailure(`unknown command ${args.join(' ')}: there is migrate, or none`));
  }
});

test.each(['identity', 'ledger', 'notifier'])('migrate needs the two database addresses of %s and nothing else', (service) => {
  const migrate = (env: NodeJS.ProcessEnv) => {
    const args = [`services/${service}/main.ts`, 'migrate'];
    const { status, stderr } = spawnSync(process.execPath, args, { env: { ...bareEnvironment, ...env }, encoding: 'utf8' });
    return [status, stderr];
  };
  const [ownerUrl, serviceUrl] = ['postgres://owner:secret@127.0.0.1:1/it', 'postgres://service:secret@127.0.0.1:1/it'];
  expect(migrate({ DATABASE_URL: serviceUrl })).toEqual([1, 'MIGRATION_DATABASE_URL is not set\n']);
  expect(migrate({ MIGRATION_DATABASE_URL: ownerUrl })).toEqual([1, 'DATABASE_URL is not set\n']);
  const [status, said] = migrate({ DATABASE_URL: serviceUrl, MIGRATION_DATABASE_URL: ownerUrl });
  expect([status, said]).toEqual([1, 'MIGRATION_DATABASE_URL: connect ECONNREFUSED 127.0.0.1:1\n']);
});
