// `npm run restore-drill`: a base backup and the archived log of a server in use, its restore to a moment, and a check of each promise after it.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { kafkaProblem } from '../../../deploy/local/broker.ts';
import { withClient } from '../../../deploy/local/databases.ts';
import { newPassword } from '../../../deploy/local/secrets.ts';
import { testPort } from '../../cluster.ts';
import { toId } from '../../../services/platform/ids.ts';
import { kafkaBrokers } from '../../kafka.ts';
import { currentRun } from '../../run.ts';
import { UsageError, type Task } from '../task.ts';
import { installedPrograms, startArchivingServer, type ArchivingServer } from './archiving-server.ts';
import { deliveryFaults, idOf, keptFaults, lostFaults, repeatFaults, split, sumFaults } from './comparison.ts';
import { Deployment, type Poster } from './deployment.ts';
import { Forgotten } from './forgotten.ts';
import { Traffic, type Sent } from './traffic.ts';

interface Drill {
  server: ArchivingServer;
  deployment: Deployment;
  /** Where heads are kept. */
  directory: string;
  say: (line: string) => void;
  /** Takes what a check found: nothing, or what is wrong, one line each. */
  report: (what: string, faults: string[]) => void;
}

/** Runs the drill. */
export async function prove({ say }: Pick<Task, 'say'>): Promise<boolean> {
  const programs = installedPrograms();
  if (programs === null)
    throw new UsageError('this needs the programs of a PostgreSQL server, such as those of the package postgresql of Debian');
  let wrong = 0;
  const report = (what: string, faults: string[]) => {
    wrong += faults.length;
    say(`${faults.length === 0 ? 'ok   ' : 'WRONG'} ${what}`);
    for (const fault of faults.slice(0, 10)) say(`      ${fault}`);
  };
  const directory = mkdtempSync(join(currentRun().directory, 'restore-'));
  const place = join(directory, 'server');
  mkdirSync(place);
  const server = await startArchivingServer(programs, { directory: place, port: await testPort(), password: newPassword() });
  try {
    const noKafka = process.env['KAFKA_BROKERS'] === undefined ? kafkaProblem() : null;
    const brokers = noKafka === null ? await kafkaBrokers() : undefined;
    say(
      `PostgreSQL ${server.version} of ${programs} archives its log; events travel over ${noKafka === null ? 'Kafka' : `gRPC (${noKafka})`}`,
    );
    const deployment = await Deployment.start(server.adminUrl, brokers);
    try {
      await run({ server, deployment, directory, say, report });
    } finally {
      await deployment.end();
    }
  } finally {
    await server.end();
  }
  say(wrong === 0 ? 'the drill has succeeded' : `the drill has failed: ${wrong} findings`);
  return wrong === 0;
}

async function run(drill: Drill): Promise<void> {
  const { server, deployment, say, report } = drill;
  const [quiet, first, second] = [await deployment.tenant(), await deployment.tenant(), await deployment.tenant()];
  const busy = [first, second];
  const early = new Traffic(deployment, [quiet], 1);
  await early.answered(5);
  await early.end();
  const forgotten = new Forgotten(deployment, first);
  await forgotten.prepare();
  const traffic = new Traffic(deployment, busy, 2);
  const moment = await backUp(drill, traffic, () => forgotten.change());
  await server.lose();
  await traffic.end();
  await deployment.stop();
  const all = [...early.sent, ...traffic.sent];
  const { kept, lost, either } = split(all);
  const gone = new Set(lost.map(({ transaction }) => String(transaction?.transaction_id)));
  const received = deployment.receiver.received.length;
  say(
    `the server is lost: ${kept.length} postings were answered before ${moment}, ${lost.length} sent after it, ${either.length} on the way`,
  );

  await server.restore(moment);
  say(`restored to ${moment}`);
  report('migrate finds roles and schemas', deployment.migrate());
  checkLogs(drill, busy);
  if (deployment.hasTopic) publishAgain(drill);
  await deployment.restart();
  say(`all processes are ready${deployment.hasTopic ? ', on a new topic' : ''}`);
  report(`none of the ${lost.length} postings that were sent after the moment is there`, await lostFaults(deployment, lost));
  report(`each of the ${kept.length} keys answered before the moment is answered with the same record`, await keptFaults(deployment, kept));
  report('a key revoked later works again, a key made later does not, a subject erased later can be read', await forgotten.faults());
  await unfreeze(drill, { quiet, busy }, (poster) => lost.filter((each) => each.poster === poster));
  const again = await repeatFaults(deployment, [...either, ...lost]);
  for (const poster of [quiet, ...busy]) again.push(...(await sumFaults(deployment, poster, all)));
  report('clients repeat what is missing under its keys, and each posting is there once', again);
  report('revoking and erasing again is all that is needed', await forgotten.repeat());
  const faults = () => deliveryFaults(deployment.receiver.received, received, { present: all, gone });
  for (const end = Date.now() + 30_000; faults().length > 0 && Date.now() < end;) await pause(100);
  report('each posting that is there was delivered, none that is gone was delivered again', faults());
  const known = new Set(deployment.receiver.received.slice(0, received).map(({ headers }) => headers['x-webhook-id']));
  const twice = deployment.receiver.received.slice(received).filter(({ headers }) => known.has(headers['x-webhook-id'])).length;
  say(`${twice} deliveries came again, under their ids; receivers know of ${gone.size} transactions that are gone`);
  report(
    'nothing differs in the end',
    [['verify'], ['rebuild', '--check']].flatMap((args) => failed(deployment.ledger(...args))),
  );
}

/** Makes backup and archive while clients post; answers the moment to restore. */
async function backUp(
  { server, deployment, directory, say, report }: Drill,
  traffic: Traffic,
  change: () => Promise<void>,
): Promise<string> {
  await traffic.answered(20);
  await server.baseBackup();
  say('a base backup is made and verified, while clients post');
  await traffic.answered(20);
  const keep = (name: string) => {
    const { output, status } = deployment.ledger('heads');
    writeFileSync(join(directory, name), output);
    return status === 0 ? [] : [output];
  };
  const kept = keep('heads-before');
  const moment = await traffic.atMoment(() => server.now());
  await traffic.answered(20);
  await change();
  report('heads are kept before the moment and after it', [...kept, ...keep('heads-after')]);
  // Receivers and checkpoints know of postings that will be gone.
  const seen = traffic.sent.filter(({ sentAfter, transaction }) => sentAfter && transaction !== undefined);
  await until(() => seen.every((one) => deployment.receiver.received.some(({ body }) => body.includes(idOf(one)))));
  await until(async () => {
    const signed = await signedSizes(deployment);
    return seen.every(({ poster, transaction }) => (signed.get(poster.tenant.id) ?? 0) >= transaction.sequence);
  });
  await server.archive();
  return moment;
}

/** Events that the newest checkpoint of each tenant has signed. */
async function signedSizes({ cluster }: Deployment): Promise<Map<string, number>> {
  return withClient(cluster.databases.ledger.adminUrl, async (client) => {
    const { rows } = await client.query<{ tenant_id: string; size: number }>(
      'select tenant_id, max(size)::float8 as size from checkpoints group by tenant_id',
    );
    return new Map(rows.map((row) => [toId('tenant', row.tenant_id), row.size]));
  });
}

/** The operator's commands on what was restored, before anything is started. */
function checkLogs({ deployment, directory, report }: Drill, busy: Poster[]): void {
  report(
    'verify finds nothing, and every head that was kept before the moment',
    failed(deployment.ledger('verify', '--heads', join(directory, 'heads-before'))),
  );
  const { output, status } = deployment.ledger('verify', '--heads', join(directory, 'heads-after'));
  const unnamed = busy.filter(({ tenant }) => !new RegExp(`${tenant.id}.* is missing: the log ends at `).test(output));
  report(
    'heads that were kept after it name the tenants that lost events',
    status === 1 && unnamed.length === 0 ? [] : [`status ${status}, without ${unnamed.map(({ slug }) => slug).join(', ')}: ${output}`],
  );
  report('every table is what its log says', failed(deployment.ledger('rebuild', '--check')));
}

/** The new topic lacks what was published before the moment and had not been consumed at it. */
function publishAgain({ deployment, report }: Drill): void {
  report('all events are published again', failed(deployment.ledger('relay', 'replay', '--all', '--from', '1')));
}

const failed = ({ output, status }: { output: string; status: number | null }) => (status === 0 ? [] : output.trimEnd().split('\n'));

/** Tenants whose signed checkpoints know more than the log are frozen with their first new event, until the operator accepts the loss. */
async function unfreeze(
  { deployment, report }: Drill,
  { quiet, busy }: { quiet: Poster; busy: Poster[] },
  lostOf: (poster: Poster) => Sent[],
): Promise<void> {
  const books = async (poster: Poster) => (await deployment.call(poster, 'GET', 'books')).books.status as string;
  for (const poster of busy) {
    const [lost] = lostOf(poster);
    const answer = await deployment.post(poster, lost?.body ?? {});
    // The auditor may have seen it before that.
    if (answer.status !== 201 && answer.body.code !== 'books_frozen')
      throw new Error(`the first posting after the restore: ${answer.status} ${JSON.stringify(answer.body)}`);
    await until(async () => (await books(poster)) === 'frozen');
  }
  report('tenants that lost signed events are frozen, the other is not', (await books(quiet)) === 'active' ? [] : ['the other is frozen']);
  for (const { tenant } of busy) {
    const args = ['--tenant', tenant.id, '--reason', 'restored to an earlier moment', '--rewound'];
    report(`${tenant.slug} can be changed again`, failed(deployment.ledger('unfreeze', ...args)));
  }
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await holds()); await pause(50))
    if (Date.now() > end) throw new Error(`not within a minute: ${String(holds)}`);
}
