// One call of the API: credentials, one idempotency key, retries with the same bytes, and typed errors.
import type { ErrorCode, Problem } from './gen/types.gen.ts';

/** What the generated table says of an operation. */
export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly by: 'key' | 'token' | 'none';
  /** Media type of the body. */
  readonly body?: string;
  /** `data` by default; `json`: the whole body; `response`: the response itself, for text and files. */
  readonly answer?: 'json' | 'response';
  readonly takesKey?: boolean;
  /** May be sent again where no answer came. */
  readonly repeatable?: boolean;
  readonly paging?: { readonly by: 'cursor' | 'after_sequence' | 'offset'; readonly items: string };
}

/** Options of every call. */
export interface CallOptions {
  /** The same key does the same thing once. Default: a random one, made before the first attempt. */
  idempotencyKey?: string;
  signal?: AbortSignal;
  /** Of each attempt. */
  timeoutMs?: number;
  /** Attempts after the first. */
  retries?: number;
  headers?: Record<string, string>;
  /** Sees the last response, for example for `Idempotent-Replayed`. */
  onResponse?: (response: Response) => void;
}

const optionNames: readonly string[] = [
  'idempotencyKey',
  'signal',
  'timeoutMs',
  'retries',
  'headers',
  'onResponse',
] satisfies (keyof CallOptions)[];

/** A credential, or a function that gets one; `expired`: the last one was refused. */
export type Credential = string | ((expired: boolean) => string | Promise<string>);

/** Where and as whom calls are made. */
export interface Transport {
  /** Without a slash at the end; empty for the page's own server. */
  url: string;
  fetch: typeof fetch;
  retries: number;
  timeoutMs: number;
  credential: (by: 'key' | 'token') => Credential | undefined;
}

/** A call that failed. */
export class LedgerError extends Error {
  override readonly name = 'LedgerError';
  /** 0: there was no answer. */
  readonly status: number;
  /** The API's code. `no_answer`: none came; `bad_answer`: it was not the API's; `no_credential`: none was given. */
  readonly code: ErrorCode | 'no_answer' | 'bad_answer' | 'no_credential';
  readonly requestId: string | undefined;
  /** The first wrong field. */
  readonly details: Problem['details'];
  /** All wrong fields. */
  readonly errors: Problem['errors'];
  /** The key of the request: sent again with it, the request is done once. */
  readonly idempotencyKey: string | undefined;
  /** Whether the request may have been done although it failed. */
  readonly isOutcomeUnknown: boolean;
  /** Seconds after which the server may be asked again. */
  readonly retryAfter: number | undefined;

  constructor(message: string, fields: Partial<Omit<LedgerError, 'name' | 'message'>> & { cause?: unknown }) {
    super(message, { cause: fields.cause });
    this.status = fields.status ?? 0;
    this.code = fields.code ?? 'no_answer';
    this.requestId = fields.requestId;
    this.details = fields.details;
    this.errors = fields.errors;
    this.idempotencyKey = fields.idempotencyKey;
    this.isOutcomeUnknown = fields.isOutcomeUnknown ?? false;
    this.retryAfter = fields.retryAfter;
  }
}

/** A call as it goes out: the same bytes on each attempt. */
interface Outgoing {
  url: string;
  by: Operation['by'];
  init: { method: string; headers: Record<string, string>; body?: string | Uint8Array | ReadableStream<Uint8Array> };
  repeatable: boolean;
  idempotencyKey: string | undefined;
  wantsResponse: boolean;
}

/** Query and options of one call. */
export type Given = CallOptions & Record<string, unknown>;

const firstPauseMs = 200;
// A longer pause is the caller's to make: the error says how long.
const longestPauseMs = 30_000;

/** Sends a call; `parameters` fill the path in their order. */
export async function send(
  transport: Transport,
  operation: Operation,
  parameters: readonly string[],
  body: unknown,
  given: Given = {},
): Promise<{ response: Response; json: unknown }> {
  const outgoing = outgoingOf(transport, operation, parameters, body, given);
  const attempts = outgoing.repeatable ? 1 + (given.retries ?? transport.retries) : 1;
  let isRefreshed = false;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const answer = await sendOnce(transport, outgoing, given, isRefreshed);
      given.onResponse?.(answer.response);
      return answer;
    } catch (thrown) {
      if (!(thrown instanceof LedgerError) || given.signal?.aborted === true) throw thrown;
      // Not done: a new credential may do, also for what must not be repeated.
      if (thrown.status === 401 && !isRefreshed && outgoing.by !== 'none' && typeof transport.credential(outgoing.by) === 'function') {
        isRefreshed = true;
        attempt -= 1;
        continue;
      }
      const isPassing =
        [0, 408, 429, 500, 502, 503, 504].includes(thrown.status) && thrown.code !== 'no_credential' && thrown.code !== 'test_failed';
      const pauseMs = (thrown.retryAfter ?? 0) * 1000 || firstPauseMs * 2 ** (attempt - 1) * (0.5 + Math.random());
      if (!isPassing || attempt >= attempts || pauseMs > longestPauseMs) throw thrown;
      await pause(pauseMs, given.signal);
    }
  }
}

/** Waits; ends at once, and throws, where the signal is aborted. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', end);
      resolve();
    }, ms);
    signal?.addEventListener('abort', end, { once: true });
  });
}

function outgoingOf({ url }: Transport, operation: Operation, parameters: readonly string[], body: unknown, given: Given): Outgoing {
  const rest = [...parameters];
  const path = operation.path.replaceAll(/\{\w+\}/g, (name) => {
    const value = rest.shift();
    // A path with dots would be another route's.
    if (value === undefined || ['', '.', '..'].includes(value))
      throw new TypeError(`${name.slice(1, -1)} is ${JSON.stringify(value ?? '')}`);
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value == null || optionNames.includes(name)) continue;
    for (const each of [value as string | number | boolean | string[]].flat()) query.append(name, `${each}`);
  }
  const text = query.toString();
  const idempotencyKey = keyOf(operation, body, given);
  const isStream = body instanceof ReadableStream;
  const headers = {
    ...(body !== undefined && operation.body !== undefined && { 'content-type': operation.body }),
    ...(idempotencyKey !== undefined && !hasOwnKey(body) && { 'idempotency-key': idempotencyKey }),
    ...given.headers,
  };
  const bytes = operation.body === 'application/json' ? JSON.stringify(body) : (body as string | Uint8Array | ReadableStream<Uint8Array>);
  return {
    url: `${url}${path}${text === '' ? '' : `?${text}`}`,
    by: operation.by,
    init: { method: operation.method, headers, ...(body !== undefined && { body: bytes }) },
    repeatable: operation.repeatable === true && !isStream,
    idempotencyKey,
    wantsResponse: operation.answer === 'response' || (given['format'] !== undefined && given['format'] !== 'json'),
  };
}

const hasOwnKey = (body: unknown): body is { idempotency_key: string } =>
  (body as { idempotency_key?: unknown } | undefined)?.idempotency_key != null;

function keyOf({ takesKey = false }: Operation, body: unknown, given: Given): string | undefined {
  if (!takesKey) return undefined;
  if (hasOwnKey(body)) return body.idempotency_key;
  return given.idempotencyKey ?? (given['dry_run'] === true ? undefined : crypto.randomUUID());
}

async function sendOnce(
  transport: Transport,
  outgoing: Outgoing,
  given: Given,
  expired: boolean,
): Promise<{ response: Response; json: unknown }> {
  const { url, by, init, idempotencyKey, wantsResponse } = outgoing;
  const authorization = by === 'none' ? {} : { authorization: `Bearer ${await credentialOf(transport, by, expired)}` };
  const timeoutMs = given.timeoutMs ?? transport.timeoutMs;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  const signal = given.signal ? AbortSignal.any([given.signal, late.signal]) : late.signal;
  const changes = init.method !== 'GET';
  try {
    const streamed = init.body instanceof ReadableStream ? { duplex: 'half' } : {};
    const response = await transport.fetch(url, {
      ...init,
      ...streamed,
      headers: { ...init.headers, ...authorization },
      signal,
      // Credentials, and passwords in bodies, go to no other server.
      redirect: 'manual',
    } as RequestInit);
    // A file is read by the caller, for as long as it takes.
    if (response.ok && wantsResponse) return { response, json: undefined };
    const text = await response.text();
    if (response.ok) return { response, json: readJson(text) ?? badAnswer(response, idempotencyKey, changes) };
    throw refusalOf(response, readJson(text), idempotencyKey, changes);
  } catch (thrown) {
    if (thrown instanceof LedgerError || given.signal?.aborted === true) throw thrown;
    const cause = late.signal.aborted ? (late.signal.reason as unknown) : thrown;
    throw new LedgerError(`no answer: ${messageOf(cause)}`, { code: 'no_answer', idempotencyKey, isOutcomeUnknown: changes, cause });
  } finally {
    clearTimeout(timer);
  }
}

async function credentialOf({ credential }: Transport, by: 'key' | 'token', expired: boolean): Promise<string> {
  const found = credential(by);
  if (found === undefined)
    throw new LedgerError(by === 'key' ? 'this call needs a key' : 'this call needs a token', { code: 'no_credential' });
  return typeof found === 'string' ? found : found(expired);
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function badAnswer(response: Response, idempotencyKey: string | undefined, changes: boolean): never {
  throw new LedgerError('the answer is no JSON', {
    status: response.status,
    code: 'bad_answer',
    idempotencyKey,
    isOutcomeUnknown: changes,
  });
}

function refusalOf(response: Response, json: unknown, idempotencyKey: string | undefined, changes: boolean): LedgerError {
  const { status, headers } = response;
  const problem = (json ?? {}) as Partial<Problem>;
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  const target = headers.get('location');
  const other = target === null ? `the server answered ${status}` : `the server redirects to ${target}, which is not followed`;
  return new LedgerError(problem.error ?? other, {
    status,
    code: problem.code ?? 'bad_answer',
    requestId: problem.request_id ?? headers.get('x-request-id') ?? undefined,
    details: problem.details,
    errors: problem.errors,
    idempotencyKey,
    isOutcomeUnknown: changes && status >= 500,
    retryAfter: Number.isFinite(seconds) ? seconds : undefined,
  });
}

/** The innermost reason: `fetch failed` says nothing. */
function messageOf(thrown: unknown): string {
  const { cause, message } = thrown as { cause?: unknown; message?: string };
  return cause instanceof Error && cause.message !== '' ? messageOf(cause) : (message ?? String(thrown));
}
