// The clients of one tenant: each draws its next call from a seed, and all calls and answers are recorded.
import type { Tenant } from '../cluster.ts';
import { Failed, type Call, type ApiClients } from './api-clients.ts';
import type { Seen } from './model/expectation.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { History, LogEvent, Op, Sent } from './history-check.ts';

const wallets = ['W1', 'W2', 'W3', 'W4', 'W5', 'W6'];
const currencies = ['NGN', 'USD'];

interface Request {
  name: string;
  key?: string;
  path: string;
  body: Record<string, any>;
  /** What it subtracts from an account, by the account's code. */
  lowers: Record<string, { currency: string; amount: string }>;
  reverses?: string;
}

/** Records the calls of a tenant's clients. */
export class Recorder {
  readonly ops: Op[] = [];
  private readonly sent: Request[] = [];
  private readonly known: { id: string; entries: any[] }[] = [];
  private readonly doors: ApiClients;
  private readonly tenant: Tenant;
  private readonly key: string;
  private turn = 0;

  constructor(doors: ApiClients, tenant: Tenant, key: string) {
    this.doors = doors;
    this.tenant = tenant;
    this.key = key;
  }

  /** Makes the accounts. */
  async prepare(): Promise<void> {
    const open = async (account_code: string, type: string, allow_negative: boolean) => {
      const seen = await this.call(this.rest('POST', '/accounts', { account_code, name: account_code, type, allow_negative }));
      if (seen.code !== undefined) throw new Error(`${account_code} was refused: ${seen.code}`);
    };
    await open('BANK', 'asset', true);
    for (const code of wallets) await open(code, 'liability', false);
  }

  /** Runs one client until this time. */
  async work(client: number, random: SeededRandom, until: number): Promise<void> {
    while (performance.now() < until) {
      const kind = random.whole(0, 99);
      if (kind < 58) await this.post(client, kind < 50 ? this.fresh(random) : this.reversal(random), random);
      else if (kind < 68)
        await this.post(client, this.sent[this.sent.length - 1 - random.whole(0, Math.min(20, this.sent.length || 1) - 1)], random);
      else if (kind < 71) await this.post(client, this.clash(random), random);
      else await this.read(client, random);
    }
  }

  private rest(method: string, path: string, body?: unknown): Call {
    return { via: 'rest', method, path: `/v1/tenants/${this.tenant.slug}${path}`, token: this.key, body };
  }

  private call(call: Call, signal?: AbortSignal): Promise<Seen> {
    return this.doors.call(call, [], signal);
  }

  /** Calls and records. Null where the outcome is unknown: the client hung up, or the cluster is overloaded or unavailable. */
  private async record(op: Op, call: Call, signal?: AbortSignal): Promise<Seen | null> {
    this.ops.push(op);
    try {
      const seen = await this.call(call, signal);
      op.code = seen.code;
      if (seen.code === 'unavailable') return null;
      op.end = performance.now();
      return seen;
    } catch (error) {
      if (error instanceof Failed && (error.code === 'unavailable' || error.code === 'overloaded')) op.code = error.code;
      else if (error instanceof Failed || !signal?.aborted) op.failed = String(error);
      return null;
    }
  }

  private fresh(random: SeededRandom): Request {
    const name = `d${this.turn++}`;
    const currency = currencies[random.whole(0, 1)]!;
    const amount = `${1 + random.whole(0, 39)}.${10 + random.whole(0, 89)}`;
    const key = random.whole(0, 4) > 0 ? { key: `k${name}` } : {};
    const kind = random.whole(0, 19);
    const from = kind < 8 ? 'BANK' : wallets[random.whole(0, wallets.length - 1)]!;
    const to = kind > 17 ? 'BANK' : wallets[random.whole(0, wallets.length - 1)]!;
    const about = { description: name, ...(key.key && { idempotency_key: key.key }) };
    const lowers = from === 'BANK' || from === to ? {} : { [from]: { currency, amount } };
    if (kind === 8)
      return { name, ...key, path: '/transactions', body: { ...about, account_code: to, amount, side: 'credit', currency }, lowers: {} };
    const bank = from === 'BANK' ? 'debit' : 'credit';
    const lines =
      from === 'BANK' || to === 'BANK'
        ? [
            ['BANK', bank],
            [from === 'BANK' ? to : from, bank === 'debit' ? 'credit' : 'debit'],
          ]
        : [
            [from, 'debit'],
            [to, 'credit'],
          ];
    const entries = lines.map(([account_code, side]) => ({ account_code, amount, side, currency }));
    return { name, ...key, path: '/transactions/double-entry', body: { ...about, entries }, lowers };
  }

  private reversal(random: SeededRandom): Request | undefined {
    const original = this.known[this.known.length - 1 - random.whole(0, Math.min(30, this.known.length || 1) - 1)];
    if (!original) return undefined;
    const name = `r${this.turn++}`;
    const key = random.whole(0, 2) > 0 ? { key: `k${name}` } : {};
    const lowered = original.entries.filter(({ side, account_code }) => side === 'credit' && wallets.includes(account_code));
    const lowers = Object.fromEntries(lowered.map(({ account_code, currency, amount }) => [account_code, { currency, amount }]));
    const body = { description: name, ...(key.key && { idempotency_key: key.key }) };
    return { name, ...key, path: `/transactions/${original.id}/reverse`, body, lowers, reverses: original.id };
  }

  /** Another request under a key that has been sent. */
  private clash(random: SeededRandom): Request | undefined {
    const other = this.sent[random.whole(0, (this.sent.length || 1) - 1)];
    if (other?.key === undefined) return undefined;
    const request = this.fresh(random);
    return { ...request, key: other.key, body: { ...request.body, idempotency_key: other.key } };
  }

  private async post(client: number, request: Request | undefined, random: SeededRandom): Promise<void> {
    if (!request) return;
    const { name, key, body, path, reverses, lowers } = request;
    const again = this.sent.includes(request);
    // Without a key a repetition would be a new posting.
    if (again && key === undefined) return;
    if (!again) this.sent.push(request);
    const op: Op = { client, kind: reverses === undefined ? 'post' : 'reverse', start: performance.now(), end: null, name };
    if (key !== undefined) op.key = key;
    if (reverses === undefined) op.sent = (body['entries'] as Sent[] | undefined) ?? [body as Sent];
    else op.about = { transaction: reverses };
    const signal = random.whole(0, 19) === 0 ? AbortSignal.timeout(1 + random.whole(0, 11)) : undefined;
    const seen = await this.record(op, this.callOf(path, body, reverses, random), signal);
    if (!seen) return;
    op.replayed = seen.replayed;
    op.named = String(seen.value);
    op.data = seen.code === undefined ? seen.data.transaction : { lowered: lowers[op.named] };
    const { transaction_id: id, kind, entries } = op.data;
    if (seen.code === undefined && !seen.replayed && kind !== 'reversal') this.known.push({ id, entries });
  }

  private callOf(path: string, body: Record<string, any>, reverses: string | undefined, random: SeededRandom): Call {
    if (random.whole(0, 2) > 0) return this.rest('POST', path, body);
    const {
      description,
      idempotency_key: idempotencyKey = '',
      account_code,
      amount,
      side,
      currency,
      entries = [{ account_code, amount, side, currency }],
    } = body;
    const about = { tenantId: this.tenant.id, description, idempotencyKey };
    if (reverses !== undefined) return { via: 'grpc', method: 'reverseTransaction', request: { ...about, transactionId: reverses } };
    const lines = entries.map(({ account_code: accountCode, ...rest }: any) => ({ accountCode, ...rest }));
    return { via: 'grpc', method: 'postTransaction', request: { posting: { ...about, entries: lines } } };
  }

  private async read(client: number, random: SeededRandom): Promise<void> {
    const kind = (['balance', 'balance', 'balance', 'transaction', 'events', 'transactions'] as const)[random.whole(0, 5)]!;
    const account = ['BANK', ...wallets][random.whole(0, wallets.length)]!;
    const currency = currencies[random.whole(0, 1)]!;
    const transaction = this.known[this.known.length - 1 - random.whole(0, Math.min(30, this.known.length || 1) - 1)]?.id;
    const newest = this.ops.findLast(({ data }) => typeof data?.sequence === 'number')?.data.sequence ?? 0;
    const after = Math.max(0, newest - random.whole(0, 39));
    const tenantId = this.tenant.id;
    const limit = 100;
    if (kind === 'transaction' && transaction === undefined) return;
    const calls: Record<typeof kind, [path: string, method: any, request: Record<string, unknown>, about: Op['about']]> = {
      balance: [
        `/accounts/code/${account}/balance?currency=${currency}`,
        'getBalance',
        { tenantId, accountCode: account, currency },
        { account, currency },
      ],
      transaction: [
        `/transactions/${transaction}`,
        'getTransaction',
        { tenantId, transactionId: transaction },
        { transaction: transaction! },
      ],
      events: [`/events?after_sequence=${after}&limit=100`, 'listEvents', { tenantId, afterSequence: BigInt(after), limit }, { after }],
      transactions: ['/transactions?limit=10', 'listTransactions', { tenantId, limit: 10 }, {}],
    };
    const [path, method, request, about] = calls[kind];
    const op: Op = { client, kind, start: performance.now(), end: null, about: about! };
    const seen = await this.record(op, random.whole(0, 1) === 0 ? this.rest('GET', path) : { via: 'grpc', method, request });
    if (!seen) return;
    const small = (event: any) => ({ sequence: event.sequence, hash: event.hash });
    const shown: Record<typeof kind, () => unknown> = {
      balance: () => seen.data.balance,
      transaction: () => ({ reversed_by: seen.data.transaction.reversed_by }),
      events: () => ({ events: seen.data.events.map(small), limit }),
      transactions: () => seen.data.transactions.map(({ transaction_id, sequence }: any) => ({ transaction_id, sequence })),
    };
    op.data = seen.code === undefined ? shown[kind]() : undefined;
  }

  /** The recorded calls, with the final log and balances. */
  async history(): Promise<History> {
    const log: LogEvent[] = [];
    for (let more = true; more;) {
      const { data } = await this.call(this.rest('GET', `/events?limit=100&after_sequence=${log.length}`));
      log.push(...data.events);
      more = data.pagination.has_more;
    }
    const balances: History['balances'] = new Map();
    for (const account of ['BANK', ...wallets]) {
      for (const currency of currencies) {
        const { data } = await this.call(this.rest('GET', `/accounts/code/${account}/balance?currency=${currency}`));
        balances.set(`${account} ${currency}`, data.balance);
      }
    }
    return { ops: this.ops, log, balances };
  }
}
