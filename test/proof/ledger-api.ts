// One client of the ledger over REST and gRPC: requests and answers have the form of REST over both, so that one model fits.
import { Code, ConnectError, createClient, type Client } from '@connectrpc/connect';
import { toJson, type DescMessage } from '@bufbuild/protobuf';
import { Pool } from 'undici';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller, refusalOf } from '../../services/platform/caller.ts';
import type { Cluster } from '../cluster.ts';

/** Each operation: method and path below the tenant's over REST, method over gRPC. */
const operations = {
  double: ['POST', '/transactions/double-entry', 'postTransaction'],
  single: ['POST', '/transactions', 'postTransaction'],
  batch: ['', '', 'postTransactions'],
  reverse: ['POST', '/transactions/{transaction_id}/reverse', 'reverseTransaction'],
  refund: ['POST', '/transactions/{transaction_id}/reverse', 'submit'],
  hold: ['POST', '/holds', 'submit'],
  capture: ['POST', '/holds/{hold_id}/capture', 'submit'],
  void: ['POST', '/holds/{hold_id}/void', 'submit'],
  submit: ['POST', '/transactions/batch', 'submit'],
  held: ['GET', '/holds/{hold_id}', 'getHold'],
  holds: ['GET', '/holds', 'listHolds'],
  transaction: ['GET', '/transactions/{transaction_id}', 'getTransaction'],
  transactions: ['GET', '/transactions', 'listTransactions'],
  setUp: ['POST', '/accounts/setup', 'setUpChart'],
  open: ['POST', '/accounts', 'createAccount'],
  change: ['PATCH', '/accounts/code/{account_code}', 'updateAccount'],
  account: ['GET', '/accounts/code/{account_code}', 'getAccount'],
  accounts: ['GET', '/accounts', 'listAccounts'],
  hierarchy: ['GET', '/accounts/hierarchy', 'getHierarchy'],
  balance: ['GET', '/accounts/code/{account_code}/balance', 'getBalance'],
  history: ['GET', '/accounts/code/{account_code}/balance/history', 'listBalanceHistory'],
  events: ['GET', '/events', 'listEvents'],
} as const satisfies Record<string, [method: string, path: string, rpc: keyof Client<typeof LedgerService>]>;

export type Operation = keyof typeof operations;
export type Via = 'rest' | 'grpc';
type Fields = Record<string, any>;

/** One request. */
export interface Call {
  via: Via;
  tenant: { id: string; slug: string; key: string };
  operation: Operation;
  /** The fields of path, query and body by their names over REST. `batch`, over gRPC alone, has `postings`: calls. */
  request: Fields;
  requestId?: string;
}

/** Whether a call changes nothing. */
export const isRead = ({ operation }: Call): boolean => operations[operation][0] === 'GET';

/** An answer; over gRPC it has no status. */
export interface Seen {
  status: number | null;
  /** The refusal's code; undefined where the call was answered. */
  code?: string | undefined;
  field?: string | undefined;
  tag?: string | undefined;
  value?: unknown;
  data?: any;
  replayed: boolean;
}

/** A 5xx, or a missed deadline. */
export class Failed extends Error {
  /** Like `unavailable`. */
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}

/** The actor of all calls over gRPC; over REST it is the key's id. */
export const grpcActor = 'test';
const failures = ['unavailable', 'overloaded', 'internal'];

/** The client of one cluster; many callers share it. */
export class LedgerApi {
  private readonly pool: Pool;
  private readonly caller: ReturnType<typeof openCaller>;
  private readonly ledger: Client<typeof LedgerService>;

  constructor({ url, addresses, internalToken: token }: Pick<Cluster, 'url' | 'addresses' | 'internalToken'>) {
    this.pool = new Pool(url, { connections: 64, pipelining: 1 });
    this.caller = openCaller({ addresses: addresses.ledger, token, maxMessageBytes: 32 << 20 });
    this.ledger = createClient(LedgerService, this.caller);
  }

  /** Resolves to the answer or refusal. Throws {@link Failed}, or the transport's error. */
  call(call: Call, signal?: AbortSignal): Promise<Seen> {
    return call.via === 'rest' ? this.rest(call, signal) : this.grpc(call, signal);
  }

  private async rest(call: Call, signal?: AbortSignal): Promise<Seen> {
    const { tenant, operation, request, requestId } = call;
    const [method, template] = operations[operation];
    const fields = Object.fromEntries(Object.entries(request).filter(([name]) => !template.includes(`{${name}}`)));
    const query = isRead(call) ? `?${new URLSearchParams(fields).toString()}` : '';
    const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(request[name] as string));
    const answer = await this.pool.request({
      method,
      path: `/v1/tenants/${tenant.slug}${path}${query}`,
      headers: {
        authorization: `Bearer ${tenant.key}`,
        ...(!isRead(call) && { 'content-type': 'application/json' }),
        ...(requestId !== undefined && { 'x-request-id': requestId }),
      },
      ...(!isRead(call) && { body: JSON.stringify(fields) }),
      ...(signal && { signal }),
    });
    const text = await answer.body.text();
    const { success, code, details = {}, data } = JSON.parse(text) as Fields;
    if (answer.statusCode >= 500) throw new Failed(`${method} ${path}: ${answer.statusCode} ${text}`, code as string);
    const { field, tag, value } = details as Fields;
    const replayed = answer.headers['idempotent-replayed'] === 'true';
    return { status: answer.statusCode, code: success === true ? undefined : code, field, tag, value, data, replayed };
  }

  private async grpc(call: Call, signal?: AbortSignal): Promise<Seen> {
    const method = operations[call.operation][2];
    // Not by the types of the methods: a union of so many is more than the compiler can represent.
    const ledger = this.ledger as unknown as Record<string, (request: unknown, options: object) => Promise<any>>;
    const output: DescMessage = LedgerService.method[method].output;
    try {
      const answer = await ledger[method]!(messageOf(call), signal ? { signal } : {});
      const data = inRestForm(toJson(output, answer, { alwaysEmitImplicit: true }));
      return method === 'submit' && call.operation !== 'submit'
        ? resultOf(data.results[0])
        : { status: null, data, replayed: answer.replayed === true };
    } catch (error) {
      const refusal = refusalOf(error);
      const isLate = !refusal && error instanceof ConnectError && error.code === Code.DeadlineExceeded;
      if (isLate || (refusal && failures.includes(refusal.reason)))
        throw new Failed(`${method}: ${String(error)}`, refusal?.reason ?? 'unavailable');
      if (!refusal) throw error;
      const { reason: code, field, tag, value } = refusal;
      return { status: null, code, field, tag, value, replayed: false };
    }
  }

  async close(): Promise<void> {
    this.caller.close();
    await this.pool.close();
  }
}

/** The result of one command, as the answer of a call. */
export function resultOf({ refusal, replayed, ...data }: Fields): Seen {
  if (!refusal) return { status: null, data, replayed };
  const { reason: code, message, ...blame } = refusal as Fields;
  if (failures.includes(code as string)) throw new Failed(String(message), code as string);
  return { status: null, code, ...blame, replayed: false };
}

/** A call as a gRPC request. */
function messageOf({ tenant, operation, request, requestId }: Call): Fields {
  if (operation === 'batch') return { postings: (request['postings'] as Call[]).map((each) => messageOf(each)['posting']) };
  const about = { tenantId: tenant.id, actor: grpcActor, requestId };
  if (operation === 'submit') return { ...about, atomic: request['atomic'], commands: (request['items'] as Fields[]).map(commandOf) };
  if (operations[operation][2] === 'submit') return { ...about, commands: [commandOf({ ...request, op: operation })] };
  if (operation !== 'double' && operation !== 'single') return { ...about, ...fieldsOf(request) };
  return { posting: { ...about, ...postingOf(request) } };
}

/** A posting of one entry or several. */
function postingOf({
  account_code,
  amount,
  side,
  currency,
  entries = [{ account_code, amount, side, currency }],
  ...rest
}: Fields): Fields {
  return fieldsOf({ ...rest, entries });
}

/** An item of a batch as a command. */
function commandOf({ op, ...item }: Fields): Fields {
  if (op === 'single' || op === 'double') return { command: { case: 'posting', value: postingOf(item) } };
  return { command: { case: op === 'refund' || op === 'reverse' ? 'reversal' : op, value: fieldsOf(item) } };
}

function fieldsOf(request: Fields): Fields {
  const given = Object.entries(request).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(
    given.map(([name, value]) => {
      if (name === 'start_date' || name === 'end_date') return [name === 'start_date' ? 'startMs' : 'endMs', BigInt(Date.parse(value))];
      if (name === 'include') return ['includeBalances', true];
      if (name === 'entries') return [name, value.map(fieldsOf)];
      if (name === 'metadata') return [name, JSON.stringify(value)];
      const isLong = ['version', 'after_sequence', 'expires_in'].includes(name);
      return [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), isLong ? BigInt(value) : value];
    }),
  );
}

const times: Record<string, string> = { createdMs: 'created_at', updatedMs: 'updated_at', expiresMs: 'expires_at', endedMs: 'ended_at' };
// Where REST has null, messages have no field.
const nullable = [
  ...['reference', 'currency', 'amount', 'reverses', 'reversed_by', 'parent_code', 'description', 'updated_at'],
  ...['origin', 'unreversed', 'expires_at', 'ended_at'],
];
const numbers = ['sequence', 'version', 'children_count'];

/** A message's JSON in the form of REST: names, times, numbers, metadata, nulls, pagination. */
function inRestForm(value: any): any {
  if (Array.isArray(value)) return value.map(inRestForm);
  if (typeof value !== 'object' || value === null) return value;
  const fields: Fields = {};
  for (const [name, each] of Object.entries(value)) {
    const renamed = times[name] ?? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (name in times) fields[renamed] = new Date(Number(each)).toISOString();
    else if (renamed === 'metadata') fields[renamed] = JSON.parse((each as string) || '{}');
    else if (numbers.includes(renamed)) fields[renamed] = Number(each);
    else if (renamed === 'hash' || renamed === 'previous_hash') fields[renamed] = Buffer.from(each as string, 'base64').toString('hex');
    else if (renamed === 'unreversed') fields[renamed] = (each as Fields)['amounts'];
    else fields[renamed] = inRestForm(each);
  }
  if ('created_at' in fields && 'transaction_id' in fields && 'kind' in fields) fields['effective_at'] = fields['created_at'];
  if ('captures' in fields) Object.assign(fields, sums(fields['entries']));
  const { next_cursor, has_more = next_cursor !== '' } = fields;
  if ('next_cursor' in fields || 'has_more' in fields) fields['pagination'] = { next_cursor: next_cursor || null, has_more };
  for (const name of nullable) fields[name] ??= null;
  return flattened(fields);
}

// In REST an event's data is the transaction or account itself, and a node of the hierarchy its account.
function flattened(fields: Fields): Fields {
  const { transaction_posted, account_created, account_updated, hold_created, hold_ended, children, children_count, ...rest } = fields;
  if (transaction_posted) {
    const { entries, ...about } = transaction_posted;
    return { ...rest, data: { ...about, ...sums(entries), lines: entries, sequence: rest['sequence'] } };
  }
  if (hold_created) return { ...rest, data: hold_created.hold };
  if (hold_ended)
    return { ...rest, data: { ...hold_ended.hold, ...(rest['type'] === 'hold.voided' && { void_description: hold_ended.description }) } };
  const changed = account_created ?? account_updated;
  if (changed) {
    return { ...rest, data: { ...changed.account, ...(account_updated && { changes: changed.changes }), sequence: rest['sequence'] } };
  }
  return children ? { ...rest['account'], balances: rest['balances'], children_count, children } : fields;
}

function sums(entries: any[]): { currency: string | null; amount: string | null } {
  const [first] = entries;
  if (entries.some((entry) => entry.currency !== first.currency)) return { currency: null, amount: null };
  const units = entries
    .reduce<bigint>((sum, { side, amount }) => sum + (side === 'debit' ? BigInt(amount.replace('.', '')) : 0n), 0n)
    .toString();
  return { currency: first.currency, amount: `${units.padStart(3, '0').slice(0, -2)}.${units.padStart(3, '0').slice(-2)}` };
}
