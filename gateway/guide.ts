// Serves the guide: pages that `gateway/docs/build.ts` made from Markdown.
import { join } from 'node:path';
import { readBuiltFiles, sendBuiltFile, type BuiltFile } from './built-files.ts';
import { ApiError } from './errors.ts';
import type { App } from './request-context.ts';

/** `/docs/guide/*`; 404 where nothing is built. */
export function guidePages(app: App, directory = join(import.meta.dirname, 'docs', 'built')): void {
  let files: Map<string, BuiltFile> | undefined;
  for (const url of ['/docs/guide', '/docs/guide/*']) {
    app.get(url, (request, reply) => {
      if (!files?.size) files = readBuiltFiles(directory);
      // The absolute form of RFC 9112 has a host before the path.
      const path = /^(?:https?:\/\/[^/]*)?\/docs\/guide(?:\/([^?]*))?/.exec(request.url)?.[1];
      const file = files.get(path === '' ? 'index.html' : `${path}.html`) ?? files.get(path ?? '');
      // Links are relative, so that a proxy may serve the guide below another path.
      if (path === undefined && files.has('index.html')) return reply.redirect('guide/');
      const withoutSlash = path?.replace(/\/$/, '') ?? '';
      if (!file && files.has(`${withoutSlash}.html`)) return reply.redirect(`../${withoutSlash.split('/').at(-1) ?? ''}`);
      if (!file) throw new ApiError('route_not_found');
      return sendBuiltFile(request, reply, file);
    });
  }
}
