// Many clients at once against one cluster with two ledgers: they post, repeat, reverse, read and hang up; what they were told is checked afterwards.
import { createHash } from 'node:crypto';
import pg from 'pg';
import { toId, toUuid } from '../../services/platform/ids.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { Recorder, drawFrom } from './crowd.ts';
import { ApiClients } from './api-clients.ts';
import { faultsOf, type History } from './history.ts';
import type { Task } from './task.ts';

/** Computes every hash of a tenant's log again, from the stored bytes; answers where one is not what it should be. */
async function chainFaults(books: pg.Pool, tenantId: string): Promise<string[]> {
  const sha = (...parts: (Buffer | string)[]) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
  const { rows } = await books.query(
    `select sequence::int, event_id, type, round(extract(epoch from created_at) * 1000)::float8 as ms, actor, request_id, payload, hash
     from log where tenant_id = $1 order by sequence`,
    [toUuid('tenant', tenantId)],
  );
  let before: Buffer = Buffer.alloc(32);
  return rows.flatMap((row) => {
    const header = JSON.stringify([tenantId, row.sequence, toId('evt', row.event_id), row.type, row.ms, row.actor, row.request_id]);
    const right = sha(before, sha(header), sha(row.payload as Buffer));
    before = row.hash;
    return right.equals(row.hash as Buffer) ? [] : [`event ${row.sequence} has another hash than its bytes`];
  });
}

/** A cluster with two ledgers for histories. */
export async function startCrowd(): Promise<{ cluster: Cluster; run: (round: Round) => Promise<Outcome>; close: () => Promise<void> }> {
  const cluster = await startCluster({ ledgers: 2 });
  const books = new pg.Pool({ connectionString: cluster.databases.ledger.adminUrl, max: 2 });
  books.on('error', () => undefined);
  const doors = new ApiClients(cluster);
  return {
    cluster,
    async run({ seed, clients, seconds }) {
      const recorders = await Promise.all(
        [0, 1].map(async () => {
          const tenant = await cluster.tenant();
          const recorder = new Recorder(doors, tenant, await cluster.apiKey(tenant));
          await recorder.prepare();
          return { tenant, recorder };
        }),
      );
      const until = performance.now() + seconds * 1000;
      // Most work on one tenant, so that both ledgers want the same books.
      const work = Array.from({ length: clients }, (_, client) =>
        recorders[client % 4 === 3 ? 1 : 0]!.recorder.work(client, drawFrom(seed * 1_000 + client), until),
      );
      await Promise.all(work);
      const outcome: Outcome = { histories: [], faults: [], ops: 0, unanswered: 0, events: 0, replays: 0, refusals: new Map() };
      let unserved = 0;
      for (const { tenant, recorder } of recorders) {
        const history = await recorder.history();
        outcome.histories.push(history);
        outcome.faults.push(...faultsOf(history), ...(await chainFaults(books, tenant.id)));
        outcome.ops += history.ops.length;
        outcome.events += history.log.length;
        for (const { end, replayed, code } of history.ops) {
          if (end === null) outcome.unanswered++;
          if (end === null || code === 'overloaded') unserved++;
          if (replayed) outcome.replays++;
          if (code !== undefined) outcome.refusals.set(code, (outcome.refusals.get(code) ?? 0) + 1);
        }
      }
      // A cluster that serves nobody has a sound history, too.
      if (unserved * 4 > outcome.ops) outcome.faults.push(`${unserved} of ${outcome.ops} requests were not served`);
      return outcome;
    },
    async close() {
      await doors.close();
      await books.end();
      await cluster.stop();
    },
  };
}

export interface Round {
  seed: number;
  clients: number;
  seconds: number;
}

export interface Outcome {
  histories: History[];
  faults: string[];
  ops: number;
  unanswered: number;
  events: number;
  replays: number;
  refusals: Map<string, number>;
}

/** `npm run proof -- histories`: rounds of ten seconds, each with its own number of clients. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const crowd = await startCrowd();
  try {
    const until = Date.now() + minutes * 60_000;
    for (let round = 0; round === 0 || Date.now() < until; round++) {
      const own = { seed: seed + round, clients: 8 + drawFrom(seed + round)(25), seconds: Math.min(10, minutes * 60) };
      const { faults, ops, unanswered, events, replays, refusals } = await crowd.run(own);
      const refused = [...refusals].map(([code, count]) => `${code} ${count}`).join(', ');
      say(
        `seed ${own.seed}, ${own.clients} clients: ${ops} requests, ${unanswered} unanswered, ${replays} replays, ${events} events; refused: ${refused}`,
      );
      if (faults.length > 0) {
        say(`${faults.length} faults; seed ${own.seed}\n${faults.slice(0, 20).join('\n')}`);
        return false;
      }
    }
    say('every history is sound');
    return true;
  } finally {
    await crowd.close();
  }
}
