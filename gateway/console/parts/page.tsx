// The frame of a page: its title, its actions, and sections.
import type { UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef, type ReactElement, type ReactNode } from 'react';
import { Link } from 'wouter';
import { words } from '../words.ts';
import { Loaded } from './problem.tsx';

interface PageProps {
  title: string;
  /** One line below the title. */
  lead?: ReactNode;
  /** Where this page belongs to: a link above the title. */
  parent?: { href: string; label: string };
  actions?: ReactNode;
  children: ReactNode;
}

let isFirst = true;

/** A page. The title is also that of the tab. */
export function Page({ title, lead, parent, actions, children }: PageProps): ReactElement {
  useEffect(() => {
    document.title = `${title} · ${words.product}`;
  }, [title]);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // The link that led here is gone with its page. Only the browser's own first focus is left alone.
    if (!isFirst && (document.activeElement ?? document.body) === document.body) heading.current?.focus();
    isFirst = false;
  }, []);
  return (
    <div className="page">
      <header className="page-head">
        <div className="page-title">
          {parent && (
            <Link className="page-parent" href={parent.href}>
              {parent.label}
            </Link>
          )}
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead !== undefined && <div className="page-lead">{lead}</div>}
        </div>
        {actions !== undefined && <div className="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** The page of one record, which has a title and a way back also where there is no such record. */
export function RecordPage<Data>({
  query,
  children,
  ...frame
}: Pick<PageProps, 'title' | 'parent'> & { query: UseQueryResult<Data>; children: (data: Data) => ReactNode }): ReactElement {
  const loaded = <Loaded query={query}>{children}</Loaded>;
  return query.isLoadingError ? <Page {...frame}>{loaded}</Page> : loaded;
}

/** A part of a page with a heading. */
export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }): ReactElement {
  return (
    <section className="section">
      <header className="section-head">
        <h2>{title}</h2>
        {actions !== undefined && <div className="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

/** Facts in two columns: a term and its value. Those without a value are left out. */
export function Facts({ facts }: { facts: [term: string, value: ReactNode][] }): ReactElement {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
        .map(([term, value]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A word about a state; its colour only repeats what the word says. */
export function Badge({ tone = 'plain', children }: { tone?: 'plain' | 'good' | 'warn' | 'bad'; children: ReactNode }): ReactElement {
  return <span className={`badge ${tone}`}>{children}</span>;
}
