// Serves the page to which the links of mails lead. It is static: a GET uses no token, because mail scanners follow links.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { App } from './request-context.ts';

const policy = [
  `default-src 'none'`,
  `script-src 'self'`,
  `style-src 'self'`,
  `connect-src 'self'`,
  `form-action 'none'`,
  `frame-ancestors 'none'`,
  `base-uri 'none'`,
].join('; ');

const files = { 'page.html': 'text/html', 'page.js': 'text/javascript', 'page.css': 'text/css' } as const;
const pages = ['verify-email', 'reset-password', 'accept-invitation'];

/** `/mail/*`. */
export function mailPages(app: App): void {
  const serve = (url: string, file: keyof typeof files): void => {
    const content = readFileSync(join(import.meta.dirname, 'mail-page', file));
    const headers = {
      'content-type': `${files[file]}; charset=utf-8`,
      'content-security-policy': policy,
      'referrer-policy': 'no-referrer',
    };
    app.get(url, (_request, reply) => reply.headers(headers).send(content));
  };
  for (const page of pages) serve(`/mail/${page}`, 'page.html');
  serve('/mail/page.js', 'page.js');
  serve('/mail/page.css', 'page.css');
}
