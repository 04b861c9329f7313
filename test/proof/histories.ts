// `npm run proof -- histories`: many clients at once post, repeat, reverse, read and hang up; afterwards their answers are checked.
import { createHash } from 'node:crypto';
import { withClient } from '../../deploy/local/databases.ts';
import { toId, toUuid } from '../../services/platform/ids.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { ApiClients } from './api-clients.ts';
import { historyFaults } from './history-check.ts';
import { Recorder } from './history-clients.ts';
import { seededRandom } from './seeded-random.ts';
import type { Task } from './task.ts';

/** Rounds of ten seconds on a cluster with two ledgers, each with its own number of clients. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const cluster = await startCluster({ ledgers: 2 });
  const clients = new ApiClients(cluster);
  try {
    const until = Date.now() + minutes * 60_000;
    for (let round = 0; round === 0 || Date.now() < until; round++) {
      const faults = await runRound(cluster, clients, { seed: seed + round, seconds: Math.min(10, minutes * 60), say });
      if (faults.length === 0) continue;
      say(`${faults.length} faults; seed ${seed + round}\n${faults.slice(0, 20).join('\n')}`);
      return false;
    }
    say('every history is right');
    return true;
  } finally {
    await clients.close();
    await cluster.stop();
  }
}

/** Runs clients against two new tenants; resolves to what is wrong. */
async function runRound(
  cluster: Cluster,
  clients: ApiClients,
  { seed, seconds, say }: { seed: number; seconds: number; say: Task['say'] },
): Promise<string[]> {
  const newRecorder = async () => {
    const tenant = await cluster.tenant();
    const recorder = new Recorder(clients, tenant, await cluster.apiKey(tenant));
    await recorder.prepare();
    return { tenant, recorder };
  };
  const recorders = [await newRecorder(), await newRecorder()];
  const count = seededRandom(seed).whole(8, 32);
  const until = performance.now() + seconds * 1000;
  // Three quarters of the work on one tenant, so that both ledgers compete for its lock.
  const work = Array.from({ length: count }, (_, client) =>
    recorders[client % 4 === 3 ? 1 : 0]!.recorder.work(client, seededRandom(seed, client + 1), until),
  );
  await Promise.all(work);
  const faults: string[] = [];
  let [calls, unserved] = [0, 0];
  for (const { tenant, recorder } of recorders) {
    const history = await recorder.history();
    faults.push(...historyFaults(history), ...(await chainFaults(cluster, tenant.id)));
    calls += history.ops.length;
    unserved += history.ops.filter(({ end, code }) => end === null || code === 'overloaded').length;
  }
  say(`seed ${seed}, ${count} clients: ${calls} calls, ${unserved} without an answer`);
  // A cluster that serves no calls would have a right history, too.
  if (unserved * 4 > calls) faults.push(`${unserved} of ${calls} calls were not served`);
  return faults;
}

/** Computes every hash of a tenant's log from the stored bytes. */
async function chainFaults({ databases }: Cluster, tenantId: string): Promise<string[]> {
  const sha = (...parts: (Buffer | string)[]) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
  const { rows } = await withClient(databases.ledger.adminUrl, (client) =>
    client.query(
      `select sequence::int, event_id, type, round(extract(epoch from created_at) * 1000)::float8 as ms, actor, request_id, payload, hash
       from log where tenant_id = $1 order by sequence`,
      [toUuid('tenant', tenantId)],
    ),
  );
  let before: Buffer = Buffer.alloc(32);
  return rows.flatMap((row) => {
    const header = JSON.stringify([tenantId, row.sequence, toId('evt', row.event_id), row.type, row.ms, row.actor, row.request_id]);
    const right = sha(before, sha(header), sha(row.payload as Buffer));
    before = row.hash;
    return right.equals(row.hash as Buffer) ? [] : [`event ${row.sequence} has another hash than its bytes`];
  });
}
