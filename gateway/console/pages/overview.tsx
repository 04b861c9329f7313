// The overview.
import type { ReactElement } from 'react';
import { Page } from '../parts/page.tsx';
import { words } from '../words.ts';

/** `/console/t/<slug>`. */
export function OverviewPage(): ReactElement {
  return <Page title={words.nav.overview}>…</Page>;
}
