// What is done to a running cluster: its processes killed, stalled and restarted, its connections cut, delayed and left half-open, its disk
// filled, its clocks set.
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { toUuid } from '../../services/platform/ids.ts';
import { openPool, setTenants } from '../../services/platform/postgres.ts';
import type { Cluster } from '../cluster.ts';
import { clockFaults } from './clocks.ts';
import { diskFaults } from './full-disk.ts';
import { lastingMs, processes, replicas, type Fault, type Means, type Stage } from './stage.ts';
import { wayNames } from './wires.ts';

/** What a client of a ledger of two may notice. */
const replicaLimit = 5;

/** All faults that these means allow. */
export function faultsOf(means: Means): Fault[] {
  return [
    ...processes.flatMap(processFaults),
    {
      name: 'kill postgres',
      target: 'postgres',
      run: async ({ server }) => {
        const began = performance.now();
        await server.signal('SIGQUIT');
        await server.start();
        return { limitSeconds: (performance.now() - began) / 1000 + 5 };
      },
    },
    {
      name: 'fail over postgres',
      target: 'postgres',
      run: async ({ server }) => ({ limitSeconds: (await server.failOver()) / 1000 + 5 }),
    },
    stall('postgres', ({ server }, signal) => server.signal(signal)),
    ...(means.disk ? diskFaults : []),
    ...(means.clocks ? clockFaults : []),
    ...(means.kafka ? kafkaFaults : []),
    ...wayNames(replicas, !means.kafka).flatMap(wireFaults),
    headHeld,
    {
      name: 'rolling restart',
      target: null,
      run: async ({ cluster }) => {
        for (const name of processes) await up(cluster, name);
        return {};
      },
    },
  ];
}

function processFaults(name: string): Fault[] {
  const suffering = name.startsWith('ledger') ? { limitSeconds: replicaLimit } : {};
  const kill: Fault = {
    name: `kill ${name}`,
    target: name,
    run: async ({ cluster }, chance) => {
      const away = chance.whole(0, 3_000);
      await cluster.kill(name);
      await pause(away);
      await up(cluster, name);
      return suffering;
    },
  };
  const stalled = stall(name, ({ cluster }, signal) => cluster.kill(name, signal));
  return [kill, { ...stalled, run: async (stage, chance) => ({ ...(await stalled.run(stage, chance)), ...suffering }) }];
}

function stall(name: string, signal: (stage: Stage, signal: 'SIGSTOP' | 'SIGCONT') => Promise<void>): Fault {
  return {
    name: `stall ${name}`,
    target: name,
    run: async (stage, chance) => {
      await signal(stage, 'SIGSTOP');
      try {
        await pause(lastingMs(stage, chance));
      } finally {
        await signal(stage, 'SIGCONT');
      }
      return {};
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

function wireFaults(name: string): Fault[] {
  return [
    {
      name: `cut ${name}`,
      target: name,
      run: async ({ wires }, chance) => {
        for (let times = chance.whole(5, 15); times > 0; times--) {
          for (const proxy of wires.of(name)) proxy.cut();
          await pause(chance.whole(20, 600));
        }
        return {};
      },
    },
    {
      name: `lose answers of ${name}`,
      target: name,
      run: async ({ wires }, chance) => {
        // What was asked for is done, a commit as well, and nobody is told: the only thing that a key is for.
        const watched = wires.of(name);
        for (let times = chance.whole(5, 15); times > 0; times--) {
          for (const proxy of watched) proxy.watch = () => 'cut after';
          await pause(chance.whole(20, 300));
          for (const proxy of watched) proxy.watch = () => 'pass';
          await pause(chance.whole(20, 600));
        }
        return {};
      },
    },
    {
      name: `delay ${name}`,
      target: name,
      run: async ({ wires }, chance) => {
        const ms = chance.whole(20, 300);
        for (const proxy of wires.of(name)) proxy.delay(ms);
        await pause(chance.whole(4_000, 8_000));
        for (const proxy of wires.of(name)) proxy.delay(0);
        return {};
      },
    },
    {
      name: `half-open ${name}`,
      target: name,
      run: async ({ wires }, chance) => {
        // Nobody is ever told: what hangs on such a connection has to notice by itself, while others work.
        for (const proxy of wires.of(name)) proxy.forget();
        await pause(chance.whole(4_000, 8_000));
        return {};
      },
    },
    {
      name: `isolate ${name}`,
      target: name,
      run: async ({ wires }, chance) => {
        // Of several replicas one is out of reach.
        const proxy = chance.shuffled(wires.of(name))[0]!;
        proxy.isolate(true);
        await pause(chance.whole(8_000, 20_000));
        proxy.isolate(false);
        return {};
      },
    },
  ];
}

/** A ledger that stalls between locking a tenant's head and its commit, as PostgreSQL sees it: a session with the same time-outs. */
const headHeld: Fault = {
  name: 'hold a head',
  target: null,
  run: async ({ cluster, customers }, chance) => {
    const tenant = toUuid('tenant', chance.shuffled(customers)[0]!.tenant.id)!;
    const logger = pino({ level: 'silent' });
    const pool = openPool(cluster.databases.ledger.serviceUrl, { name: 'nemesis', max: 1, logger });
    const client = await pool.connect();
    const lost = new Promise<void>((done) => client.once('end', done));
    try {
      await client.query('begin');
      await client.query(setTenants([tenant]));
      await client.query('select from heads where tenant_id = $1 for update', [tenant]);
      // The server ends a session that holds on for longer.
      await lost;
    } finally {
      client.release(true);
      await pool.end();
    }
    return { tenants: [tenant], limitSeconds: replicaLimit };
  },
};

/** Ends a process that runs and starts it, again and again where it can't start: what it needs may be away at the moment. */
async function up(cluster: Cluster, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await cluster.restart(name);
      return;
    } catch (error) {
      if (attempt === 3) throw error;
    }
  }
}
