// Markdown to HTML: anchors, links between pages, highlighted code, tables that scroll.
import { createRequire } from 'node:module';
import MarkdownIt from 'markdown-it';
import { anchorOf } from './contents.ts';

type Tokens = ReturnType<MarkdownIt['parse']>;

// Not imported: its types would bring those of browsers into every file.
const require = createRequire(import.meta.url);
const hljs = require('highlight.js/lib/core') as Highlighter;
interface Highlighter {
  registerLanguage: (name: string, language: unknown) => void;
  highlight: (code: string, options: { language: string }) => { value: string };
}
const files = {
  sh: 'bash',
  console: 'bash',
  js: 'javascript',
  ts: 'typescript',
  python: 'python',
  go: 'go',
  json: 'json',
  sql: 'sql',
  yaml: 'yaml',
};
for (const [name, file] of Object.entries(files)) hljs.registerLanguage(name, require(`highlight.js/lib/languages/${file}`));

const markdown = new MarkdownIt({ html: false });
export const { escapeHtml } = markdown.utils;

const { rules } = markdown.renderer;
rules['fence'] = (tokens, at) => {
  const { info = '', content = '' } = tokens[at] ?? {};
  const [language = '', file] = info.split(' ');
  const code = language in files ? hljs.highlight(content, { language }).value : escapeHtml(content);
  const name = file === undefined ? '' : ` data-file="${escapeHtml(file)}"`;
  // It scrolls, so the keyboard must reach it.
  return `<pre tabindex="0" data-language="${escapeHtml(language)}"${name}><code>${code}</code></pre>\n`;
};
rules['table_open'] = (_tokens, _at, _options, env: { tables?: number }) => {
  env.tables = (env.tables ?? 0) + 1;
  return `<section class="table" aria-label="Table ${env.tables}" tabindex="0"><table>\n`;
};
rules['table_close'] = () => '</table></section>\n';
rules['heading_close'] = (tokens, at) => {
  const { tag = '' } = tokens[at] ?? {};
  const id = tokens[at - 2]?.attrGet('id');
  const anchor = id == null ? '' : ` <a class="anchor" href="#${id}" tabindex="-1" aria-label="Link to this section">#</a>`;
  return `${anchor}</${tag}>\n`;
};

/** A heading of a page, and the plain text after it. The part before the first heading has no id. */
export interface PagePart {
  id: string;
  heading: string;
  level: number;
  text: string;
}

/** A rendered page: its first heading, the HTML, and its parts for search and the list on its side. */
export interface RenderedPage {
  title: string;
  html: string;
  parts: PagePart[];
}

/** Renders a page. `path` is its place, from which links are relative. */
export function renderPage(text: string, path: string): RenderedPage {
  const tokens = markdown.parse(text, {});
  const parts: PagePart[] = [{ id: '', heading: '', level: 1, text: '' }];
  tokens.forEach((token, at) => {
    const inline = tokens[at + 1];
    if (token.type === 'heading_open' && inline) {
      const heading = plain(inline.children ?? []);
      const level = Number(token.tag.slice(1));
      if (level > 1) {
        token.attrSet('id', anchorOf(inline.content));
        parts.push({ id: anchorOf(inline.content), heading, level, text: '' });
      } else Object.assign(parts[0] ?? {}, { heading });
    }
    const part = parts.at(-1);
    if (token.type === 'inline' && tokens[at - 1]?.type !== 'heading_open' && part) part.text += `${plain(token.children ?? [])} `;
    if (path === 'index' && token.level > 2) asCard(token.children ?? []);
    for (const child of token.children ?? []) {
      const target = child.type === 'link_open' ? child.attrGet('href') : null;
      if (target !== null) child.attrSet('href', addressOf(target, path));
    }
  });
  return { title: parts[0]?.heading ?? '', html: markdown.renderer.render(tokens, markdown.options, {}), parts };
}

function plain(tokens: Tokens): string {
  return tokens.map(({ type, content }) => (type === 'text' || type === 'code_inline' ? content : ' ')).join('');
}

/** On the front page a colon after a link becomes the line below it. */
function asCard(tokens: Tokens): void {
  const after = tokens.at(-1);
  if (after?.content.startsWith(': ') === true) after.content = after.content.charAt(2).toUpperCase() + after.content.slice(3);
}

/** The address of what a page links to: a page has no extension, and the front page is the directory. */
function addressOf(target: string, from: string): string {
  if (/^https?:/.test(target)) return target;
  const address = target.replace(/\.md(?=#|$)/, '').replace(/(^|\/)index(?=#|$)/, '$1');
  return address === '' && from === 'index' ? './' : address;
}
