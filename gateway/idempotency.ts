// The `Idempotency-Key` header: the same as the body's `idempotency_key`, bare or as a quoted string of RFC 9651.
import { isUtf8 } from 'node:buffer';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Replaces a key that the body and the header, or two headers, give differently; `body` is the value to repeat. */
export class HeaderConflict {
  readonly body: unknown;

  constructor(body: unknown) {
    this.body = body;
  }
}

/** A preValidation hook that puts the header's key into the body, where it is validated; two headers conflict. */
export function takeKeyHeader(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const header = request.headers['idempotency-key'];
  if (typeof header === 'string') {
    const body = (request.body ??= {}) as Record<string, unknown>;
    if (typeof body === 'object' && !Array.isArray(body)) {
      const key = keyOf(header);
      const field = body['idempotency_key'];
      // Node joins several headers with commas.
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
  // Node reads header bytes as Latin-1; clients send UTF-8, as in the body.
  const bytes = Buffer.from(key, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : key;
}
