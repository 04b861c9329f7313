import { migrate } from '../../services/platform/migration.ts';
import { startOwnPostgres, type OwnPostgres } from '../../test/own-postgres.ts';
import { revokePublicConnect, createDatabase, setPasswords, withClient, type DatabasePlan } from './databases.ts';

let server: OwnPostgres;

beforeAll(async () => {
  server = await startOwnPostgres();
});
afterAll(() => server.end());

const planOf = (name: string, password: string): DatabasePlan => ({
  name,
  owner: { role: `${name}_owner`, password },
  service: { role: `${name}_service`, password: `${password} too` },
});
const nothing = { names: [], migrations: () => Promise.resolve([]), appendOnly: [] };
const roleAt = async (url: string) =>
  (await withClient(url, (client) => client.query<{ role: string }>('select current_user as role'))).rows[0]?.role;

test('roles log in with the passwords of the plan, also of a later plan, and no log has them', async () => {
  await withClient(server.adminUrl, (client) => client.query(`alter role postgres set log_statement = 'ddl'`));
  const first = planOf('passwords', `secret'"\\é`);
  const made = await createDatabase(server.adminUrl, first);
  await withClient(server.adminUrl, (client) => client.query(`alter role passwords_owner set log_statement = 'ddl'`));
  await migrate(made.ownerUrl, made.serviceUrl, nothing);
  const second = planOf('passwords', `another secret'"\\é`);
  const again = await createDatabase(server.adminUrl, second);
  await expect(roleAt(again.ownerUrl)).rejects.toThrow(/password authentication failed/);
  await setPasswords(server.adminUrl, second, again);
  expect([await roleAt(again.ownerUrl), await roleAt(again.serviceUrl)]).toEqual(['passwords_owner', 'passwords_service']);
  const changes = [...server.log().matchAll(/statement: ((?:create|alter) role "\w+")/g)].map(([, change]) => change);
  expect(changes).toEqual([
    'create role "passwords_owner"',
    'create role "passwords_service"',
    'alter role "passwords_owner"',
    'alter role "passwords_service"',
  ]);
  expect(server.log()).not.toContain('secret');
});

test('a database admits its owner, its service and roles with a grant of their own', async () => {
  const [one, other] = [planOf('one', 'a password'), planOf('other', 'a password')];
  const [mine, theirs] = [await createDatabase(server.adminUrl, one), await createDatabase(server.adminUrl, other)];
  for (const { ownerUrl, serviceUrl } of [mine, theirs]) await migrate(ownerUrl, serviceUrl, nothing);
  const into = ({ name }: { name: string }, url: string) => {
    const there = new URL(url);
    there.pathname = `/${name}`;
    return roleAt(there.href);
  };
  expect(await into(mine, theirs.serviceUrl)).toBe('other_service');
  await withClient(mine.ownerUrl, (client) => client.query('grant connect on database one to other_owner'));
  for (let turn = 0; turn < 2; turn++) {
    await revokePublicConnect(mine);
    expect([await roleAt(mine.ownerUrl), await roleAt(mine.serviceUrl)]).toEqual(['one_owner', 'one_service']);
    expect(await into(mine, theirs.ownerUrl)).toBe('other_owner');
    await expect(into(mine, theirs.serviceUrl)).rejects.toThrow('permission denied for database "one"');
  }
  await expect(withClient(mine.serviceUrl, (client) => client.query('create temp table t ()'))).rejects.toThrow(/temporary tables/);
  await withClient(mine.ownerUrl, (client) => client.query('create temp table t ()'));
});
