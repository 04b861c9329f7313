// The guide as a browser gets it: every link leads somewhere, and nothing comes from another server.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import Fastify from 'fastify';
import { root } from '../deploy/local/plan.ts';
import { currentRun } from '../test/run.ts';
import { readPages } from './docs/contents.ts';
import { guidePages } from './guide.ts';
import type { App } from './request-context.ts';

const directory = mkdtempSync(join(currentRun().directory, 'guide-'));
const app = Fastify({ routerOptions: { ignoreTrailingSlash: true } }) as unknown as App;
const get = (path: string, headers: Record<string, string> = {}) => app.inject({ method: 'GET', url: `/docs/guide${path}`, headers });

beforeAll(() => {
  execFileSync(process.execPath, [join(root, 'gateway/docs/build.ts'), directory]);
  guidePages(app, directory);
});

afterAll(() => app.close());

test('each page answers under the strict policy, and every link and asset of it exists', async () => {
  const pages = readPages(join(root, 'gateway/docs'));
  expect(pages.length).toBeGreaterThan(35);
  const answers = new Map<string, Awaited<ReturnType<typeof get>>>();
  for (const { path } of pages) {
    const address = path === 'index' ? '/' : `/${path}`;
    const { statusCode, headers, body } = await get(address);
    expect([path, statusCode, headers['content-type']]).toEqual([path, 200, 'text/html; charset=utf-8']);
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';.*trusted-types 'none'$/);
    expect(body).not.toMatch(/<script(?![^>]* src=)|\sstyle=|\son[a-z]+=|(src|href)="https?:[^"]*\.(js|css|png)/);
    for (const [, target = ''] of body.matchAll(/(?:href|src)="([^"]+)"/g)) {
      const { pathname, hash, origin } = new URL(target, `http://guide/docs/guide${address}`);
      if (origin !== 'http://guide' || !pathname.startsWith('/docs/guide')) continue;
      const linked = answers.get(pathname) ?? (await app.inject({ method: 'GET', url: pathname }));
      answers.set(pathname, linked);
      if (linked.statusCode !== 200) throw new Error(`${path} links to ${target}, which answers ${linked.statusCode}`);
      if (hash !== '') expect(linked.body).toContain(`id="${hash.slice(1)}"`);
    }
  }
});

test('a build gives the same bytes each time', () => {
  const again = mkdtempSync(join(currentRun().directory, 'guide-'));
  execFileSync(process.execPath, [join(root, 'gateway/docs/build.ts'), again]);
  const files = (place: string) => readdirSync(place, { recursive: true, encoding: 'utf8' }).filter((name) => /\.\w+$/.test(name));
  for (const name of files(directory)) expect(readFileSync(join(again, name)).equals(readFileSync(join(directory, name)))).toBe(true);
  expect(files(again)).toEqual(files(directory));
});

test('the search index finds each page by a word of its title', async () => {
  const rows = JSON.parse((await get('/search.json')).body) as [string, string, string, string][];
  const found = new Set(rows.map(([address]) => address.split('#')[0]));
  expect(readPages(join(root, 'gateway/docs')).filter(({ path }) => !found.has(path === 'index' ? '' : path))).toEqual([]);
});

test('addresses without and with a slash lead to the page, unknown ones to 404', async () => {
  expect([(await get('')).statusCode, (await get('')).headers.location]).toEqual([302, 'guide/']);
  expect((await get('/reference/errors/')).headers.location).toBe('../errors');
  for (const path of ['/nothing', '/reference/errors.md', '/../guide.ts', '/%2e%2e/build.ts'])
    expect((await get(path)).statusCode).toBe(404);
});

test('a browser that has a page gets 304, one that takes brotli gets that', async () => {
  const { etag = '' } = (await get('/')).headers as Record<string, string>;
  expect((await get('/', { 'if-none-match': etag })).statusCode).toBe(304);
  const compressed = await get('/page.js', { 'accept-encoding': 'gzip, br' });
  expect([compressed.headers['content-encoding'], compressed.headers['vary']]).toEqual(['br', 'accept-encoding']);
  expect(compressed.rawPayload.length).toBeLessThan(10_000);
});

test('where nothing is built the guide is 404', async () => {
  const bare = Fastify() as unknown as App;
  guidePages(bare, join(directory, 'nothing'));
  expect((await bare.inject({ method: 'GET', url: '/docs/guide' })).statusCode).not.toBe(200);
  await bare.close();
});
