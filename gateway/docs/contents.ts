// The pages of the guide, in the order of its front page.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One page: `path` is relative to `gateway/docs`, without `.md`; the front page is `index`. */
export interface GuidePage {
  path: string;
  section: string;
  title: string;
  text: string;
}

/** Reads the front page and every page that it lists. */
export function readPages(directory: string): GuidePage[] {
  const read = (path: string) => readFileSync(join(directory, `${path}.md`), 'utf8');
  const front = { path: 'index', section: '', title: 'Guide', text: read('index') };
  const pages = [front];
  for (const part of front.text.split(/^## /m).slice(1)) {
    const section = part.slice(0, part.indexOf('\n'));
    for (const [, title = '', path = ''] of part.matchAll(/^- \[([^\]]+)\]\(([^)]+)\.md\)/gm))
      pages.push({ path, section, title, text: read(path) });
  }
  return pages;
}

/** The id of a heading, as links name it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^a-z0-9 -]/g, '')
    .replaceAll(' ', '-');
}
