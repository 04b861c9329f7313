// Ends the freeze of a tenant that the operator has repaired.
import { create, toBinary } from '@bufbuild/protobuf';
import type pg from 'pg';
import { BooksUnfrozenSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { StartFailure } from '../../platform/lifetime.ts';
import { epochMs, setTenants, type Client } from '../../platform/postgres.ts';
import { writeEvents } from '../accounts.ts';
import { append, headOf, readClock, selectHead, type HeadRow } from '../log.ts';
import { verify } from './verify.ts';

/** How a freeze is ended. */
export interface Unfreeze {
  /** UUID. */
  tenant: string;
  /** Why, for the log. */
  reason: string;
  /** Accepts a log that was restored to an earlier time: its checkpoints have another origin from here on. */
  rewound: boolean;
}

interface FreezeRow {
  sequence: bigint;
  at_ms: number;
  reason: string;
}

/**
 * Verifies a frozen tenant, and without findings lets it be changed again, with the event `books.unfrozen`, whose sequence is returned. Null: there
 * are findings, which `report` gets. Throws {@link StartFailure} where the tenant is not frozen.
 */
export async function unfreeze(client: pg.Client, about: Unfreeze, report: (line: string) => void): Promise<bigint | null> {
  const { tenant } = about;
  await frozen(client, tenant);
  const { findings } = await verify(client, { only: tenant }, report);
  if (findings > 0) return null;
  await client.query('begin');
  try {
    await client.query(setTenants([tenant]));
    const sequence = await end(client, about);
    await client.query('commit');
    return sequence;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

async function frozen(client: pg.Client, tenant: string): Promise<FreezeRow> {
  const text = `select sequence, ${epochMs('at')} as at_ms, reason from freezes where tenant_id = $1`;
  const { rows } = await client.query<FreezeRow>(text, [tenant]);
  if (!rows[0]) throw new StartFailure('the tenant is not frozen');
  return rows[0];
}

// The count of rebuilds makes void what ledgers have cached of the frozen head.
async function end(client: pg.Client, { tenant, reason, rewound }: Unfreeze): Promise<bigint> {
  const { rows } = await client.query<HeadRow>(`${selectHead} where tenant_id = $1 for update`, [tenant]);
  await client.query('update heads set frozen_at = null, rebuilt = rebuilt + 1 where tenant_id = $1', [tenant]);
  const time = await client.query<{ now_ms: number }>(readClock);
  const { sequence, at_ms: atMs, reason: why } = await frozen(client, tenant);
  await client.query('delete from freezes where tenant_id = $1', [tenant]);
  const fields = { frozenMs: BigInt(atMs), frozenSequence: sequence, frozenReason: why, reason, rewound };
  const payload = toBinary(BooksUnfrozenSchema, create(BooksUnfrozenSchema, fields));
  const head = headOf(rows[0] as HeadRow);
  const nowMs = (time.rows[0] as { now_ms: number }).now_ms;
  // The functions that write a batch take any connection.
  await writeEvents(
    client as unknown as Client,
    [append(head, { type: 'books.unfrozen', actor: 'operator', requestId: '', payload }, nowMs)],
    head,
    nowMs,
  );
  return head.sequence;
}
