// The faults: processes killed, stalled and restarted, connections cut, delayed and left half-open, a lock kept, a disk filled.
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { withClient } from '../../../deploy/local/databases.ts';
import { toUuid } from '../../../services/platform/ids.ts';
import type { Cluster } from '../../cluster.ts';
import type { OwnPostgres } from '../../own-postgres.ts';
import { routeNames } from './proxies.ts';
import { durationMs, processes, replicas, type Fault, type Impact, type Setup, type TestBench } from './test-bench.ts';

/** With two ledgers, clients may go without an answer for so many seconds. */
const replicaLimitSeconds = 5;
/** PostgreSQL must be back so many seconds after its disk has space again. */
const recoverySeconds = 60;

/** All faults that this setup allows. */
export function faultsOf({ kafka, disk }: Setup): Fault[] {
  return [
    ...processes.flatMap(processFaults),
    {
      name: 'kill postgres',
      target: 'postgres',
      run: async ({ postgres }) => {
        const began = performance.now();
        await postgres.signal('SIGQUIT');
        await postgres.start();
        return { limitSeconds: (performance.now() - began) / 1000 + 5 };
      },
    },
    {
      name: 'fail over postgres',
      target: 'postgres',
      run: async ({ postgres }) => ({ limitSeconds: (await postgres.failOver()) / 1000 + 5 }),
    },
    stall('postgres', ({ postgres }, signal) => postgres.signal(signal)),
    ...(disk ? diskFaults : []),
    ...(kafka ? kafkaFaults : []),
    ...routeNames(replicas, !kafka).flatMap(connectionFaults),
    lockedHead,
    {
      name: 'rolling restart',
      target: null,
      run: async ({ cluster }) => {
        for (const name of processes) await restart(cluster, name);
        return {};
      },
    },
  ];
}

function processFaults(name: string): Fault[] {
  const impact = name.startsWith('ledger') ? { limitSeconds: replicaLimitSeconds } : {};
  const kill: Fault = {
    name: `kill ${name}`,
    target: name,
    run: async ({ cluster }, random) => {
      const downMs = random.whole(0, 3_000);
      await cluster.kill(name);
      await pause(downMs);
      await restart(cluster, name);
      return impact;
    },
  };
  return [kill, stall(name, ({ cluster }, signal) => cluster.kill(name, signal), impact)];
}

function stall(name: string, signal: (bench: TestBench, signal: 'SIGSTOP' | 'SIGCONT') => Promise<void>, impact: Impact = {}): Fault {
  return {
    name: `stall ${name}`,
    target: name,
    run: async (bench, random) => {
      await signal(bench, 'SIGSTOP');
      try {
        await pause(durationMs(bench, random));
      } finally {
        await signal(bench, 'SIGCONT');
      }
      return impact;
    },
  };
}

const kafkaFaults: Fault[] = [
  {
    name: 'kill kafka',
    target: 'kafka',
    run: async ({ kafka }) => {
      await kafka?.signal('SIGKILL');
      await kafka?.start();
      return {};
    },
  },
  stall('kafka', async ({ kafka }, signal) => kafka?.signal(signal)),
];

function connectionFaults(route: string): Fault[] {
  const fault = (kind: string, run: Fault['run']): Fault => ({ name: `${kind} ${route}`, target: route, run });
  return [
    fault('cut', async ({ proxies }, random) => {
      for (let times = random.whole(5, 15); times > 0; times--) {
        for (const proxy of proxies.of(route)) proxy.cut();
        await pause(random.whole(20, 600));
      }
      return {};
    }),
    // The request, a commit too, is executed and its answer lost: what idempotency keys are for.
    fault('lose answers of', async ({ proxies }, random) => {
      const watched = proxies.of(route);
      for (let times = random.whole(5, 15); times > 0; times--) {
        for (const proxy of watched) proxy.watch = () => 'cut after';
        await pause(random.whole(20, 300));
        for (const proxy of watched) proxy.watch = () => 'pass';
        await pause(random.whole(20, 600));
      }
      return {};
    }),
    fault('delay', async ({ proxies }, random) => {
      const ms = random.whole(20, 300);
      for (const proxy of proxies.of(route)) proxy.delay(ms);
      await pause(random.whole(4_000, 8_000));
      for (const proxy of proxies.of(route)) proxy.delay(0);
      return {};
    }),
    fault('half-open', async ({ proxies }, random) => {
      for (const proxy of proxies.of(route)) proxy.forget();
      await pause(random.whole(4_000, 8_000));
      return {};
    }),
    fault('isolate', async ({ proxies }, random) => {
      // One of several replicas.
      const proxy = random.pick(proxies.of(route));
      proxy.isolate(true);
      await pause(random.whole(8_000, 20_000));
      proxy.isolate(false);
      return {};
    }),
  ];
}

/** A ledger that stops between locking a tenant's head and its commit: PostgreSQL must end its session. */
const lockedHead: Fault = {
  name: 'lock a head',
  target: null,
  run: async ({ cluster, customers }, random) => {
    const tenant = toUuid('tenant', random.pick(customers).tenant.id)!;
    const client = new pg.Client({ connectionString: cluster.databases.ledger.adminUrl });
    await client.connect();
    const ended = new Promise<void>((done) => client.once('end', done).on('error', () => undefined));
    // As every session of a ledger.
    await client.query(`set idle_in_transaction_session_timeout = '3s'`);
    await client.query('begin');
    await client.query('select from heads where tenant_id = $1 for update', [tenant]);
    await ended;
    return { tenants: [tenant], limitSeconds: replicaLimitSeconds };
  },
};

const diskFaults: Fault[] = [
  // Tables cannot grow, so writes are refused (SQLSTATE 53100) and reads go on.
  {
    name: 'fill disk',
    target: null,
    run: async (bench, random) => {
      const { cluster, postgres, customers } = bench;
      const wrong: string[] = [];
      postgres.disk?.fill();
      try {
        await pause(durationMs(bench, random));
        const { tenant, key } = customers[0]!;
        const path = `/v1/tenants/${tenant.slug}/accounts/code/SETTLEMENT-NGN/balance`;
        const { status } = await cluster.rest('GET', path, { key });
        // A vacuum can use up the write-ahead log's last space; then the server ends itself.
        if (status !== 200 && (await isUp(postgres))) wrong.push(`the disk is full, and a balance is answered ${status}`);
      } finally {
        postgres.disk?.free();
      }
      await bringUp(postgres);
      return { wrong };
    },
  },
];

async function bringUp(postgres: OwnPostgres): Promise<void> {
  for (const until = performance.now() + recoverySeconds * 1000; !(await isUp(postgres)); await pause(200)) {
    if (performance.now() > until) throw new Error(`the disk has space again, and PostgreSQL is not up within ${recoverySeconds} s`);
    if (!postgres.running()) await postgres.start().catch(() => undefined);
  }
}

async function isUp({ adminUrl }: OwnPostgres): Promise<boolean> {
  return withClient(adminUrl, (client) => client.query('select 1')).then(
    () => true,
    () => false,
  );
}

/** Restarts a process; tries again where what it needs is down at the moment. */
async function restart(cluster: Cluster, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await cluster.restart(name);
      return;
    } catch (error) {
      if (attempt === 3) throw error;
    }
  }
}
