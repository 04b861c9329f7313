// The header fields of answers, for the OpenAPI document.
import { schemaOfHeader } from './openapi-webhooks.ts';

const headers = {
  'X-Request-Id': {
    description: 'The id of the request: the client’s own if it has 1 to 128 characters of `A-Za-z0-9._-`.',
    example: 'req-7f3a',
  },
  'Idempotent-Replayed': { description: '`true`: an earlier request did it.', example: 'true' },
  'Retry-After': { description: 'Seconds to wait before the next attempt.', example: 1 },
  'WWW-Authenticate': {
    description: 'How to authenticate, or which scope the credential lacks (RFC 6750).',
    example: 'Bearer realm="ledger"',
  },
  Location: { description: 'Where the browser goes.', example: 'https://app.example.com/' },
  'Set-Cookie': {
    description: 'Keeps the login in this browser, or removes it.',
    example: '__Host-oidc-login=…; Path=/; Secure; HttpOnly',
  },
  'Accept-Encoding': { description: '`identity`: the body must not be compressed. Only sent if it was.', example: 'identity' },
  ETag: { description: 'The SHA-256 of all bytes.', example: '"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"' },
  'Accept-Ranges': { description: 'A part can be asked for with `Range`.', example: 'bytes' },
  'Content-Range': { description: 'Which bytes these are, and how many there are.', example: 'bytes 1000-1999/8400000' },
  'X-Through-Sequence': { description: 'The position of the log as of which the export reads.', example: '31' },
  'RateLimit-Policy': { description: 'The limit: quota and window in seconds.', example: '"login";q=10;w=900' },
  RateLimit: { description: 'What remains of the quota, and the seconds until it grows.', example: '"login";r=9;t=900' },
} as const;

/** The name of a documented header field. */
export type HeaderName = keyof typeof headers;

/** References to these header fields, and to `X-Request-Id`, which every answer has. */
export function headerDocs(names: readonly HeaderName[]): object {
  const refs = ['X-Request-Id' as const, ...names].map((name) => [name, { $ref: `#/components/headers/${name}` }]);
  return Object.fromEntries(refs) as object;
}

/** The header fields of answers, as components of the document. */
export const headerComponents: object = Object.fromEntries(
  Object.entries(headers).map(([name, { description, example }]) => [name, { description, schema: schemaOfHeader(example), example }]),
);

/** The header fields of a rate limit. */
export const rateLimitHeaderNames: HeaderName[] = ['RateLimit-Policy', 'RateLimit'];
/** Header fields of errors by status. */
export const headersOfStatus: Record<number, HeaderName[]> = {
  401: ['WWW-Authenticate'],
  403: ['WWW-Authenticate'],
  415: ['Accept-Encoding'],
  416: ['Content-Range'],
  429: ['Retry-After', ...rateLimitHeaderNames],
  503: ['Retry-After'],
};
