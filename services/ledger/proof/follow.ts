// A step of the trees: reads events of some tenants, checks their chain, and adds them to the tiles and to `trees`.
import { fromBinary } from '@bufbuild/protobuf';
import { BooksUnfrozenSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { bigintArray, bytesArray, plainArray, uuidArray } from '../../platform/arrays.ts';
import type { Client } from '../../platform/postgres.ts';
import { genesisHash, headerOf, linkHash, type EventType } from '../log.ts';
import { leavesOf } from './stored-tiles.ts';
import { growTiles, levelWidth, tilesToComplete, tileWidth, type TileGrowth, type TileName } from './tiles.ts';

/** What a step needs besides its connection. */
export interface StepOptions {
  /** Events of all tenants together, at most; one of each at least. */
  limit: number;
  /** Whether to wait where another process works on a tree. Without, its tenant is left out. */
  waits: boolean;
  /** The origin that follows one at which a tenant's (UUID) log was rewound. */
  nextOrigin: (tenant: string, origin: number) => Promise<number>;
}

/** What a step has done. */
export interface Stepped {
  events: number;
  /** Why a log is not what it was, by tenant. */
  problems: Map<string, string>;
}

interface TreeState {
  tenant: string;
  size: number;
  hash: Buffer;
  origin: number;
  head: number;
  head_hash: Buffer;
  /** Hashes of the events of this step. */
  added: Buffer[];
}

interface FollowedEvent {
  tenant: string;
  sequence: bigint;
  eventId: string;
  type: EventType;
  createdMs: number;
  actor: string;
  requestId: string;
  payload_hash: Buffer;
  hash: Buffer;
  /** Of events that say of which origin the tree is. */
  payload: Buffer | null;
}

/** Follows the logs of tenants (UUIDs), for a caller whose SQL transaction sees their rows. Frozen ones are left out. */
export async function followLogs(client: Client, tenants: string[], options: StepOptions): Promise<Stepped> {
  const states = await lockedTrees(client, tenants, options.waits);
  const { rows: events } = await client.query<FollowedEvent>({
    name: 'events_to_follow',
    // The hash of what was posted outlives a redaction.
    text: `select l.tenant_id as tenant, l.sequence, l.event_id as "eventId", l.type, l.created_ms as "createdMs", l.actor, l.request_id as "requestId",
        coalesce(r.payload_hash, sha256(l.payload)) as payload_hash, l.hash, case l.type when 'books.unfrozen' then l.payload end as payload
      from unnest($1::uuid[], $2::bigint[]) as tree (tenant_id, size) cross join lateral (
        select *, (extract(epoch from created_at) * 1000)::float8 as created_ms
        from log where log.tenant_id = tree.tenant_id and log.sequence > tree.size order by log.sequence limit $3) l
      left join redactions r on r.tenant_id = l.tenant_id and r.sequence = l.sequence
      order by l.tenant_id, l.sequence`,
    values: [
      uuidArray(states.map(({ tenant }) => tenant)),
      bigintArray(states.map(({ size }) => BigInt(size))),
      Math.max(1, Math.floor(options.limit / Math.max(1, states.length))),
    ],
  });
  const byTenant = Map.groupBy(events, ({ tenant }) => tenant);
  const problems = new Map<string, string>();
  for (const state of states) {
    const problem = await followEvents(state, byTenant.get(state.tenant) ?? [], options);
    if (problem !== undefined) problems.set(state.tenant, problem);
  }
  const moved = states.filter(({ added }) => added.length > 0);
  const damaged = await growLevels(client, moved);
  for (const [tenant, problem] of damaged) problems.set(tenant, problem);
  await keepTrees(
    client,
    moved.filter(({ tenant }) => !damaged.has(tenant)),
  );
  return { events: events.length, problems };
}

/** Where the trees of those tenants are that this transaction may work on until it ends. */
async function lockedTrees(client: Client, tenants: string[], waits: boolean): Promise<TreeState[]> {
  // A deletion of a tenant waits for this, or has removed the head.
  const { rows: locked } = await client.query<{ tenant_id: string }>({
    name: waits ? 'wait_for_trees' : 'lock_trees',
    text: waits
      ? `select tenant_id, pg_advisory_xact_lock_shared(hashtextextended('delete ' || tenant_id, 0)),
          pg_advisory_xact_lock(hashtextextended('tree ' || tenant_id, 0)) from unnest($1::uuid[]) as tenant_id`
      : `select tenant_id from unnest($1::uuid[]) as tenant_id
          where pg_try_advisory_xact_lock_shared(hashtextextended('delete ' || tenant_id, 0))
            and pg_try_advisory_xact_lock(hashtextextended('tree ' || tenant_id, 0))`,
    values: [uuidArray(tenants)],
  });
  const { rows } = await client.query<Omit<TreeState, 'added'>>({
    name: 'tree_states',
    text: `select h.tenant_id as tenant, coalesce(t.size, 0)::float8 as size, coalesce(t.hash, $2) as hash, coalesce(t.origin, 1) as origin,
        h.sequence::float8 as head, h.hash as head_hash
      from unnest($1::uuid[]) as wanted (tenant_id) join heads h on h.tenant_id = wanted.tenant_id
        left join trees t on t.tenant_id = wanted.tenant_id
      where h.frozen_at is null`,
    values: [uuidArray(locked.map((row) => row.tenant_id)), genesisHash],
  });
  return rows.map((row) => ({ ...row, added: [] }));
}

/** Moves a state along its events. Returns what is wrong with the first that does not follow. */
async function followEvents(state: TreeState, events: FollowedEvent[], { nextOrigin }: StepOptions): Promise<string | undefined> {
  if (state.head < state.size) return `the log ends at event ${state.head}, and its tree has ${state.size}`;
  if (events.length === 0 && state.head > state.size) return `event ${state.size + 1} is missing in the log`;
  for (const event of events) {
    const { sequence, payload_hash: payloadHash, hash, payload } = event;
    if (Number(sequence) !== state.size + 1) return `event ${state.size + 1} is missing in the log`;
    if (!linkHash(state.hash, headerOf(event), payloadHash).equals(hash))
      return `event ${sequence}: its hash does not follow from its content and from the event before`;
    if (Number(sequence) === state.head && !hash.equals(state.head_hash))
      return `event ${sequence}: its hash is not that of the log's head`;
    if (payload && fromBinary(BooksUnfrozenSchema, payload).rewound) state.origin = await nextOrigin(state.tenant, state.origin);
    state.size += 1;
    state.hash = hash;
    state.added.push(hash);
  }
  return undefined;
}

/** Adds the hashes of complete tiles to those of the next level. Returns which trees have a tile that is not what it was. */
async function growLevels(client: Client, states: TreeState[]): Promise<Map<string, string>> {
  const growing = states.flatMap(({ tenant, size: to, added }) => {
    const size = to - added.length;
    return levelWidth(1, to) > levelWidth(1, size) ? [{ tenant, size, added, names: tilesToComplete(size, to) }] : [];
  });
  const damaged = new Map<string, string>();
  if (growing.length === 0) return damaged;
  const begun = await readIncomplete(client, growing);
  const growths = growing.flatMap(({ tenant, size, added, names }) => {
    const tiles = names.map(({ level, position }) => begun.get(`${tenant}/${level}/${position}`) ?? Buffer.alloc(0));
    const wrong = names.find(({ level }, index) => tiles[index]?.length !== 32 * (levelWidth(level, size) % tileWidth));
    if (wrong) damaged.set(tenant, `tile ${wrong.level}/${wrong.position} of the tree is not what it was`);
    return wrong ? [] : growTiles(size, leavesOf(Buffer.concat(added)), tiles).map((growth) => ({ tenant, ...growth }));
  });
  await addGrowths(client, growths);
  return damaged;
}

/** Tiles that become complete, by `<tenant>/<level>/<position>`. */
async function readIncomplete(
  client: Client,
  growing: { tenant: string; size: number; names: TileName[] }[],
): Promise<Map<string, Buffer>> {
  const names = growing.flatMap(({ tenant, size, names: ofTenant }) => ofTenant.map((name) => ({ tenant, size, ...name })));
  const higher = names.filter(({ level }) => level > 0);
  const lowest = names.filter(({ level }) => level === 0);
  const [{ rows: entries }, { rows: tiles }] = await Promise.all([
    client.query<{ name: string; hashes: Buffer }>({
      name: 'incomplete_entries',
      text: `select tree.tenant_id || '/0/' || tree.first / ${tileWidth} as name, hashes
        from unnest($1::uuid[], $2::bigint[], $3::bigint[]) as tree (tenant_id, first, size) cross join lateral (
          select string_agg(hash::bytea, '' order by sequence) as hashes from (
            select sequence, hash from log where tenant_id = tree.tenant_id and sequence > tree.first
            order by sequence limit tree.size - tree.first) l) begun
        where hashes is not null`,
      values: [
        uuidArray(lowest.map(({ tenant }) => tenant)),
        bigintArray(lowest.map(({ position }) => BigInt(position * tileWidth))),
        bigintArray(lowest.map(({ size }) => BigInt(size))),
      ],
    }),
    client.query<{ name: string; hashes: Buffer }>({
      name: 'incomplete_tiles',
      text: `select t.tenant_id || '/' || t.level || '/' || t.position as name, t.hashes
        from unnest($1::uuid[], $2::smallint[], $3::bigint[]) as wanted (tenant_id, level, position)
          join tiles t on t.tenant_id = wanted.tenant_id and t.level = wanted.level and t.position = wanted.position`,
      values: [
        uuidArray(higher.map(({ tenant }) => tenant)),
        plainArray(higher.map(({ level }) => level)),
        bigintArray(higher.map(({ position }) => BigInt(position))),
      ],
    }),
  ]);
  return new Map([
    ...entries.map(({ name, hashes }) => [name, leavesOf(hashes)] as const),
    ...tiles.map(({ name, hashes }) => [name, hashes] as const),
  ]);
}

async function addGrowths(client: Client, growths: (TileGrowth & { tenant: string })[]): Promise<void> {
  await client.query({
    name: 'grow_tiles',
    text: `insert into tiles (tenant_id, level, position, hashes)
      select tenant_id, level, position, hashes from unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bytea[]) as row (tenant_id, level, position, hashes)
      on conflict (tenant_id, level, position) do update set hashes = tiles.hashes || excluded.hashes`,
    values: [
      uuidArray(growths.map(({ tenant }) => tenant)),
      plainArray(growths.map(({ level }) => level)),
      bigintArray(growths.map(({ position }) => BigInt(position))),
      bytesArray(growths.map(({ hashes }) => hashes)),
    ],
  });
}

async function keepTrees(client: Client, states: TreeState[]): Promise<void> {
  if (states.length === 0) return;
  await client.query({
    name: 'keep_trees',
    text: `insert into trees (tenant_id, size, hash, origin)
      select tenant_id, size, hash, origin from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::int[]) as row (tenant_id, size, hash, origin)
      on conflict (tenant_id) do update set size = excluded.size, hash = excluded.hash, origin = excluded.origin`,
    values: [
      uuidArray(states.map(({ tenant }) => tenant)),
      bigintArray(states.map(({ size }) => BigInt(size))),
      bytesArray(states.map(({ hash }) => hash)),
      plainArray(states.map(({ origin }) => origin)),
    ],
  });
}
