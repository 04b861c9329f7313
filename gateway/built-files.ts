// Files that a build wrote for browsers: read at the first request, sent with an ETag, compressed where the browser takes it.
import { hash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** The content security policy of console and guide: nothing from elsewhere, nothing inline, no script from text. */
export const policy = [
  `default-src 'none'`,
  `script-src 'self'`,
  `style-src 'self'`,
  `img-src 'self' data:`,
  `font-src 'self'`,
  `connect-src 'self'`,
  `form-action 'none'`,
  `frame-ancestors 'none'`,
  `base-uri 'none'`,
  `require-trusted-types-for 'script'`,
  `trusted-types 'none'`,
].join('; ');

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
};

/** One of them; `brotli` is absent where compression gains nothing. */
export interface BuiltFile {
  type: string;
  etag: string;
  plain: Buffer;
  brotli: Buffer | undefined;
}

/** The files by their names below the directory, folders separated by `/`; none where nothing is built. */
export function readBuiltFiles(directory: string): Map<string, BuiltFile> {
  const names = new Set(namesIn(directory));
  const read = (name: string): [string, BuiltFile] => {
    const plain = readFileSync(join(directory, name));
    const brotli = names.has(`${name}.br`) ? readFileSync(join(directory, `${name}.br`)) : undefined;
    return [name, { type: types[extname(name)] ?? '', etag: `"${hash('sha256', plain, 'base64url')}"`, plain, brotli }];
  };
  return new Map([...names].filter((name) => extname(name) in types).map(read));
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory, { recursive: true, encoding: 'utf8' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Sends a file under the policy, or 304 to a browser that has it. */
export function sendBuiltFile(request: FastifyRequest, reply: FastifyReply, file: BuiltFile): FastifyReply {
  const { type, etag, plain, brotli } = file;
  reply.headers({ 'content-type': type, 'content-security-policy': policy, 'referrer-policy': 'no-referrer' });
  reply.headers({ 'cache-control': 'no-cache', vary: 'accept-encoding', etag });
  if (request.headers['if-none-match'] === etag) return reply.code(304).send();
  if (!brotli || !/\bbr\b/.test(request.headers['accept-encoding']?.toString() ?? '')) return reply.send(plain);
  return reply.header('content-encoding', 'br').send(brotli);
}
