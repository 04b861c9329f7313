// Serves the console and its session: the refresh token stays in a cookie that no script can read.
import { join } from 'node:path';
import { Code, ConnectError } from '@connectrpc/connect';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { policy, readBuiltFiles, sendBuiltFile, type BuiltFile } from './built-files.ts';
import { ApiError } from './errors.ts';
import { email, object, optional, secret } from './fields.ts';
import { callOptions, originOf, type App } from './request-context.ts';
import { sessionRecord, totpCode } from './routes/users.ts';
import type { Services } from './services.ts';

/** `/console`, its files, and `/console/session`. `directory` is where `gateway/console/build.ts` wrote to. */
export function consoleRoutes(app: App, services: Services, directory = join(import.meta.dirname, 'console', 'built')): void {
  let files: Map<string, BuiltFile> | undefined;
  for (const url of ['/console', '/console/*']) {
    app.get(url, (request, reply) => {
      if (!files?.size) files = readBuiltFiles(directory);
      // Below the folder itself every path is one of the program's pages, unless it is a file.
      const path = /^(?:https?:\/\/[^/]*)?\/console(?:\/([^?]*))?/.exec(request.url)?.[1];
      const file = files.get(path ?? '') ?? files.get('index.html');
      if (!file || (/^[^/]*\.[^/]*$/.test(path ?? '') && !files.has(path ?? ''))) throw new ApiError('route_not_found');
      reply.headers({ 'content-security-policy': policy, 'referrer-policy': 'no-referrer', 'cache-control': 'no-cache' });
      // Its files are named relative to it, so that a proxy may serve it below another path.
      if (path === undefined) return reply.redirect(`console/`, 302);
      return send(request, reply, file, path);
    });
  }
  sessionRoutes(app, services);
}

function send(request: FastifyRequest, reply: FastifyReply, file: BuiltFile, path: string): FastifyReply {
  const up = '../'.repeat(path.split('/').length - 1);
  if (!file.type.startsWith('text/html') || up === '') return sendBuiltFile(request, reply, file);
  return reply.header('content-type', file.type).send(file.plain.toString().replaceAll(/(href|src)="/g, `$&${up}`));
}

/** Opens, renews and ends the session of a browser. Only pages of this server may call: `Sec-Fetch-Site` can't be set by a script. */
function sessionRoutes(app: App, { identity }: Services): void {
  const renewals = new Renewals(identity);
  const credentials = object({ email, password: secret(1, 128, {}), totp_code: optional(totpCode) });
  app.post('/console/session', { schema: { body: credentials }, onRequest: fromOwnPage }, async (request, reply) => {
    const { email: address, password, totp_code: code } = request.body;
    const given = { email: address, password, totpCode: code ?? undefined, ...originOf(request) };
    const { session, user } = await identity.login(given, callOptions(request, 15_000));
    return answer(reply, sessionRecord(session, user));
  });

  app.post('/console/session/refresh', { onRequest: fromOwnPage }, async (request, reply) => {
    const refreshToken = cookieOf(request);
    // No error: every first visit asks.
    if (refreshToken === undefined) return { success: true, data: { session: null } };
    try {
      return answer(reply, await renewals.renew(refreshToken, originOf(request)));
    } catch (error) {
      if (error instanceof ConnectError && error.code === Code.Unauthenticated) reply.header('set-cookie', cookie('', 0));
      throw error;
    }
  });

  app.delete('/console/session', { onRequest: fromOwnPage }, async (request, reply) => {
    const refreshToken = cookieOf(request);
    if (refreshToken !== undefined) {
      await identity.logout({ refreshToken, clientAddress: request.ip }, callOptions(request, 5_000));
      await renewals.forget(refreshToken);
    }
    reply.header('set-cookie', cookie('', 0));
    return { success: true, data: {} };
  });
}

const repeatMs = 10_000;

/**
 * Renews sessions. A page that is reloaded while it renews loses the answer, and the next one sends the token again, which identity would
 * take for a stolen one. So for ten seconds the same token gets the same answer.
 */
class Renewals {
  private readonly identity: Services['identity'];
  private readonly recent = new Map<string, Promise<Record<string, unknown>>>();

  constructor(identity: Services['identity']) {
    this.identity = identity;
  }

  renew(refreshToken: string, origin: ReturnType<typeof originOf>): Promise<Record<string, unknown>> {
    const known = this.recent.get(refreshToken);
    if (known) return known;
    // Not bound to its request, whose page may be gone.
    const renewed = this.identity
      .refresh({ refreshToken, ...origin }, { timeoutMs: 5_000 })
      .then(({ session, user }) => sessionRecord(session, user));
    this.recent.set(refreshToken, renewed);
    const forget = () => this.recent.delete(refreshToken);
    renewed.then(() => setTimeout(forget, repeatMs).unref(), forget);
    return renewed;
  }

  /** After a log-out the answer with its token is not repeated. */
  async forget(refreshToken: string): Promise<void> {
    for (const [used, renewed] of this.recent) {
      const record = await renewed.catch(() => undefined);
      if (record?.['refresh_token'] === refreshToken) this.recent.delete(used);
    }
  }
}

function answer(reply: FastifyReply, record: Record<string, unknown>): object {
  const { refresh_token: refreshToken, ...session } = record;
  reply.header('set-cookie', cookie(String(refreshToken), refreshSeconds));
  return { success: true, data: { session } };
}

const name = '__Host-ledger_session';
const refreshSeconds = 30 * 86_400;

function cookie(value: string, seconds: number): string {
  return `${name}=${value}; Max-Age=${seconds}; Path=/; HttpOnly; Secure; SameSite=Strict`;
}

function cookieOf({ headers }: FastifyRequest): string | undefined {
  const found = (headers.cookie ?? '').split(/; */).find((each) => each.startsWith(`${name}=`));
  return found?.slice(name.length + 1) || undefined;
}

function fromOwnPage(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const isOwn = request.headers['sec-fetch-site'] === 'same-origin';
  done(isOwn ? undefined : new ApiError('forbidden', { message: 'only pages of this server may use the session of the console' }));
}
