// Clients of a cluster over REST and gRPC whose answers have one form, so that both can be compared with a model.
import { Code, ConnectError, createClient, type Client } from '@connectrpc/connect';
import { toJson } from '@bufbuild/protobuf';
import { Pool } from 'undici';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { openCaller, refusalOf } from '../../services/platform/caller.ts';
import type { Seen } from './model/expectation.ts';

/** A REST call. A string body is sent as it is. */
export interface Rest {
  via: 'rest';
  method: string;
  path: string;
  /** Bearer token. */
  token?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

/** A gRPC call of the ledger, with the field names of the generated code. */
export interface Grpc {
  via: 'grpc';
  method: keyof Client<typeof LedgerService>;
  request: Record<string, unknown>;
}

export type Call = Rest | Grpc;

/** A call with its answer. */
export interface Recorded {
  call: Call;
  /** Status and body as received. */
  answer: string;
  data: unknown;
}

/** A call and its answer in one line. */
export function printed({ call, answer }: Recorded): string {
  const json = (value: unknown) => JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each));
  const sent =
    call.via === 'rest'
      ? `${call.method} ${call.path} ${call.body === undefined ? '' : json(call.body)}`
      : `${call.method} ${json(call.request)}`;
  return `${sent} -> ${answer.slice(0, 500)}`;
}

/** A 5xx that no call expects. */
export class Failed extends Error {
  /** The code in its body, like `internal`. */
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}

/** The clients of one cluster; many sequences share them. */
export class ApiClients {
  private readonly pool: Pool;
  private readonly caller: ReturnType<typeof openCaller>;
  private readonly ledger: Client<typeof LedgerService>;
  readonly url: string;
  readonly address: string;

  constructor(cluster: { url: string; addresses: { ledger: string[] }; internalToken: string }) {
    this.url = cluster.url;
    this.address = cluster.addresses.ledger[0]!;
    this.pool = new Pool(cluster.url, { connections: 64, pipelining: 1 });
    this.caller = openCaller({ addresses: cluster.addresses.ledger, token: cluster.internalToken, maxMessageBytes: 32 << 20 });
    this.ledger = createClient(LedgerService, this.caller);
  }

  /** Calls, appends the call to `made`, and resolves to the answer. Throws {@link Failed} for a 5xx, and on transport errors. */
  async call(call: Call, made: Recorded[], signal?: AbortSignal): Promise<Seen> {
    const place: Recorded = { call, answer: 'no answer', data: undefined };
    made.push(place);
    const seen = call.via === 'rest' ? await this.rest(call, place, signal) : await this.grpc(call, place);
    place.data = seen.data;
    return seen;
  }

  private async rest({ method, path, token, body, headers }: Rest, place: Recorded, signal?: AbortSignal): Promise<Seen> {
    const sent = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await this.pool.request({
      method,
      path,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(sent !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
      ...(signal && { signal }),
    });
    const text = await answer.body.text();
    place.answer = `${answer.statusCode} ${text}`;
    const parsed = text === '' ? {} : JSON.parse(text);
    const { details = {} } = parsed;
    if (answer.statusCode >= 500 && parsed.code !== 'test_failed') throw new Failed(`${method} ${path}: ${place.answer}`, parsed.code);
    return {
      status: answer.statusCode,
      code: parsed.success === true ? undefined : parsed.code,
      field: details.field,
      tag: details.tag,
      value: details.value,
      data: parsed.data ?? parsed,
      replayed: answer.headers['idempotent-replayed'] === 'true',
    };
  }

  private async grpc({ method, request }: Grpc, place: Recorded): Promise<Seen> {
    const call = this.ledger[method].bind(this.ledger) as (request: unknown) => Promise<any>;
    try {
      const answer = await call(request);
      const data = inRestForm(toJson(LedgerService.method[method].output, answer, { alwaysEmitImplicit: true }));
      place.answer = `OK ${JSON.stringify(data)}`;
      return {
        status: null,
        code: undefined,
        field: undefined,
        tag: undefined,
        value: undefined,
        data,
        replayed: answer.replayed === true,
      };
    } catch (error) {
      const refusal = refusalOf(error);
      // Over REST a missed deadline is a 503.
      const late = !refusal && error instanceof ConnectError && error.code === Code.DeadlineExceeded;
      if (late) throw new Failed(`${method}: ${error.message}`, 'unavailable');
      if (!refusal) throw error;
      place.answer = `${(error as ConnectError).code} ${JSON.stringify(refusal)}`;
      const { reason: code, field, tag, value } = refusal;
      return { status: null, code, field, tag, value, data: undefined, replayed: false };
    }
  }

  async close(): Promise<void> {
    this.caller.close();
    await this.pool.close();
  }
}

const times: Record<string, string> = { createdMs: 'created_at', updatedMs: 'updated_at' };
// Where REST has null, messages have no field.
const nullable = ['reference', 'currency', 'amount', 'reverses', 'reversed_by', 'parent_code', 'description', 'updated_at'];
const numbers = ['sequence', 'version', 'children_count'];

/** A message's JSON in the form of REST: names, times, numbers, metadata, and nulls. */
function inRestForm(value: any): any {
  if (Array.isArray(value)) return value.map(inRestForm);
  if (typeof value !== 'object' || value === null) return value;
  const fields: Record<string, any> = {};
  for (const [name, each] of Object.entries(value)) {
    const renamed = times[name] ?? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (name in times) fields[renamed] = new Date(Number(each)).toISOString();
    else if (renamed === 'metadata') fields[renamed] = JSON.parse((each as string) || '{}');
    else if (numbers.includes(renamed)) fields[renamed] = Number(each);
    else if (renamed === 'hash' || renamed === 'previous_hash') fields[renamed] = Buffer.from(each as string, 'base64').toString('hex');
    else fields[renamed] = inRestForm(each);
  }
  if ('created_at' in fields && 'transaction_id' in fields && 'kind' in fields) fields['effective_at'] = fields['created_at'];
  for (const name of nullable) fields[name] ??= null;
  return flattened(fields);
}

// In REST an event's data is the transaction or account itself, and a node of the hierarchy its account.
function flattened(fields: Record<string, any>): Record<string, any> {
  const { transaction_posted, account_created, account_updated, children, children_count, ...rest } = fields;
  if (transaction_posted) {
    const { entries, ...about } = transaction_posted;
    return { ...rest, data: { ...about, ...sums(entries), lines: entries, sequence: rest['sequence'] } };
  }
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
