// Fills a cluster with postings that follow from a seed alone, so that whoever fills it later knows what is there, goes on where the last one
// ended and doubles nothing.
import { setTimeout as pause } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { createClient, type Client } from '@connectrpc/connect';
import { LedgerService, type PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toId } from '../../services/platform/ids.ts';
import { callerOf } from '../bench/books.ts';
import type { Cluster } from '../bench/cluster.ts';
import { postingOf } from '../bench/posting.ts';
import { openChance } from './chance.ts';
import { Zipf } from './zipf.ts';

/** What is to be filled in. */
export interface Plan {
  seed: number;
  /** How many postings, of two entries each; a multiple of `perCall`. */
  postings: number;
  /** Items of one call of `PostTransactions`. */
  perCall: number;
  /** The most frequent first; `accounts`: its customers. */
  tenants: { id: string; accounts: number }[];
}

/** How far a filling is, and how it came there. */
export interface Filled {
  /** Postings in the cluster when it began, and now. */
  before: number;
  postings: number;
  /** Answered as posted before: of calls that an earlier filling had begun. */
  replayed: number;
  seconds: number;
}

/** When a filling stops before its end. */
export interface Limits {
  /** No call begins after so many minutes, but those that an earlier filling may have left half done. */
  minutes: number;
  /** Cuts the calls in flight off; {@link fill} then throws. */
  signal?: AbortSignal;
  say: (line: string) => void;
}

type Posting = MessageInitShape<typeof PostingSchema>;

/** Calls in flight. With eight of 1,000 items the ledger's queue of 8,000 would be full at times. */
export const callers = 6;
const series = 'filled-1';
const key = (number: number) => postingOf('', series, number, 2).idempotencyKey!;
// Half of all postings pay the merchant, whose account so becomes a hot one.
const payTheMerchant = 0.5;
const sayEveryMs = 15_000;
const triesAtMost = 20;

/** The postings of one call, counted from 0: they follow from the plan's seed. `shares` draws among as many as there are tenants. */
export function postingsOf({ seed, perCall, tenants }: Plan, call: number, shares: Zipf): Posting[] {
  const chance = openChance(seed, call);
  return Array.from({ length: perCall }, (_, item) => {
    const { id, accounts } = tenants[shares.draw(chance)]!;
    const from = chance.whole(1, accounts);
    const another = 1 + ((from + chance.whole(0, accounts - 2)) % accounts);
    const to = chance.happens(payTheMerchant) ? 0 : another;
    const amount = (chance.whole(1000, 9899) / 100).toFixed(2);
    return postingOf(id, series, call * perCall + item, accounts, { from, to, amount });
  });
}

/**
 * Fills the cluster, from where it is to the end of the plan, or as far as the limits let it. Throws where a posting is refused for good.
 *
 * The cluster itself tells where to begin: calls are given out in order, to so many callers at a time, so of n postings no call is incomplete
 * before that of the n-th posting less as many calls as there are callers, and none is begun after it and as many more. What lies between is
 * sent again, under the same keys.
 */
export async function fill(cluster: Cluster, plan: Plan, { minutes, signal, say }: Limits): Promise<Filled> {
  const [began, before] = [performance.now(), await countFilled(cluster)];
  const [calls, done] = [Math.ceil(plan.postings / plan.perCall), Math.ceil(before / plan.perCall)];
  const until = began + minutes * 60_000;
  const shares = new Zipf(plan.tenants.length);
  let call = Math.max(0, done - callers);
  let posted = call * plan.perCall;
  let replayed = 0;
  let said = began;
  const channels = Array.from({ length: callers }, () => callerOf(cluster, 'ledger'));
  try {
    await Promise.all(
      channels.map(async (channel) => {
        const ledger = createClient(LedgerService, channel);
        while (call < calls && (performance.now() < until || call < done + callers)) {
          const again = await post(ledger, postingsOf(plan, call++, shares), signal);
          replayed += again;
          posted += plan.perCall;
          if (performance.now() - said < sayEveryMs) continue;
          said = performance.now();
          const perSecond = (posted - before) / ((said - began) / 1000);
          say(`  ${posted.toLocaleString('en')} of ${plan.postings.toLocaleString('en')} postings, ${Math.round(perSecond)}/s`);
        }
      }),
    );
  } finally {
    for (const channel of channels) channel.close();
  }
  return { before, postings: await countFilled(cluster), replayed, seconds: (performance.now() - began) / 1000 };
}

/** Posts, and repeats what was shed or not answered; answers how many had been posted before. */
async function post(ledger: Client<typeof LedgerService>, postings: Posting[], signal?: AbortSignal): Promise<number> {
  let replayed = 0;
  let problem: unknown;
  for (let tries = 0; tries < triesAtMost; tries++) {
    const options = { timeoutMs: 60_000, ...(signal && { signal }) };
    const results = await ledger.postTransactions({ postings }, options).then(
      (answer) => answer.results,
      (error) => {
        problem = error;
        return null;
      },
    );
    signal?.throwIfAborted();
    replayed += results?.filter((result) => result.replayed).length ?? 0;
    const left = postings.filter((_, item) => results?.[item]?.outcome.case !== 'transaction');
    if (left.length === 0) return replayed;
    problem = results?.find(({ outcome }) => outcome.case === 'refusal')?.outcome.value ?? problem;
    postings = left;
    await pause(250);
  }
  throw new Error(`${postings.length} postings of a call are refused after ${triesAtMost} tries`, { cause: problem });
}

async function countFilled(cluster: Cluster): Promise<number> {
  const rows = await cluster.query<{ count: string }>(
    cluster.known.databases.ledger.name,
    `select count(*)::text from transactions where idempotency_key like 'bench-${series}-%'`,
  );
  return Number(rows[0]?.count);
}

/** Whether each tenant holds exactly the postings that the seed gives it, where so many were filled in; one line for each that does not. */
export async function wronglyFilled(cluster: Cluster, plan: Plan, postings: number): Promise<string[]> {
  const shares = new Zipf(plan.tenants.length);
  const drawn = new Map<string, number>(plan.tenants.map(({ id }) => [id, 0]));
  for (let call = 0; call * plan.perCall < postings; call++) {
    for (const { tenantId = '' } of postingsOf(plan, call, shares)) drawn.set(tenantId, drawn.get(tenantId)! + 1);
  }
  const rows = await cluster.query<{ tenant: string; count: string }>(
    cluster.known.databases.ledger.name,
    `select tenant_id as tenant, count(*)::text from transactions
     where idempotency_key like 'bench-${series}-%' and idempotency_key < '${key(postings)}' group by tenant_id`,
  );
  const held = new Map(rows.map(({ tenant, count }) => [toId('tenant', tenant), Number(count)]));
  return [...new Set([...drawn.keys(), ...held.keys()])].flatMap((tenant) => {
    const [right, found] = [drawn.get(tenant) ?? 0, held.get(tenant) ?? 0];
    return right === found ? [] : [`${tenant} holds ${found} filled postings instead of ${right}`];
  });
}
