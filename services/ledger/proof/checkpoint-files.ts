// Checkpoints as files that are written once: what was signed, kept apart from the database, which may be restored.
import { mkdir, open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** What was signed of a tree. */
export interface SignedHead {
  /** Counts restores that were accepted, from 1. */
  origin: number;
  size: number;
  /** 32 bytes. */
  root: Buffer;
}

const digits = 15;
const fileName = new RegExp(`^([0-9]{${digits}})-([0-9a-f]{64})\\.txt$`);
const directoryName = /^[0-9]{3,6}$/;

/**
 * Files `<tenant_id>/<origin>/<size>-<root>.txt` under a directory, the size in 15 digits, with its first twelve as four directories, so that none has
 * more than a thousand. The name alone says what was signed: a file that a crash left incomplete counts.
 */
export class CheckpointFiles {
  private readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** The last heads of a tenant (TypeID), the newest first. */
  async last(tenantId: string, count: number): Promise<SignedHead[]> {
    const heads: SignedHead[] = [];
    for await (const head of newestFirst(join(this.directory, tenantId), [])) {
      heads.push(head);
      if (heads.length === count) break;
    }
    return heads;
  }

  /** Writes a signed note, and returns when it is on the disk. A file of the same head is left as it is. */
  async keep(tenantId: string, { origin, size, root }: SignedHead, note: string): Promise<void> {
    const padded = String(size).padStart(digits, '0');
    const groups = [0, 3, 6, 9].map((from) => padded.slice(from, from + 3));
    const directory = join(this.directory, tenantId, String(origin).padStart(6, '0'), ...groups);
    const made = await mkdir(directory, { recursive: true });
    const path = join(directory, `${padded}-${root.toString('hex')}.txt`);
    const file = await open(path, 'wx').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return null;
      throw error;
    });
    if (file) {
      try {
        await file.writeFile(note);
        await file.sync();
      } finally {
        await file.close();
      }
    }
    const top = made === undefined ? directory : dirname(made);
    for (let each = directory; each.length >= top.length; each = dirname(each)) await syncDirectory(each);
  }
}

async function* newestFirst(directory: string, above: string[]): AsyncGenerator<SignedHead> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' && above.length === 0) return [];
    throw error;
  });
  for (const name of names.sort().reverse()) {
    if (above.length < 5) {
      if (directoryName.test(name)) yield* newestFirst(join(directory, name), [...above, name]);
      continue;
    }
    const [, size, root] = fileName.exec(name) ?? [];
    if (size !== undefined && root !== undefined) yield { origin: Number(above[0]), size: Number(size), root: Buffer.from(root, 'hex') };
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
