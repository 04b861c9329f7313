// What the auditor's indexes hold of postings: words, volumes, and texts of metadata under keys that were declared later.
import type { TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { bigintArray, doubleArray, plainArray, textArray } from '../../platform/arrays.ts';
import { toMinor } from '../../platform/money.ts';
import type { Client } from '../../platform/postgres.ts';
import { indexedTexts } from '../dated-writes.ts';
import { lexemesOf } from '../words.ts';

/** A posting of the log. */
export interface IndexedPosting {
  sequence: bigint;
  createdMs: number;
  posted: TransactionPosted;
}

const quarterMs = 15 * 60_000;

/** What moved in one currency within a quarter of an hour. */
export interface Volume {
  currency: string;
  quarterMs: number;
  transactions: number;
  /** Minor units. */
  debits: bigint;
}

/** The volumes of postings by the time at which they count. */
export function volumesOf(postings: Omit<IndexedPosting, 'sequence'>[]): Volume[] {
  const volumes = new Map<string, Volume>();
  for (const { createdMs, posted } of postings) {
    const effectiveMs = posted.effectiveMs === undefined ? createdMs : Number(posted.effectiveMs);
    const start = Math.floor(effectiveMs / quarterMs) * quarterMs;
    const debits = new Map<string, bigint>();
    for (const { currency, side, amount } of posted.entries) {
      debits.set(currency, (debits.get(currency) ?? 0n) + (side === 'debit' ? (toMinor(amount) ?? 0n) : 0n));
    }
    for (const [currency, sum] of debits) {
      const key = `${currency} ${start}`;
      const volume = volumes.get(key) ?? { currency, quarterMs: start, transactions: 0, debits: 0n };
      volumes.set(key, { ...volume, transactions: volume.transactions + 1, debits: volume.debits + sum });
    }
  }
  return [...volumes.values()];
}

/** Adds words and volumes, for a caller whose SQL transaction sees the tenant's rows. */
export async function addWordsAndVolumes(client: Client, tenant: string, postings: IndexedPosting[]): Promise<void> {
  const texts = postings.flatMap(({ sequence, posted }) => {
    const words = lexemesOf(tenant, sequence, posted);
    return words.length === 0 ? [] : [{ sequence, words: words.join(' ') }];
  });
  await client.query({
    name: 'add_texts',
    text: `insert into transaction_texts (tenant_id, sequence, words)
      select $1, sequence, array_to_tsvector(string_to_array(words, ' ')) from unnest($2::bigint[], $3::text[]) as row (sequence, words)`,
    values: [tenant, bigintArray(texts.map(({ sequence }) => sequence)), textArray(texts.map(({ words }) => words))],
  });
  const volumes = volumesOf(postings);
  await client.query({
    name: 'add_volumes',
    text: `insert into volumes (tenant_id, currency, quarter, transactions, debits)
      select $1, currency, to_timestamp(quarter / 1000.0), transactions, debits
      from unnest($2::text[], $3::float8[], $4::bigint[], $5::numeric[]) as row (currency, quarter, transactions, debits)
      on conflict (tenant_id, currency, quarter) do update
        set transactions = volumes.transactions + excluded.transactions, debits = volumes.debits + excluded.debits`,
    values: [
      tenant,
      textArray(volumes.map(({ currency }) => currency)),
      doubleArray(volumes.map((each) => each.quarterMs)),
      bigintArray(volumes.map(({ transactions }) => BigInt(transactions))),
      plainArray(volumes.map(({ debits }) => debits)),
    ],
  });
}

/** Adds the texts under a key of metadata; those of an earlier declaration stay. */
export async function addMetadata(client: Client, tenant: string, key: string, postings: IndexedPosting[]): Promise<void> {
  const texts = postings.flatMap(({ sequence, posted }) => indexedTexts(posted.metadata, [key]).map(([, value]) => ({ sequence, value })));
  await client.query({
    name: 'add_metadata',
    text: `insert into transaction_metadata (tenant_id, key, value, sequence)
      select $1, $2, value, sequence from unnest($3::bigint[], $4::text[]) as row (sequence, value) on conflict do nothing`,
    values: [tenant, key, bigintArray(texts.map(({ sequence }) => sequence)), textArray(texts.map(({ value }) => value))],
  });
}
