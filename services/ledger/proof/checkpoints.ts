// Signs checkpoints of trees: nothing that contradicts what was signed before, in the database or in files, which freezes the tenant instead.
import type { KeyObject } from 'node:crypto';
import { tenantId } from '../../platform/ids.ts';
import { epochMs, inTransaction, readTenant, type Client, type Connections, type Statement } from '../../platform/postgres.ts';
import { Refusal } from '../accounting.ts';
import type { CheckpointFiles, SignedHead } from './checkpoint-files.ts';
import { followLogs } from './follow.ts';
import { treeRoot, type ReadSubtrees } from './merkle.ts';
import { checkpointText, keyIdText, signNote, verifierKey } from './note.ts';
import { queryOf, storedSubtrees } from './stored-tiles.ts';

/** A signed checkpoint. */
export interface Checkpoint extends SignedHead {
  /** C2SP signed note. */
  note: string;
}

/** What signing needs. */
export interface CheckpointOptions {
  /** The first part of the origin of each log. */
  origin: string;
  /** Ed25519: the first signs, the others did. */
  keys: readonly [KeyObject, ...KeyObject[]];
  files: CheckpointFiles;
  /** Freezes a tenant (UUID). */
  freeze: (tenant: string, reason: string) => Promise<unknown>;
}

/** Why a tree may not be signed. */
class Contradiction extends Error {}

/** Events that a call adds to a tree before it gives up. */
const maxBehind = 20_000;
const stepEvents = 2_000;

/** Signs trees, one at a time for each tenant. */
export class Checkpoints {
  private readonly options: CheckpointOptions;
  private readonly signing = new Map<string, Promise<Checkpoint | null>>();

  constructor(options: CheckpointOptions) {
    this.options = options;
  }

  /** The name of a log and of the keys that sign its checkpoints. */
  private nameOf(tenant: string, origin: number): string {
    return `${this.options.origin}/${tenantId(tenant)}${origin > 1 ? `/${origin}` : ''}`;
  }

  /** The keys that sign a log, and those that did: of its present origin and of earlier ones. */
  async keysOf(connections: Connections, tenant: string): Promise<{ vkey: string; retiredMs: number | undefined }[]> {
    const [rows, trees] = await readTenant<[{ origin: number; key_id: string; last_ms: number }[], { origin: number }[]]>(
      connections,
      tenant,
      {
        name: 'checkpoint_keys',
        text: `select origin, key_id, ${epochMs('max(signed_at)')} as last_ms from checkpoints where tenant_id = $1 group by 1, 2`,
        values: [tenant],
      },
      { name: 'tree_origin', text: 'select origin from trees where tenant_id = $1', values: [tenant] },
    );
    const present = trees[0]?.origin ?? 1;
    const [signing, ...retired] = this.options.keys;
    const lastMs = (origin: number, key: KeyObject) =>
      rows.find((row) => row.origin === origin && row.key_id === keyIdText(this.nameOf(tenant, origin), key))?.last_ms;
    const former = [...new Set([present, ...rows.map(({ origin }) => origin)])].flatMap((origin) =>
      [...(origin === present ? [] : [signing]), ...retired].flatMap((key) => {
        const retiredMs = lastMs(origin, key);
        return retiredMs === undefined ? [] : [{ vkey: verifierKey(this.nameOf(tenant, origin), key), retiredMs }];
      }),
    );
    return [{ vkey: verifierKey(this.nameOf(tenant, present), signing), retiredMs: undefined }, ...former];
  }

  /** The origin that follows where a log was rewound. */
  async nextOrigin(tenant: string, origin: number): Promise<number> {
    const [last] = await this.options.files.last(tenantId(tenant), 1);
    return Math.max(origin, last?.origin ?? 0) + 1;
  }

  /** What was last signed of a log, by the files. */
  async lastInFiles(tenant: string): Promise<SignedHead | undefined> {
    return (await this.options.files.last(tenantId(tenant), 1))[0];
  }

  /**
   * The newest checkpoint, of at least `size` events: it follows the log and signs where there is none yet. Null: the log is empty. Throws
   * {@link Refusal}: `books_frozen`, also where this call freezes the tenant, and `unavailable` where the tree is far behind.
   */
  cover(connections: Connections, tenant: string, size: number): Promise<Checkpoint | null> {
    const before = this.signing.get(tenant) ?? Promise.resolve(null);
    const next = before.catch(() => null).then((last) => (last && last.size >= size ? last : this.signOrFreeze(connections, tenant, size)));
    this.signing.set(tenant, next);
    const forget = () => this.signing.get(tenant) === next && this.signing.delete(tenant);
    next.then(forget, forget);
    return next;
  }

  private async signOrFreeze(connections: Connections, tenant: string, size: number): Promise<Checkpoint | null> {
    const sign = () => inTransaction(connections, [tenant], (client) => this.sign(client, tenant, size));
    try {
      const signed = await sign();
      if (signed !== 'behind') return signed;
      await this.follow(connections, tenant);
      const signedNow = await sign();
      if (signedNow === 'behind') throw stillBuilt();
      return signedNow;
    } catch (error) {
      if (!(error instanceof Contradiction)) throw error;
      await this.options.freeze(tenant, error.message);
      throw new Refusal('books_frozen', `nothing is signed: ${error.message}`);
    }
  }

  /** Brings the tree to the end of its log, as far as that is near. */
  private async follow(connections: Connections, tenant: string): Promise<void> {
    for (let behind = maxBehind; behind > 0; behind -= stepEvents) {
      const { events, problems } = await inTransaction(connections, [tenant], (client) =>
        followLogs(client, [tenant], { limit: stepEvents, waits: true, nextOrigin: (...tree) => this.nextOrigin(...tree) }),
      );
      for (const problem of problems.values()) throw new Contradiction(problem);
      if (events < stepEvents) return;
    }
    throw stillBuilt();
  }

  private async sign(client: Client, tenant: string, wanted: number): Promise<Checkpoint | null | 'behind'> {
    const [state, last] = await lockState(client, tenant);
    if (!state) return null;
    if (last && last.size >= wanted && last.size <= state.head) return last;
    if (state.frozen) throw new Refusal('books_frozen', 'the books are frozen, and nothing is signed');
    const tree = { ...state, tenant, read: storedSubtrees(queryOf(client), tenant) };
    const id = tenantId(tenant);
    const signed = [...(last ? [last] : []), ...(await this.options.files.last(id, 1))];
    if (!(await beginsWith(client, tree, signed)) || tree.size < wanted) return 'behind';
    const { origin, size } = tree;
    const head = { origin, size, root: await treeRoot(size, tree.read) };
    const name = this.nameOf(tenant, origin);
    const note = signNote(checkpointText({ origin: name, size, root: head.root }), name, this.options.keys[0]);
    await this.options.files.keep(id, head, note);
    // Another database with the same files, such as a copy, may have signed meanwhile.
    if (!(await beginsWith(client, tree, await this.options.files.last(id, 2)))) return 'behind';
    await client.query({
      name: 'add_checkpoint',
      text: `insert into checkpoints (tenant_id, origin, size, root, note, key_id, signed_at) values ($1, $2, $3, $4, $5, $6, clock_timestamp())`,
      values: [tenant, origin, size, head.root, note, keyIdText(name, this.options.keys[0])],
    });
    return { ...head, note };
  }
}

interface SignState {
  head: number;
  frozen: boolean;
  size: number;
  origin: number;
}

/** Waits until no other process signs for the tenant, then reads where its log and its tree are, and what was signed last. */
async function lockState(client: Client, tenant: string): Promise<[SignState | undefined, Checkpoint | undefined]> {
  await client.query({
    name: 'lock_checkpoints',
    text: `select pg_advisory_xact_lock_shared(hashtextextended('delete ' || $1, 0)), pg_advisory_xact_lock(hashtextextended('checkpoint ' || $1, 0))`,
    values: [tenant],
  });
  const [states, checkpoints] = await Promise.all([
    client.query<SignState>({
      name: 'sign_state',
      text: `select h.sequence::float8 as head, h.frozen_at is not null as frozen, coalesce(t.size, 0)::float8 as size, coalesce(t.origin, 1) as origin
        from heads h left join trees t on t.tenant_id = $1 where h.tenant_id = $1 and h.sequence > 0`,
      values: [tenant],
    }),
    client.query<Checkpoint>(newestCheckpoint(tenant)),
  ]);
  return [states.rows[0], checkpoints.rows[0]];
}

/** The statement that reads the newest {@link Checkpoint} of a tenant, of its present origin. */
export function newestCheckpoint(tenant: string): Statement {
  return {
    name: 'newest_checkpoint',
    text: `select origin, size::float8 as size, root, note from checkpoints
      where tenant_id = $1 and origin = coalesce((select origin from trees where tenant_id = $1), 1) order by checkpoints.size desc limit 1`,
    values: [tenant],
  };
}

const stillBuilt = () => new Refusal('unavailable', 'the tree of this log is still being built');

interface SignTree extends SignState {
  tenant: string;
  read: ReadSubtrees;
}

/** Whether a tree begins with what was signed; false: it is not as far yet. Throws {@link Contradiction}: it never will. */
async function beginsWith(client: Client, tree: SignTree, signed: SignedHead[]): Promise<boolean> {
  for (const head of signed) {
    const contradiction = head.origin >= tree.origin ? await contradictionTo(tree, head) : undefined;
    if (contradiction === undefined) continue;
    if (contradiction === 'behind') return false;
    // The operator may have accepted it in an event that the tree does not have yet.
    const { rowCount } = await client.query({
      name: 'accepted_since',
      text: `select from log where tenant_id = $1 and sequence > $2 and type = 'books.unfrozen' limit 1`,
      values: [tree.tenant, tree.size],
    });
    if (rowCount !== 0) return false;
    throw new Contradiction(contradiction);
  }
  return true;
}

async function contradictionTo(tree: SignTree, { origin, size, root }: SignedHead): Promise<string | undefined> {
  const was = `a checkpoint of ${size} events was signed`;
  if (origin > tree.origin) return `${was} after a restore that this database does not know`;
  if (size > tree.head) return `${was}, and the log ends at event ${tree.head}`;
  if (size > tree.size) return 'behind';
  return (await treeRoot(size, tree.read)).equals(root) ? undefined : `${was}, and the log has other events now`;
}
