// The HTML around a page: header, contents, headings of the page, neighbours.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GuidePage } from './contents.ts';
import { escapeHtml, type RenderedPage } from './markdown.ts';

const icon = readFileSync(join(import.meta.dirname, '../console/icon.svg'), 'utf8')
  .trim()
  .replace('<svg ', '<svg aria-hidden="true" ');

/** The whole document of one page. `stamp` changes with the assets, so that caches fetch them anew. */
export function documentOf(page: GuidePage, rendered: RenderedPage, pages: GuidePage[], stamp: string): string {
  const isFront = page.path === 'index';
  const up = '../'.repeat(page.path.split('/').length - 1) || './';
  const title = isFront ? 'Ledger guide' : `${rendered.title} · Ledger guide`;
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width" />
    <meta name="color-scheme" content="light dark" />
    <title>${escapeHtml(title)}</title>
    <link rel="icon" href="${up}icon.svg" />
    <link rel="stylesheet" href="${up}page.css?${stamp}" />
    <script src="${up}theme.js?${stamp}"></script>
    <script src="${up}page.js?${stamp}" defer></script>
  </head>
  <body${isFront ? ' class="front"' : ''}>
    <a class="skip" href="#content">Skip to the content</a>
    <header>
      <button type="button" class="menu" popovertarget="contents">Contents</button>
      <a class="home" href="${up}">${icon}Ledger <span>guide</span></a>
      <button type="button" class="search" hidden>Search <kbd>/</kbd></button>
      <nav aria-label="Other pages"><a href="${up}../">API reference</a><a href="${up}../../console">Console</a></nav>
      <button type="button" class="theme" hidden></button>
    </header>
    <div class="columns">
      <nav id="contents" class="contents" aria-label="Contents" popover>
${contents(page, pages, up)}
      </nav>
      <main id="content">
        <article>
${rendered.html}
        </article>
${neighbours(page, pages, up)}
      </main>
${headings(rendered)}
    </div>
    <dialog aria-label="Search the guide" closedby="any">
      <form method="dialog" role="search">
        <input type="text" enterkeyhint="search" aria-label="Search the guide" placeholder="Search the guide" autocomplete="off" spellcheck="false" />
        <button>Close</button>
      </form>
      <p role="status"></p>
      <ol></ol>
    </dialog>
  </body>
</html>
`;
}

function link({ path, title }: GuidePage, up: string, more = ''): string {
  return `<a href="${up}${path}"${more}>${escapeHtml(title)}</a>`;
}

function contents(page: GuidePage, pages: GuidePage[], up: string): string {
  const sections = [...new Set(pages.map(({ section }) => section).filter((section) => section !== ''))];
  return sections
    .map((section) => {
      const items = pages
        .filter((each) => each.section === section && each.parent === undefined)
        .map((each) => `<li>${link(each, up, each === page || each.path === page.parent ? ' aria-current="page"' : '')}</li>`);
      return `<h2>${section}</h2>\n<ul>${items.join('\n')}</ul>`;
    })
    .join('\n');
}

function headings({ parts }: RenderedPage): string {
  const shown = parts.filter(({ level }) => level === 2);
  if (shown.length < 2) return '';
  const items = shown.map(({ id, heading }) => `<li><a href="#${id}">${escapeHtml(heading)}</a></li>`);
  return `<nav class="headings" aria-label="On this page"><h2>On this page</h2><ul>${items.join('\n')}</ul></nav>`;
}

function neighbours(page: GuidePage, all: GuidePage[], up: string): string {
  const pages = all.filter(({ parent }) => parent === page.parent);
  const at = pages.indexOf(page);
  const side = (other: GuidePage | undefined, word: string, rel: string) =>
    other === undefined || other.path === 'index'
      ? '<span></span>'
      : `<span><small>${word}</small>${link(other, up, ` rel="${rel}"`)}</span>`;
  return `<nav class="neighbours" aria-label="Neighbours">${side(pages[at - 1], 'Before', 'prev')}${side(pages[at + 1], 'Next', 'next')}</nav>`;
}
