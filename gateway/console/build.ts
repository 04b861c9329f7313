// Bundles the console for browsers: `node gateway/console/build.ts <directory>`.
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { build, type Plugin } from 'esbuild';

// React Aria empties an announcer by a way that Trusted Types forbid.
const trustedTypes: Plugin = {
  name: 'trusted types',
  setup(bundle) {
    bundle.onLoad({ filter: /LiveAnnouncer\.mjs$/ }, ({ path }) => {
      const source = readFileSync(path, 'utf8');
      return { contents: source.replaceAll(".innerHTML = ''", '.replaceChildren()'), loader: 'js' };
    });
  },
};

// React Aria's own words exist in 30 languages; the console's in the ones of `words.ts`.
const ownLanguages: Plugin = {
  name: 'own languages',
  setup(bundle) {
    const isOther = (path: string) => !path.includes('en-US');
    bundle.onLoad({ filter: /[/\\]intl[/\\].*[a-z]{2}-[A-Z]{2}\.m?js$/ }, ({ path }) =>
      isOther(path) ? { contents: 'export default {}', loader: 'js' } : undefined,
    );
  },
};

const [output = join(import.meta.dirname, 'built')] = process.argv.slice(2);
rmSync(output, { recursive: true, force: true });
mkdirSync(output, { recursive: true });
await build({
  entryPoints: [join(import.meta.dirname, 'main.tsx'), join(import.meta.dirname, 'main.css')],
  outdir: output,
  bundle: true,
  splitting: true,
  format: 'esm',
  jsx: 'automatic',
  minify: true,
  target: 'es2023',
  chunkNames: '[name]-[hash]',
  define: { 'process.env.NODE_ENV': '"production"' },
  plugins: [trustedTypes, ownLanguages],
  logLevel: 'warning',
});
for (const name of ['index.html', 'icon.svg']) copyFileSync(join(import.meta.dirname, name), join(output, name));
// As it is, so that its hash can be compared: a page checks proofs with the file that a customer checks them with.
copyFileSync(join(import.meta.dirname, '../../deploy/verifier/verify.mjs'), join(output, 'verify.mjs'));
for (const name of readdirSync(output)) {
  const content = readFileSync(join(output, name));
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  writeFileSync(join(output, `${name}.br`), brotliCompressSync(content, { params }));
}
