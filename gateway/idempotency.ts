// The `Idempotency-Key` header: another way to say the body's `idempotency_key`, bare or as a quoted string of RFC 9651.
import { isUtf8 } from 'node:buffer';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HeaderConflict } from './json.ts';
import { ApiError } from './errors.ts';

/** Puts the header's key into the body, where it is checked like any other; of two headers neither counts. A preValidation hook. */
export function takeKeyHeader(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const header = request.headers['idempotency-key'];
  if (typeof header === 'string') {
    const key = keyOf(header);
    const body = (request.body ??= {}) as Record<string, unknown>;
    if (typeof body === 'object' && !Array.isArray(body) && !(body instanceof ApiError)) {
      const field = body['idempotency_key'];
      // Node joins what came in several headers.
      const isOne = !header.includes(',') || request.raw.headersDistinct['idempotency-key']?.length === 1;
      if (!isOne) body['idempotency_key'] = new HeaderConflict(field ?? header);
      else if (field === undefined || field === null) body['idempotency_key'] = key;
      else if (typeof field === 'string' && field !== key) body['idempotency_key'] = new HeaderConflict(field);
    }
  }
  done();
}

function keyOf(header: string): string {
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(header)?.[1];
  const key = quoted === undefined ? header : quoted.replaceAll(/\\(["\\])/g, '$1');
  // Node reads header bytes as Latin-1; clients send what they put into the body, which is UTF-8.
  const bytes = Buffer.from(key, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : key;
}
