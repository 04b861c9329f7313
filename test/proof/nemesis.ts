// What is done to a running house: its processes killed, stalled and restarted, its connections cut, delayed and left half-open.
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { openPool, seeing } from '../../services/platform/postgres.ts';
import type { House } from '../house.ts';
import type { OwnKafka } from '../kafka.ts';
import type { OwnServer } from '../server.ts';
import type { Chance } from './chance.ts';
import type { Wires } from './wires.ts';

/** Everything that can be broken. */
export interface Stage {
  house: House;
  server: OwnServer;
  /** Null where events go over gRPC. */
  kafka: OwnKafka | null;
  wires: Wires;
  /** Tenants' ids as UUIDs. */
  tenants: string[];
  /** Seconds that a process is stalled, least and most. */
  stallSeconds: [number, number];
}

/** What the clients may suffer from a fault: of the tenants it is about (undefined: all) seconds of silence, and of the others none. */
export interface Suffering {
  /** UUIDs. */
  tenants?: string[];
  limitSeconds?: number;
}

/** A fault: strikes, lasts, and is mended when it resolves. */
export interface Fault {
  name: string;
  /** Faults of one target are never there at once; null: nothing else is. */
  target: string | null;
  run(chance: Chance): Promise<Suffering>;
}

/** What a client of a ledger of two may notice. */
const replicaLimit = 5;

/** All faults of a stage. */
export function faultsOf(stage: Stage): Fault[] {
  const { house, server, kafka, wires } = stage;
  const processes = ['gateway', 'identity', 'ledger', 'ledger-2', 'notifier', 'notifier-2'];
  return [
    ...processes.flatMap((name) => processFaults(stage, name)),
    {
      name: 'kill postgres',
      target: 'postgres',
      run: async () => {
        const began = performance.now();
        await server.signal('SIGQUIT');
        await server.start();
        return { limitSeconds: (performance.now() - began) / 1000 + 5 };
      },
    },
    stall('postgres', stage, (signal) => server.signal(signal)),
    ...(kafka ? kafkaFaults(stage, kafka) : []),
    ...wires.names.flatMap((name) => wireFaults(wires, name)),
    headHeld(stage),
    {
      name: 'rolling restart',
      target: null,
      run: async () => {
        for (const name of processes) await up(house, name);
        return {};
      },
    },
  ];
}

function processFaults(stage: Stage, name: string): Fault[] {
  const { house } = stage;
  const suffering = name.startsWith('ledger') ? { limitSeconds: replicaLimit } : {};
  const kill: Fault = {
    name: `kill ${name}`,
    target: name,
    run: async (chance) => {
      const away = chance.whole(0, 3_000);
      await house.kill(name);
      await pause(away);
      await up(house, name);
      return suffering;
    },
  };
  const stalled = stall(name, stage, (signal) => house.kill(name, signal));
  return [kill, { ...stalled, run: async (chance) => ({ ...(await stalled.run(chance)), ...suffering }) }];
}

function stall(name: string, { stallSeconds }: Stage, signal: (signal: 'SIGSTOP' | 'SIGCONT') => Promise<void>): Fault {
  return {
    name: `stall ${name}`,
    target: name,
    run: async (chance) => {
      const [least, most] = stallSeconds;
      const ms = chance.whole(least * 1000, most * 1000);
      await signal('SIGSTOP');
      try {
        await pause(ms);
      } finally {
        await signal('SIGCONT');
      }
      return {};
    },
  };
}

function kafkaFaults(stage: Stage, kafka: OwnKafka): Fault[] {
  return [
    {
      name: 'kill kafka',
      target: 'kafka',
      run: async () => {
        await kafka.signal('SIGKILL');
        await kafka.start();
        return {};
      },
    },
    stall('kafka', stage, (signal) => kafka.signal(signal)),
  ];
}

function wireFaults(wires: Wires, name: string): Fault[] {
  const proxies = wires.of(name);
  return [
    {
      name: `cut ${name}`,
      target: name,
      run: async (chance) => {
        for (let times = chance.whole(5, 15); times > 0; times--) {
          for (const proxy of proxies) proxy.cut();
          await pause(chance.whole(20, 600));
        }
        return {};
      },
    },
    {
      name: `delay ${name}`,
      target: name,
      run: async (chance) => {
        const ms = chance.whole(20, 300);
        for (const proxy of proxies) proxy.delay(ms);
        await pause(chance.whole(4_000, 8_000));
        for (const proxy of proxies) proxy.delay(0);
        return {};
      },
    },
    {
      name: `half-open ${name}`,
      target: name,
      run: async (chance) => {
        // Nobody is ever told: what hangs on such a connection has to notice by itself, while others work.
        for (const proxy of proxies) proxy.forget();
        await pause(chance.whole(4_000, 8_000));
        return {};
      },
    },
    {
      name: `isolate ${name}`,
      target: name,
      run: async (chance) => {
        // Of several replicas one is out of reach.
        const proxy = chance.shuffled(proxies)[0]!;
        proxy.isolate(true);
        await pause(chance.whole(8_000, 20_000));
        proxy.isolate(false);
        return {};
      },
    },
  ];
}

/** A ledger that stalls between locking a tenant's head and its commit, as PostgreSQL sees it: a session with the same time-outs. */
function headHeld({ house, tenants }: Stage): Fault {
  return {
    name: 'hold a head',
    target: null,
    run: async (chance) => {
      const tenant = chance.shuffled(tenants)[0]!;
      const logger = pino({ level: 'silent' });
      const pool = openPool(house.databases.ledger.serviceUrl, { name: 'nemesis', max: 1, logger });
      const client = await pool.connect();
      const lost = new Promise<void>((done) => client.once('end', done));
      try {
        await client.query('begin');
        await client.query(seeing([tenant]));
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
}

/** Ends a process that runs and starts it, again and again where it can't start: what it needs may be away at the moment. */
async function up(house: House, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await house.restart(name);
      return;
    } catch (error) {
      if (attempt === 3) throw error;
    }
  }
}
