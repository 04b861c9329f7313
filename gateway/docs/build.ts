// Builds the guide, its search index and assets: `node gateway/docs/build.ts <directory>`.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';
import { readPages } from './contents.ts';
import { documentOf } from './layout.ts';
import { renderPage } from './markdown.ts';

const source = import.meta.dirname;
const [directory = join(source, 'built')] = process.argv.slice(2);
const target = resolve(directory);

function write(name: string, content: string | Uint8Array): void {
  mkdirSync(dirname(join(target, name)), { recursive: true });
  writeFileSync(join(target, name), content);
}

const entryPoints = ['page.css', 'page.js', 'theme.js'].map((name) => join(source, 'site', name));
const { outputFiles } = await build({ entryPoints, outdir: target, bundle: true, minify: true, write: false, target: 'es2023' });
const stamp = createHash('sha256');
for (const { path, contents } of outputFiles) {
  write(path.slice(target.length + 1), contents);
  stamp.update(contents);
}
const pages = readPages(source);
const search: string[][] = [];
const version = stamp.digest('hex').slice(0, 8);
for (const page of pages) {
  const rendered = renderPage(page.text, page.path);
  write(`${page.path}.html`, documentOf(page, rendered, pages, version));
  const address = page.path === 'index' ? '' : page.path;
  for (const { id, heading, text } of rendered.parts)
    search.push([id === '' ? address : `${address}#${id}`, rendered.title, id === '' ? '' : heading, text.replace(/\s+/g, ' ').trim()]);
}
write('search.json', JSON.stringify(search));
write('icon.svg', readFileSync(join(source, '../console/icon.svg')));
const images = join(source, 'images');
if (existsSync(images)) for (const name of readdirSync(images)) write(`images/${name}`, readFileSync(join(images, name)));
for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
  if (/\.(html|css|js|json)$/.test(name)) write(`${name}.br`, brotliCompressSync(readFileSync(join(target, name))));
}
