// What a route documents beyond its schemas.
import type { Access } from './auth.ts';
import type { ErrorCode, FieldDetail } from './errors.ts';
import type { HeaderName } from './openapi-headers.ts';

/** One successful answer of a route. */
export interface Answer {
  description: string;
  /** Schema of `data`; for an answer outside the envelope, of the whole body. */
  schema: object;
  /** An example of the same. */
  example: unknown;
  /** `message` of the envelope. */
  message?: string;
  /** Header fields beyond `X-Request-Id`. */
  headers?: HeaderName[];
  /** Media type of an answer without the envelope. */
  unwrappedType?: string;
  /** Files that the request may ask for instead, as examples by media type. */
  files?: Record<string, string>;
  /** Answers a dry run too. */
  tries?: boolean;
  /** What `…Result` and `…Data` are called instead of the operation, where several operations answer the same. */
  name?: string;
}

/** What a route documents beyond its schemas. */
export interface Doc {
  id: string;
  tag: string;
  summary: string;
  description?: string;
  /** Examples of the body by name. */
  bodies?: Record<string, unknown>;
  /** A body that is no JSON, and how it is documented. */
  stream?: { type: string; schema: object; example: string };
  /** The body may be left out. */
  bodyOptional?: boolean;
  /** Takes an `Idempotency-Key` header. */
  idempotent?: boolean;
  answers: Record<number, Answer>;
  /** Answers 302, as described here. */
  redirect?: string;
  /** Error codes beyond those that follow from access, body and query. */
  errors?: ErrorCode[];
  /** Changes to {@link exampleFields} for the examples of this route's errors, several where an error may name one of several fields. */
  errorFields?: Partial<Record<ErrorCode, Partial<FieldDetail> | Partial<FieldDetail>[]>>;
  /** May be repeated without that header: a second call does nothing more. */
  repeatable?: boolean;
  /** The same as another operation, on another path: client libraries leave it out. */
  isAlias?: boolean;
  /** Error statuses besides 429 that carry the RateLimit headers. */
  rateLimitHeadersOn?: number[];
}

declare module 'fastify' {
  interface FastifyContextConfig {
    doc?: Doc;
  }
}

/** A route as the document needs it. */
export interface DocumentedRoute {
  access: Access;
  doc: Doc;
  hasBody: boolean;
  hasQuery: boolean;
  /** Whether a body is parsed, also where none is expected. */
  readsBody: boolean;
  /** Whether the path or query names an account; otherwise account errors are about a field of the body. */
  ofAccount: boolean;
}
