// What the image holds and what the compose file says, against what the cluster is.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { withClient } from '../deploy/local/databases.ts';
import { root, servers, services } from '../deploy/local/plan.ts';
import { migrate } from '../services/platform/migration.ts';
import { forgetSecrets, mainOf, missing, processOf, processes, settingsOf, start, unread } from './required-settings.ts';
import { startOwnPostgres } from './own-postgres.ts';
import { imports, isBuiltIn, isPackage, text } from './sources.ts';

type Manifest = Record<string, any>;

afterAll(forgetSecrets);

describe('the image', () => {
  const dockerfile = text('deploy/Dockerfile');
  const final = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '));
  const copied = [...final.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) => (match[1] ?? '').split(' '));

  test('holds every file that the processes need, and the build may see it', () => {
    const needed = new Set(processes.map(mainOf));
    // A set is walked with what is added on the way.
    for (const file of needed) {
      const imported = file.endsWith('.ts') ? imports(file) : [];
      for (const name of imported) if (!isBuiltIn(name) && !isPackage(name)) needed.add(name);
    }
    const within = (places: string[]) => (file: string) => places.some((place) => file === place || file.startsWith(`${place}/`));
    expect([...needed].filter((file) => !within(copied)(file))).toEqual([]);
    const visible = text('.dockerignore').split('\n');
    expect(visible[0]).toBe('*');
    for (const place of [...copied, 'package-lock.json', '.npmrc']) expect(visible).toContain(`!${place}`);
  });

  test('starts Node as npm start does, and not as root', () => {
    const flag = /'(--max-semi-space-size=[0-9]+)'/.exec(text('deploy/local/plan.ts'))?.[1];
    expect(final).toContain(`\nENTRYPOINT ["node", "${String(flag)}"]\n`);
    const arenas = /^const arenas = '([0-9]+)';$/m.exec(text('deploy/local/plan.ts'))?.[1];
    expect(final).toContain(`\nENV MALLOC_ARENA_MAX=${String(arenas)}\n`);
    expect(final).toMatch(/^USER [1-9][0-9]*:[1-9][0-9]*$/m);
    expect([...dockerfile.matchAll(/^FROM (\S+)/gm)].map((match) => match[1])).toEqual(Array.from({ length: 3 }, () => 'node:24-slim'));
  });

  test('keeps the optional packages without which a process does not start', () => {
    expect(dockerfile).toMatch(/^RUN npm ci --omit=dev --ignore-scripts/m);
    const { optionalDependencies } = JSON.parse(text('package.json')) as { optionalDependencies: Record<string, string> };
    for (const name of Object.keys(optionalDependencies)) expect(dockerfile).toContain(`node_modules/${name}`);
  });
});

describe('the compose file', () => {
  const compose = parse(text('deploy/compose.yaml'), { merge: true }) as Manifest;
  const ours = Object.entries<Manifest>(compose['services']).filter(([, each]) => each['image'] === 'ledger' && each['environment']);

  test('runs every process and every migration', () => {
    const migrations = services.map((name) => `services/${name}/main.ts migrate`);
    expect(ours.map(([, each]) => each['command'].join(' '))).toEqual([...processes.map(mainOf), ...migrations]);
  });

  test('gives each what it reads, nothing else, and all that it needs to start', () => {
    for (const [, each] of ours) {
      const process = processOf(each['command']);
      expect(unread(process, each['environment'])).toEqual([]);
      const settings = settingsOf(each['environment']);
      if (each['command'][1] === 'migrate') expect(settings.databaseUrl('MIGRATION_DATABASE_URL')).toMatch(/^postgres:/);
      else expect(start[process](settings)).toBeDefined();
    }
  });

  test('gives a process every variable that has no default of its own', () => {
    for (const process of processes) {
      const own = ours.filter(([, each]) => processOf(each['command']) === process).map(([, each]) => each['environment']);
      // Not production, which refuses receivers on the same machine.
      expect(missing(process, ...own, { NODE_ENV: '' })).toEqual([]);
    }
  });

  test('tells the gateway where the services listen', () => {
    const environment = (name: string) => compose['services'][name].environment as Record<string, string>;
    const addresses = servers.map((name) => [`${name.toUpperCase()}_ADDR`, `${name}:${String(environment(name)['PORT'])}`]);
    expect(environment('gateway')).toMatchObject(Object.fromEntries(addresses));
  });

  test('makes the databases and roles of the guide', () => {
    const [, script] = /```sql\n([^]*?)```/.exec(text('gateway/docs/operate/kubernetes.md')) ?? [];
    expect(compose['configs'].databases.content.replace(/password '\w+'/g, "password '...'")).toBe(script);
  });

  test('makes databases which each service has to itself', async () => {
    const server = await startOwnPostgres();
    try {
      const here = (name: string, variable: string, database = name) => {
        const url = new URL(compose['services'][name].environment[variable] as string);
        url.host = new URL(server.adminUrl).host;
        url.pathname = `/${database}`;
        return url.href;
      };
      // One by one, as psql does: a database is not made together with anything else.
      for (const statement of (compose['configs'].databases.content as string).split(';').filter((each) => each.trim() !== '')) {
        await withClient(server.adminUrl, (client) => client.query(statement));
      }
      for (const name of services) {
        const ownerUrl = here(`${name}-migrate`, 'MIGRATION_DATABASE_URL', name);
        await migrate(ownerUrl, here(name, 'DATABASE_URL'), { names: [], migrations: () => Promise.resolve([]), appendOnly: [] });
        for (const database of services) {
          const connected = withClient(here(name, 'DATABASE_URL', database), () => Promise.resolve('connected'));
          if (database === name) expect(await connected).toBe('connected');
          else await expect(connected).rejects.toThrow(`permission denied for database "${database}"`);
        }
      }
    } finally {
      await server.end();
    }
  });

  test('names services, volumes and files that there are', () => {
    for (const each of Object.values<Manifest>(compose['services'])) {
      for (const name of Object.keys(each['depends_on'] ?? {})) expect(compose['services']).toHaveProperty(name);
      for (const volume of each['volumes'] ?? []) {
        const [source = ''] = String(volume).split(':');
        if (source.startsWith('./')) expect([source, existsSync(join(root, 'deploy', source))]).toEqual([source, true]);
        else expect(compose['volumes']).toHaveProperty(source);
      }
      for (const config of each['configs'] ?? []) expect(compose['configs']).toHaveProperty(config.source);
      if (each['build']) expect(existsSync(join(root, 'deploy', each['build'].context, each['build'].dockerfile))).toBe(true);
    }
    const script = compose['services'].secrets.command[1] as string;
    for (const [, each] of ours) {
      const files = Object.entries<string>(each['environment']).filter(([name]) => name.endsWith('_FILE'));
      for (const [, file] of files) expect(script).toContain(`'${file.replace('/run/secrets/', '')}'`);
    }
  });
});
