// What stands where there is no page.
import type { ReactElement } from 'react';
import { LinkButton } from '../parts/button.tsx';
import { Page } from '../parts/page.tsx';
import { Empty } from '../parts/problem.tsx';
import { words } from '../words.ts';

/** The page. */
export function NotFoundPage(): ReactElement {
  return (
    <Page title={words.notFound}>
      <Empty title={words.notFoundHint} action={<LinkButton href="/">{words.toOverview}</LinkButton>} />
    </Page>
  );
}
