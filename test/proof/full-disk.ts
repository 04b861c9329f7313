// A disk without room under PostgreSQL: tables can't grow, so statements are refused (SQLSTATE 53100) and reads go on; or the write-ahead log
// can't either, so the server ends itself and can't start until there is room.
import { setTimeout as pause } from 'node:timers/promises';
import { withClient } from '../../deploy/local/databases.ts';
import type { OwnPostgres } from '../own-postgres.ts';
import type { Chance } from './chance.ts';
import { lastingMs, type Fault, type Stage, type Suffering } from './stage.ts';

/** Until everything is as it was after there is room again, seconds. */
const recoverySeconds = 60;

/** The faults of a server on a disk of its own. Nothing else is broken meanwhile: what is answered then is judged. */
export const diskFaults: Fault[] = [
  { name: 'fill disk', target: null, run: fillTables },
  { name: 'fill disk and log', target: null, run: fillEverything },
];

async function fillTables(stage: Stage, chance: Chance): Promise<Suffering> {
  const { cluster, server, customers } = stage;
  const lasting = lastingMs(stage, chance);
  const wrong: string[] = [];
  // The log begins a new file, so that it has room for what is refused: it is the tables that are to have none.
  await withClient(server.adminUrl, (client) => client.query(`select pg_switch_wal(), pg_logical_emit_message(true, 'nemesis', 'x')`));
  server.disk?.fill();
  try {
    // The pages there are take a few postings more.
    await until(async () => (await readiness(stage)) === 503, lasting / 1000);
    await pause(lasting);
    wrong.push(...(await saysReady(stage)));
    const { tenant, key } = customers[0]!;
    const { email, password } = tenant.owner;
    const path = `/v1/tenants/${tenant.slug}`;
    // Reads go on. What writes may still find room on a page that is there.
    const calls = [
      ['GET', `${path}/accounts/code/SETTLEMENT-NGN/balance`, undefined, [200]],
      ['POST', '/v1/auth/login', { email, password }, [200, 503]],
      ['POST', `${path}/accounts`, { account_code: `FULL-${lasting}`, name: 'made on a full disk', type: 'asset' }, [201, 503]],
      ['PATCH', `${path}/webhooks`, { enabled: true }, [200, 503]],
    ] as const;
    for (const [method, where, body, expected] of calls) {
      const { status } = await cluster.rest(method, where, { key, body });
      // A vacuum may have used up what the log had left, and then the server ends itself.
      if (!expected.some((each) => each === status) && (await answers(server)))
        wrong.push(`the disk is full, and ${method} ${where} is answered ${status}`);
    }
  } finally {
    server.disk?.free();
  }
  await back(server);
  return { wrong: [...wrong, ...(await recovered(stage))] };
}

async function fillEverything(stage: Stage, chance: Chance): Promise<Suffering> {
  const { server } = stage;
  const lasting = lastingMs(stage, chance);
  const wrong: string[] = [];
  server.disk?.fill();
  try {
    await fillLog(server);
    // Whoever holds the server starts it again and again, as a supervisor does.
    for (const ending = performance.now() + lasting; performance.now() < ending; await pause(500)) {
      if (!server.running()) await server.start().catch(() => undefined);
    }
    wrong.push(...(await saysReady(stage)));
  } finally {
    server.disk?.free();
  }
  await back(server);
  return { wrong: [...wrong, ...(await recovered(stage))] };
}

/** Resolves when the server answers, which is started again where it has ended. */
async function back(server: OwnPostgres): Promise<void> {
  for (const ending = performance.now() + recoverySeconds * 1000; !(await answers(server)); await pause(200)) {
    if (performance.now() > ending) throw new Error(`there is room again, and PostgreSQL is not back within ${recoverySeconds} s`);
    if (!server.running()) await server.start().catch(() => undefined);
  }
}

/** Uses up what the server had put by for its log: resolves when it has ended its sessions for want of more. */
async function fillLog({ adminUrl }: OwnPostgres): Promise<void> {
  try {
    await withClient(adminUrl, async (client) => {
      // It keeps a few segments ready; more than these were never written.
      for (let segments = 0; segments < 400; segments++) {
        await client.query(`select pg_logical_emit_message(false, 'nemesis', 'x'), pg_switch_wal()`);
      }
    });
  } catch (error) {
    // A panic, or a connection that it has ended; a statement that is refused leaves the server as it was.
    if ((error as { severity?: unknown }).severity === 'ERROR') throw error;
    return;
  }
  throw new Error('PostgreSQL goes on writing its log to a full disk');
}

async function answers({ adminUrl }: OwnPostgres): Promise<boolean> {
  return withClient(adminUrl, (client) => client.query('select 1')).then(
    () => true,
    () => false,
  );
}

async function readiness({ cluster }: Stage): Promise<number> {
  return (await cluster.rest('GET', '/readyz')).status;
}

// A posting may still find room on the pages there are, and for some seconds none may need more.
async function saysReady(stage: Stage): Promise<string[]> {
  const isSaid = await until(async () => (await readiness(stage)) === 503, recoverySeconds);
  return isSaid ? [] : [`the disk is full, and /readyz does not say so within ${recoverySeconds} s`];
}

async function recovered(stage: Stage): Promise<string[]> {
  const isReady = await until(async () => (await readiness(stage)) === 200, recoverySeconds);
  return isReady ? [] : [`there is room again, and /readyz does not say so within ${recoverySeconds} s`];
}

async function until(holds: () => Promise<boolean>, seconds: number): Promise<boolean> {
  for (const ending = performance.now() + seconds * 1000; performance.now() < ending; await pause(100)) {
    if (await holds()) return true;
  }
  return false;
}
