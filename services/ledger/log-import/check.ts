// Checks a whole export of events before anything of it is written: chain, rules, and the checkpoint that vouches for it.
import { Replay } from '../audit/replay.ts';
import type { Row } from '../audit/rows.ts';
import { leafHash, nodeHash } from '../proof/merkle.ts';
import { invalidLine, type ExportEnd, type ImportedEvent } from './lines.ts';
import { readLog, type OpenExport } from './read-log.ts';

/** What an export is that was found right. */
export interface CheckedLog {
  /** Whose log it was, a UUID. */
  tenant: string;
  /** Events. */
  size: number;
  /** Root of its Merkle tree (RFC 6962). */
  root: Buffer;
  /** Signed by its source; empty where the export has none. */
  checkpoint: string;
  /** When its first event happened, milliseconds since the Unix epoch. */
  firstMs: number;
  /** Keys of metadata that its books index. */
  keys: string[];
}

// Time in a log never goes back: what is posted later would be as young as this.
const clockSkewMs = 60_000;

/** Reads a whole export and replays it. `progress`: events so far. Throws a Refusal for the first line that is wrong. */
export async function checkLog(open: OpenExport, progress: (events: number) => void = () => undefined): Promise<CheckedLog> {
  const tree = new GrowingTree();
  const newestMs = Date.now() + clockSkewMs;
  let first: ImportedEvent | undefined;
  let end: ExportEnd | undefined;
  let replay: LineReplay | undefined;
  for await (const part of readLog(open())) {
    if (!Array.isArray(part)) {
      end = part;
      continue;
    }
    for (const event of part) {
      first ??= event;
      replay ??= new LineReplay(first.row.tenant);
      if (event.row.createdMs > newestMs) throw invalidLine(event.line, 'it is of a time that is not here yet');
      replay.apply(event);
      tree.add(event.row.hash);
    }
    progress(tree.size);
  }
  if (!first || !replay || !end) throw new Error('an export without events was read');
  const root = tree.root();
  checkCheckpoint(end, root);
  const keys = Object.keys(indexedSince(replay.latest(end.line)));
  const { tenant, createdMs: firstMs } = first.row;
  return { tenant, size: tree.size, root, checkpoint: end.checkpoint, firstMs, keys };
}

/** Keys of metadata that the books of a replay index, each with the sequence of the event that declared it. */
export function indexedSince({ books = [] }: Record<string, Row[]>): Record<string, number> {
  return JSON.parse(String(books[0]?.['indexed_since'] ?? '{}')) as Record<string, number>;
}

/** A replay that throws a Refusal for the line of what it finds. */
export class LineReplay {
  private readonly replay: Replay;
  private problem: string | undefined;

  /** `tenant`: a UUID. `keys`: those of metadata that are indexed. */
  constructor(tenant: string, keys: readonly string[] = []) {
    this.replay = new Replay(tenant, (problem) => (this.problem ??= problem), { keys, through: 0n });
  }

  /** Takes the next event. */
  apply({ line, row }: ImportedEvent): ReturnType<Replay['apply']> {
    const replayed = this.replay.apply(row);
    if (this.problem !== undefined) throw invalidLine(line, this.problem);
    return replayed;
  }

  /** Rows as they are after the last event, which is before `line`. */
  latest(line: number): Record<string, Row[]> {
    const rows = this.replay.latest();
    if (this.problem !== undefined) throw invalidLine(line, this.problem);
    return rows;
  }
}

/** Throws unless a signed note, where there is one, names this size and root. Its signature is for readers of the log, who know the key. */
function checkCheckpoint({ line, checkpoint, count }: ExportEnd, root: Buffer): void {
  if (checkpoint === '') return;
  const [, size, hash] = checkpoint.split('\n');
  if (size !== String(count) || hash !== root.toString('base64'))
    throw invalidLine(line, `checkpoint is not of ${count} events with the root ${root.toString('base64')}`);
}

/** The root of a Merkle tree that leaves are added to. Keeps one hash a level. */
export class GrowingTree {
  size = 0;
  /** Of complete subtrees, the largest first. */
  private readonly subtrees: Buffer[] = [];

  /** Adds a leaf by its data. */
  add(data: Uint8Array): void {
    let node = leafHash(data);
    // Each bit that is set stands for a subtree of that size.
    for (let bits = this.size; bits % 2 === 1; bits = (bits - 1) / 2) node = nodeHash(this.subtrees.pop() as Buffer, node);
    this.subtrees.push(node);
    this.size++;
  }

  /** The root of all leaves, at least one. */
  root(): Buffer {
    return this.subtrees.reduceRight((right, left) => nodeHash(left, right));
  }
}
