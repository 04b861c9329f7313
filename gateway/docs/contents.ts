// The pages of the guide, in the order of its front page.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path/posix';

/** One page: `path` is relative to `gateway/docs`, without `.md`; the front page is `index`. */
export interface GuidePage {
  path: string;
  section: string;
  /** The path of the page that lists it, unless that is the front page. */
  parent?: string;
  title: string;
  text: string;
}

/** Reads the front page, every page that it lists, and after each those in a folder beneath, which that page lists in its tables. */
export function readPages(directory: string): GuidePage[] {
  const read = (path: string) => readFileSync(join(directory, `${path}.md`), 'utf8');
  const front = { path: 'index', section: '', title: 'Guide', text: read('index') };
  const pages: GuidePage[] = [front];
  for (const part of front.text.split(/^## /m).slice(1)) {
    const section = part.slice(0, part.indexOf('\n'));
    for (const [, title = '', path = ''] of part.matchAll(/^- \[([^\]]+)\]\(([^)]+)\.md\)/gm)) {
      const page = { path, section, title, text: read(path) };
      pages.push(page);
      for (const [, name = '', below = ''] of page.text.matchAll(/^\| \[([^\]]+)\]\((\w[^)#]*\/[^)#]+)\.md\)/gm)) {
        const own = join(dirname(path), below);
        pages.push({ path: own, section, title: name, parent: path, text: read(own) });
      }
    }
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
