// The icons of the console, drawn on a grid of 16 by 16.
import type { ReactElement } from 'react';

const paths = {
  overview: 'M2 2.500h5v6H2zM9 2.500h5v3H9zM9 7.500h5v6H9zM2 10.500h5v3H2z',
  accounts: 'M2.500 3h4M2.500 3v10.500M2.500 8h4M2.500 13.500h4M8.500 1.500h5v3h-5zM8.500 6.500h5v3h-5zM8.500 12h5v3h-5z',
  transactions: 'M2 5.500h11M10 2.500l3 3-3 3M14 10.500H3M6 7.500l-3 3 3 3',
  holds: 'M4 7V5a4 4 0 0 1 8 0v2M3 7h10v7H3zM8 10v1.500',
  reports: 'M3 1.500h7l3 3v10H3zM5.500 7.500h5M5.500 9.500h5M5.500 12h3',
  periods: 'M2.500 3.500h11v10h-11zM2.500 6.500h11M5.500 1.500v3M10.500 1.500v3',
  webhooks:
    'M5 10.500a2.500 2.500 0 1 0 2 2.500h4.500M9.500 5.500a2.500 2.500 0 1 0-3.500 2l-2 4M12 10.500a2.500 2.500 0 1 1-1 3.500l-2.500-5',
  events: 'M1.500 8h3l2-5 3 10 2-5h3',
  keys: 'M6 10a3.500 3.500 0 1 1 1.500-1.500L14 2M11 5l2 2',
  members:
    'M6 7.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM1.500 13.500c0-2.500 2-4 4.500-4s4.500 1.500 4.500 4M10.500 7.500a2 2 0 1 0 0-4M12 9.800c1.500.5 2.500 1.700 2.500 3.700',
  verification: 'M8 1.500l5.500 2v4.500c0 3-2.500 5-5.500 6.500-3-1.500-5.500-3.500-5.500-6.500V3.500zM5.500 8l2 2 3.500-4',
  settings: 'M2 4.500h6M12 4.500h2M10 2.500v4M2 11.500h2M8 11.500h6M6 9.500v4',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.500 10.500L14 14',
  add: 'M8 3v10M3 8h10',
  menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'M3.500 3.500l9 9M12.500 3.500l-9 9',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  left: 'M10 4L6 8l4 4',
  copy: 'M5.500 5.500h8v8h-8zM3 10.500H2.500v-8h8V3',
  check: 'M3 8.500l3.500 3.500L13 4.500',
  warning: 'M8 2l6.500 11.500h-13zM8 6.500v3.500M8 11.500v.5',
  lock: 'M4.500 7V5a3.500 3.500 0 0 1 7 0v2M3.500 7h9v6.500h-9z',
  remove: 'M3 8h10',
  table: 'M2 3h12v10H2zM2 6.500h12M6.500 6.500V13',
  plot: 'M2 13.500h12M2.500 11l3.500-4 3 2 4.500-6',
  external: 'M6 3H3v10h10v-3M9 2.500h4.500V7M13.500 2.500L7.500 8.500',
} as const;

/** The name of an icon. */
export type IconName = keyof typeof paths;

/** A drawing that says nothing which the text next to it does not. */
export function Icon({ name }: { name: IconName }): ReactElement {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} fill="none" stroke="currentColor" strokeWidth="1.4" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}

/** The mark of the product: a T account on a ruled page. */
export function Mark(): ReactElement {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" className="mark-page" />
      <path d="M6 10h20M16 10v16" className="mark-rule" strokeWidth="3" strokeLinecap="square" />
      <path d="M8.500 16h4M8.500 21h4M19.500 16h4" className="mark-entry" strokeWidth="2" />
    </svg>
  );
}
